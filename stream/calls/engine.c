// SPDX-License-Identifier: BSD-2-Clause
/* engine.c - start and exit of the process. preload/ calls it. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "kin.h"
#include "pairing.h"
#include "progress.h"
#include "log.h"
#include "recovery.h"
#include "spin.h"
#include "stream.h"
#include "syscall_filter.h"
#include "upcalls.h"

#define TASK_LINKS_ALONE 3u /* link count of /proc/self/task: two, plus one for each thread */

void rsk_engine_prepare(const struct rsk_host *host)
{
	int saved = errno;

	rsk_host = host;
	rsk_upcalls_init();
	rsk_log_init();
	rsk_knobs_read();
	if (!rsk_knobs.disabled)
		rsk_fdtab_init();
	errno = saved;
}

void rsk_engine_begin(void)
{
	rsk_process_init();
	rsk_fdtab_begin();
}

void rsk_engine_init(const struct rsk_host *host)
{
	rsk_process_init();
	rsk_engine_prepare(host);
	rsk_fdtab_begin();
}

void rsk_engine_within_host(void)
{
	rsk_progress_forbid();
}

void rsk_engine_stop_promoting(enum rsk_reason why)
{
	int none = 0;

	atomic_compare_exchange_strong(&rsk_stopped, &none, (int)why);
}

bool rsk_engine_filtered(const struct sock_filter *code, size_t n)
{
	const struct rsk_filter_call *denied = rsk_filter_denies(code, n);

	if (denied)
		rsk_log(RSK_LOG_INFO, "a seccomp filter does not let call %d through", denied->nr);
	return !denied && rsk_progress_forbid();
}

/*
 * Other processes that have a socket in common with this one cannot be told any more when it is
 * closed here, and so take it for open as long as this process or the program that it executes
 * lives: what they have stays on TCP.
 */
void rsk_engine_kernel_only(void)
{
	for (int fd = rsk_fd_next(0); fd >= 0; fd = rsk_fd_next(fd + 1)) {
		uintptr_t w = rsk_fd_word(fd);
		struct rsk_stream *s = rsk_fd_stream(w);
		bool is_set = w >= RSK_FD_NO_POINTER && (w & RSK_FD_EPOLL);
		struct rsk_epoll *e = is_set ? rsk_fd_object(w) : NULL;

		if (rsk_fd_ours(fd))
			continue;
		if (s)
			rsk_kin_survives(&s->fork.kin, true);
		if (e) {
			rsk_epoll_fork(&e, &fd, 1);
			rsk_epoll_fork_over(&e, 1, false);
		}
	}
	atomic_store(&rsk_kernel_only_set, true);
}

/* ---- exit ---- */

/* True: the process has no other thread. False also where that cannot be determined. */
static bool alone(void)
{
	struct stat st;

	return rsk_sys_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0 &&
	       st.st_nlink == TASK_LINKS_ALONE + rsk_progress_there();
}

void rsk_exit(void)
{
	uint32_t high = rsk_fd_high();
	bool one;

	if (!rsk_fdtab.word || !rsk_pid || !rsk_exit_begins() || rsk_kernel_only())
		return;
	rsk_spun_tell();
	if (rsk_knobs.stat_file && *rsk_knobs.stat_file && rsk_stats_segment()) {
		rsk_fd_name_all();
		rsk_stats_append(rsk_knobs.stat_file);
	}
	/*
	 * Does what the kernel will do in a moment, and in the same order. Other threads run until
	 * that moment, and handlers and destructors to come may wait for them: for them nothing
	 * changes, and only the holder counts are decremented. The peers then see what they see of
	 * a killed process. Streams between hosts go by their TCP sockets.
	 */
	one = alone();
	if (!one && rsk_progress_runs())
		rsk_recovery_exit();
	for (uint32_t i = 0; i < high; i++) {
		if (!rsk_fd_word((int)i) || rsk_fd_ours((int)i))
			continue;
		if (one)
			rsk_fd_closing((int)i);
		else
			rsk_fd_leaving((int)i);
	}
	rsk_progress_finish(RSK_RECOVERY_PATIENCE_NS);
	if (one) {
		rsk_recovery_end();
		rsk_pairing_leave();
	}
}
