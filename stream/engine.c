// SPDX-License-Identifier: BSD-2-Clause
/* engine.c - start, knobs, the library's own fds, the fd table, and the end of the process. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <rsock/local.h>
#include <rsock/sys.h>

#include "keeper.h"
#include "log.h"
#include "mend.h"
#include "spin.h"
#include "stream.h"

#define FD_TABLE_MAX (1u << 20)
#define PAGE_BYTES 4096u
#define TABLE_BYTES                                                                                \
	(PAGE_BYTES + FD_TABLE_MAX * sizeof(uintptr_t)) /* the process id, and the table */
#define TASK_LINKS_ALONE 3u /* of /proc/self/task: two, and one for each thread */

struct rsk_fdtab rsk_fdtab;
struct rsk_knobs rsk_knobs;
_Atomic(int) rsk_stopped;
const struct rsk_host *rsk_host;
static int pid_of_start;
int *rsk_pid_word = &pid_of_start;

static _Atomic(uint32_t) fd_high; /* entries from here on were never used */

uint64_t rsk_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t rsk_tick_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t knob(const char *name, uint64_t def, uint64_t min, uint64_t max)
{
	const char *s = getenv(name);
	char *end;
	unsigned long long v;

	if (!s || !*s)
		return def;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || *s == '-' || v < min || v > max) {
		rsk_log(RSK_LOG_ERROR, "%s=%s: not a number from %llu to %llu, %llu is used", name,
			s, (unsigned long long)min, (unsigned long long)max,
			(unsigned long long)def);
		return def;
	}
	return v;
}

static struct rsk_order_form order_knob(const char *s)
{
	struct rsk_order_form form = { 0 };
	const char *why;

	if (s && *s && rsk_order_parse(&form, s, &why) < 0)
		rsk_log(RSK_LOG_ERROR, "RSOCK_RDMA_ORDER=%s: %s; %s is used", s, why,
			RSK_ORDER_DEFAULT);
	if (!form.bits)
		rsk_order_parse(&form, RSK_ORDER_DEFAULT, &why);
	return form;
}

static uint32_t power_of_two(uint64_t v)
{
	uint32_t p = RSK_SEG_MIN_RING;

	while (p < v && p < RSK_SEG_MAX_RING)
		p <<= 1;
	return p;
}

void rsk_engine_init(const struct rsk_host *host)
{
	int saved = errno;
	struct rsk_policy policy = RSK_POLICY_DEFAULT;
	void *p;

	rsk_host = host;
	rsk_pid = rsk_sys_getpid();
	rsk_log_init();
	rsk_knobs.disabled = knob("RSOCK_DISABLE", 0, 0, 1);
	rsk_knobs.spin_set = getenv("RSOCK_SPIN_US");
	rsk_knobs.spin_ns = (uint32_t)knob("RSOCK_SPIN_US", 50, 0, 1000000) * 1000u;
	rsk_knobs.ring_bytes =
		power_of_two(knob("RSOCK_RING_KB", 512, 16, RSK_SEG_MAX_RING >> 10) << 10);
	rsk_knobs.rdma_ring_bytes =
		power_of_two(knob("RSOCK_RDMA_RING_KB", 128, 16, RSK_SEG_MAX_RING >> 10) << 10);
	rsk_knobs.rdma_rails =
		(uint32_t)knob("RSOCK_RDMA_RAILS", RSK_RAILS_MOST, 1, RSK_RAILS_MOST);
	rsk_knobs.order = order_knob(getenv("RSOCK_RDMA_ORDER"));
	rsk_knobs.apart = !knob("RSOCK_SHM", 1, 0, 1);
	policy.earn_calls = (uint32_t)knob("RSOCK_EARN_CALLS", policy.earn_calls, 0, UINT32_MAX);
	policy.earn_bytes = knob("RSOCK_EARN_BYTES", policy.earn_bytes, 0, UINT64_MAX);
	rsk_knobs.policy = policy;
	rsk_knobs.stat_file = getenv("RSOCK_STAT_FILE");
	rsk_knobs.daemon = getenv("RSOCK_DAEMON");
	if (!rsk_knobs.daemon)
		rsk_knobs.daemon = RSK_LOCAL_PATH;
	p = rsk_sys_mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!rsk_knobs.disabled && !rsk_sys_is_err(p)) {
		rsk_fdtab.word = (_Atomic(uintptr_t) *)(void *)((uint8_t *)p + PAGE_BYTES);
		rsk_fdtab.size = FD_TABLE_MAX;
		/*
		 * A child finds zeros. What forks by our hooks fills its table again (fork.c); the child of a fork that
		 * nobody saw has nothing tracked, and no process id: it leaves alone what its parent has in memory.
		 */
		if (rsk_sys_madvise(p, TABLE_BYTES, MADV_WIPEONFORK) == 0) {
			rsk_pid_word = p;
			rsk_pid = pid_of_start;
		}
	}
	errno = saved;
}

void rsk_engine_stop_promoting(enum rsk_reason why)
{
	int none = 0;

	atomic_compare_exchange_strong(&rsk_stopped, &none, (int)why);
}

/* ---- the table ---- */

static void raise_high(int fd)
{
	uint32_t high = atomic_load_explicit(&fd_high, memory_order_relaxed);

	while ((uint32_t)fd >= high &&
	       !atomic_compare_exchange_weak(&fd_high, &high, (uint32_t)fd + 1))
		;
}

static void fd_set_word(int fd, uintptr_t word)
{
	if ((uint32_t)fd >= rsk_fdtab.size)
		return;
	if (word)
		raise_high(fd);
	atomic_store_explicit(&rsk_fdtab.word[fd], word, memory_order_release);
}

void rsk_fd_put(int fd, uintptr_t word)
{
	fd_set_word(fd, word);
}

bool rsk_fd_put_if(int fd, uintptr_t is, uintptr_t word)
{
	if ((uint32_t)fd >= rsk_fdtab.size)
		return false;
	if (word)
		raise_high(fd);
	return atomic_compare_exchange_strong(&rsk_fdtab.word[fd], &is, word);
}

uint32_t rsk_fd_high(void)
{
	return atomic_load_explicit(&fd_high, memory_order_acquire);
}

/* Replace @from by @to wherever it stands (a stream gets cold, hot). */
void rsk_fd_replace(uintptr_t from, uintptr_t to)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = from;

		if (!atomic_compare_exchange_strong(&rsk_fdtab.word[i], &w, to) &&
		    w == (from | RSK_FD_LEFT))
			atomic_compare_exchange_strong(&rsk_fdtab.word[i], &w, to | RSK_FD_LEFT);
	}
}

int rsk_fd_next(int from)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = from < 0 ? 0 : (uint32_t)from; i < high; i++)
		if (rsk_fd_word((int)i))
			return (int)i;
	return -1;
}

/* ---- our own fds: high, so that the application's numbers stay low ---- */

/* So few numbers are all the application's. */
#define FD_LIMIT_LEAST 256

/* The lowest number for one of ours, by the limit as it is now; -EMFILE: there are too few. */
static int own_base_now(void)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	uint64_t base;

	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < FD_LIMIT_LEAST)
		return -EMFILE;
	if (lim.rlim_cur > FD_TABLE_MAX)
		lim.rlim_cur = FD_TABLE_MAX;
	base = lim.rlim_cur - lim.rlim_cur / 4;
	if (lim.rlim_cur - base > 8192)
		base = lim.rlim_cur - 8192;
	return (int)base;
}

/* The lowest number of the last time: a hint, the kernel says when it is too high; 0: not known. */
static _Atomic(int) own_base;

static int copy_up(int fd, int base)
{
	int high = rsk_sys_fcntl(fd, F_DUPFD_CLOEXEC, base);

	if (high < 0)
		return high == -EINVAL ? -EMFILE : high;
	if ((uint32_t)high >= rsk_fdtab.size) {
		rsk_sys_close(high);
		return -EMFILE;
	}
	fd_set_word(high, RSK_FD_OWN);
	return high;
}

static int copy_by_limit(int fd)
{
	int base = own_base_now();

	if (base < 0)
		return base;
	atomic_store_explicit(&own_base, base, memory_order_relaxed);
	return copy_up(fd, base);
}

int rsk_own_fd_copy(int fd)
{
	int base = atomic_load_explicit(&own_base, memory_order_relaxed);
	int high = fd < 0 ? fd : -EMFILE;

	if (fd >= 0 && base)
		high = copy_up(fd, base);
	/* Full, or the limit has been lowered since. */
	return fd >= 0 && high == -EMFILE ? copy_by_limit(fd) : high;
}

/* It stays for long: it is to lie above the application's by the limit of now. */
int rsk_own_fd(int fd)
{
	int high = fd < 0 ? fd : copy_by_limit(fd);

	if (fd >= 0)
		rsk_sys_close(fd);
	return high;
}

void rsk_own_close(int fd)
{
	if (fd < 0 || !rsk_fd_ours(fd))
		return;
	fd_set_word(fd, 0);
	rsk_sys_close(fd);
}

/* ---- the end ---- */

/* No other thread is there to notice. Where that cannot be seen, one may be. */
static bool alone(void)
{
	struct stat st;

	return rsk_sys_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0 &&
	       st.st_nlink == TASK_LINKS_ALONE + rsk_keeper_there();
}

static _Atomic(int) done_pid;

bool rsk_exiting(void)
{
	return atomic_load(&done_pid) == rsk_pid;
}

void rsk_exit(void)
{
	uint32_t high = rsk_fd_high();
	int seen = atomic_load(&done_pid);
	bool one;

	if (!rsk_fdtab.word || !rsk_pid || seen == rsk_pid ||
	    !atomic_compare_exchange_strong(&done_pid, &seen, rsk_pid))
		return;
	rsk_spun_tell();
	if (rsk_knobs.stat_file && *rsk_knobs.stat_file && rsk_stats_segment()) {
		rsk_fd_name_all();
		rsk_stats_append(rsk_knobs.stat_file);
	}
	/*
	 * As the kernel will do in a moment, and in the same order. Other threads go on until that moment, and handlers
	 * and destructors to come may wait for them: to them all stays as it is, and only the count of holders goes
	 * down. The peers then see what they see of a killed process. Streams between hosts go by their companions.
	 */
	one = alone();
	if (!one && rsk_keeper_runs())
		rsk_mend_exit();
	for (uint32_t i = 0; i < high; i++) {
		if (!rsk_fd_word((int)i) || rsk_fd_ours((int)i))
			continue;
		if (one)
			rsk_fd_closing((int)i);
		else
			rsk_fd_leaving((int)i);
	}
	rsk_keeper_finish(RSK_MEND_PATIENCE_NS);
	if (one) {
		rsk_mend_end();
		rsk_join_leave();
	}
}
