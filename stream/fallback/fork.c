// SPDX-License-Identifier: BSD-2-Clause
/*
 * fork.c - fork and exec; the hooks of fork(), vfork() and exec call this. A child gets nothing by
 * which it could reach what its parent shares with peers, and no memory that its parent reads: it
 * may drop privileges at any later time (docs/adr/privileges.md).
 *
 * Before: streams go by TCP (family.h), epoll sets are as the kernel has them, all locks are taken,
 * so that the copy is consistent, and the fd table, which a child finds empty, is written to a
 * list. After: the parent continues; the child fills its table again, closes the library's
 * descriptors, and cuts off its copies of the streams.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "engine.h"
#include "epoll.h"
#include "family.h"
#include "pairing.h"
#include "progress.h"
#include "kin.h"
#include "links.h"
#include "log.h"
#include "news.h"
#include "recovery.h"
#include "over.h"
#include "relay.h"
#include "stream.h"
#include "wait.h"

struct entry {
	uintptr_t word;
	int fd;
};

/*
 * Of the fork in progress: owned by the thread that holds the pairing lock. The child has a copy of
 * the lists.
 */
static struct {
	uint32_t stamp;
	struct entry *entry;
	uint32_t entries, room;
	struct rsk_stream **stream; /* each once, pinned */
	int *stream_fd;
	uint32_t streams;
	struct rsk_epoll **set;
	int *set_fd;
	uint32_t sets;
} fork_now;

static __thread bool prepared; /* this thread's fork went through rsk_fork_prepare() */

/* ---- before ---- */

static uint32_t count_words(void)
{
	uint32_t n = 0;

	for (int fd = rsk_fd_next(0); fd >= 0; fd = rsk_fd_next(fd + 1))
		n++;
	return n;
}

static bool known_set(const struct rsk_epoll *e)
{
	for (uint32_t i = 0; i < fork_now.sets; i++)
		if (fork_now.set[i] == e)
			return true;
	return false;
}

static void list_object(uintptr_t w, int fd)
{
	struct rsk_stream *s = rsk_fd_stream(w);

	if (w & RSK_FD_EPOLL) {
		if (!known_set(rsk_fd_object(w))) {
			fork_now.set_fd[fork_now.sets] = fd;
			fork_now.set[fork_now.sets++] = rsk_fd_object(w);
		}
		return;
	}
	if (!s || s->fork.stamp == fork_now.stamp || !rsk_stream_pin(s))
		return;
	s->fork.stamp = fork_now.stamp;
	fork_now.stream_fd[fork_now.streams] = fd;
	fork_now.stream[fork_now.streams++] = s;
}

/* False: no memory. */
static bool list_all(void)
{
	uint32_t n = count_words();
	uint8_t *at;

	memset(&fork_now.entry, 0, sizeof(fork_now) - offsetof(__typeof__(fork_now), entry));
	fork_now.stamp++;
	if (!n)
		return true;
	/* As many more for what is made for this fork: a file for each stream, two sockets. */
	fork_now.room = 2 * n + 2;
	at = rsk_arena_alloc_raw(fork_now.room * sizeof(struct entry) +
				 n * (2 * sizeof(void *) + 2 * sizeof(int)));
	if (!at)
		return false;
	fork_now.entry = (struct entry *)(void *)at;
	fork_now.stream = (struct rsk_stream **)(void *)(fork_now.entry + fork_now.room);
	fork_now.set = (struct rsk_epoll **)(void *)(fork_now.stream + n);
	fork_now.stream_fd = (int *)(void *)(fork_now.set + n);
	fork_now.set_fd = fork_now.stream_fd + n;
	for (int fd = rsk_fd_next(0); fd >= 0 && fork_now.entries < n; fd = rsk_fd_next(fd + 1)) {
		uintptr_t w = rsk_fd_word(fd);

		if (!w || w == RSK_FD_OWN)
			continue;
		if (rsk_fd_marked(w)) { /* either process may change the mode for both */
			uintptr_t less = w & ~(uintptr_t)(RSK_FD_MODE | RSK_FD_NONBLOCK);

			rsk_fd_put_if(fd, w, less);
			w = less;
		}
		fork_now.entry[fork_now.entries++] = (struct entry){ w, fd };
		if (w >= RSK_FD_NO_POINTER)
			list_object(w, fd);
	}
	return true;
}

/*
 * The library's descriptors, including those made for this fork. The child must know, and close,
 * all of them.
 */
static void list_own(void)
{
	if (!fork_now.entry)
		return;
	for (int fd = rsk_fd_next(0); fd >= 0 && fork_now.entries < fork_now.room;
	     fd = rsk_fd_next(fd + 1))
		if (rsk_fd_ours(fd))
			fork_now.entry[fork_now.entries++] = (struct entry){ RSK_FD_OWN, fd };
}

static void free_list(void)
{
	for (uint32_t i = 0; i < fork_now.streams; i++)
		rsk_stream_unpin(fork_now.stream[i]);
	rsk_arena_free(fork_now.entry);
	memset(&fork_now.entry, 0, sizeof(fork_now) - offsetof(__typeof__(fork_now), entry));
}

static void each_shared(void (*add)(struct rsk_shared *obj))
{
	for (uint32_t i = 0; i < fork_now.streams; i++)
		add(&fork_now.stream[i]->fork.kin);
	for (uint32_t i = 0; i < fork_now.sets; i++)
		add(rsk_epoll_kin(fork_now.set[i]));
}

static void lock_streams(void)
{
	for (uint32_t i = 0; i < fork_now.streams; i++) {
		rsk_lock(&fork_now.stream[i]->tx_lock);
		rsk_lock(&fork_now.stream[i]->rx_lock);
	}
}

static void unlock_streams(void)
{
	for (uint32_t i = fork_now.streams; i-- > 0;) {
		rsk_unlock(&fork_now.stream[i]->rx_lock);
		rsk_unlock(&fork_now.stream[i]->tx_lock);
	}
}

/*
 * Whether a program that the child executes inherits @fd, a descriptor of a paired stream, as it is
 * now.
 */
static bool is_inherited(struct rsk_stream *s, int fd, enum rsk_closes closes)
{
	bool none = rsk_sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC;

	atomic_store(&s->closes, none && atomic_load(&s->fds) == 1 ? closes : RSK_CLOSES_NOT);
	return !none;
}

void rsk_fork_prepare(void)
{
	/* The child of a process that is the kernel's alone finds nothing tracked. */
	prepared = rsk_pid && rsk_fdtab.word && !rsk_kernel_only();
	if (!prepared)
		return;
	rsk_recovery_fork();
	rsk_progress_fork();
	rsk_pairing_fork();
	rsk_recovery_forks();
	if (!list_all())
		rsk_log(RSK_LOG_ERROR, "fork: no memory: the child does not know its sockets");
	for (uint32_t i = 0; i < fork_now.streams; i++) {
		struct rsk_stream *s = fork_now.stream[i];

		atomic_store(&s->closes, RSK_CLOSES_NOT);
		if (rsk_stream_phase(s) == RSK_PHASE_PAIRED)
			is_inherited(s, fork_now.stream_fd[i], RSK_CLOSES_FORKED);
		rsk_stream_share(s, fork_now.stream_fd[i]);
	}
	rsk_streams_settle(fork_now.stream, fork_now.stream_fd, fork_now.streams);
	rsk_epoll_fork(fork_now.set, fork_now.set_fd, fork_now.sets);
	lock_streams();
	rsk_kin_fork(each_shared);
	list_own();
	rsk_arena_fork(true);
}

void rsk_fork_parent(bool ok)
{
	if (!prepared)
		return;
	/* That field is only for the child. */
	for (uint32_t i = 0; i < fork_now.streams; i++)
		atomic_store(&fork_now.stream[i]->closes, RSK_CLOSES_NOT);
	rsk_arena_fork(false);
	rsk_kin_fork_parent(ok);
	unlock_streams();
	rsk_epoll_fork_over(fork_now.set, fork_now.sets, false);
	free_list();
	rsk_pairing_fork_parent();
	rsk_progress_fork_parent();
	rsk_recovery_fork_over(false);
}

/* ---- the child ---- */

/* The parent may be in its exit(); the child is not. */
static void fill_table(void)
{
	for (uint32_t i = 0; i < fork_now.entries; i++) {
		const struct entry *e = &fork_now.entry[i];
		bool left = rsk_fd_left(e->word);

		rsk_fd_put(e->fd, left ? e->word & ~(uintptr_t)RSK_FD_LEFT : e->word);
		if (left && (e->word & RSK_FD_EPOLL))
			rsk_epoll_stays(rsk_fd_object(e->word));
		else if (left)
			atomic_fetch_add(&rsk_fd_stream(e->word)->fds, 1);
	}
}

static void inherit(void)
{
	bool asleep = rsk_wait_asleep();

	for (uint32_t i = 0; i < fork_now.streams; i++) {
		struct rsk_stream *s = fork_now.stream[i];
		enum rsk_reason why = RSK_REASON_DIRECT;
		uint32_t was = rsk_stream_phase(s);

		rsk_stream_inherit(s, asleep);
		if (was == RSK_PHASE_UNTRACKED)
			why = RSK_REASON_INHERITED;
		else if (was == RSK_PHASE_PAIRED && rsk_stream_phase(s) != RSK_PHASE_CANDIDATE)
			why = RSK_REASON_SHARED_HOLDER;
		rsk_stream_record_anew(s, why);
	}
	for (uint32_t i = 0; i < fork_now.entries; i++) {
		int fd = fork_now.entry[i].fd;
		struct rsk_stream *s = rsk_fd_stream(rsk_fd_word(fd));

		if (s && rsk_stream_phase(s) == RSK_PHASE_UNTRACKED)
			rsk_fd_put(fd, rsk_fd_word(fd) & ~(uintptr_t)RSK_FD_TRACKED);
	}
}

static bool is_over(int fd)
{
	for (uint32_t i = 0; i < fork_now.streams; i++)
		if (atomic_load(&fork_now.stream[i]->over.fd) == fd)
			return true;
	return false;
}

/* Closes all descriptors of the library that were not made for this child. */
static void close_ours(void)
{
	for (uint32_t i = 0; i < fork_now.entries; i++) {
		int fd = fork_now.entry[i].fd;

		if (fork_now.entry[i].word == RSK_FD_OWN && rsk_fd_ours(fd) && !rsk_kin_fd(fd) &&
		    !is_over(fd) && !rsk_wait_keeps(fd))
			rsk_own_close(fd);
	}
}

void rsk_fork_child(bool by_libc)
{
	if (!prepared)
		return;
	rsk_pid = rsk_sys_getpid();
	rsk_tid = 0;
	rsk_arena_fork(false);
	fill_table();
	rsk_kin_fork_child();
	unlock_streams();
	rsk_epoll_fork_over(fork_now.set, fork_now.sets, true);
	rsk_links_forked(rsk_wait_asleep());
	rsk_news_forked(rsk_wait_asleep());
	rsk_pairing_fork_child();
	rsk_progress_fork_child(by_libc);
	rsk_recovery_fork_over(true);
	rsk_streams_forked();
	close_ours();
	inherit();
	free_list();
}

/* ---- exec ---- */

/*
 * The new program may use what it inherits, and sees only the kernel; whether it does cannot be
 * known, and a stream on TCP is right either way. @w: the table entry of @fd, a stream. *@until: as
 * in rsk_fd_fall_back_exec().
 */
static int fall_back_inherited(int fd, uintptr_t w, uint64_t *until)
{
	int flags;

	if (!rsk_fd_stream(w) || rsk_fd_ours(fd))
		return 0;
	flags = rsk_sys_fcntl(fd, F_GETFD, 0);
	return flags < 0 || (flags & FD_CLOEXEC) ? 0 : rsk_fd_fall_back_exec(fd, until);
}

int rsk_exec_vforked(void)
{
	uint32_t high = rsk_kernel_only() ? 0 : rsk_fd_high();
	uint64_t until = 0;
	int rc = 0;

	for (uint32_t i = 0; i < high && rc == 0; i++)
		rc = fall_back_inherited((int)i, rsk_fd_word((int)i), &until);
	return rc;
}

static bool has_unread(struct rsk_stream *s, int fd)
{
	bool unread;

	rsk_stream_serve(s, fd);
	rsk_lock(&s->rx_lock);
	unread = rsk_rx_unread(&s->rx) || rsk_over_unread(s);
	rsk_unlock(&s->rx_lock);
	return unread;
}

/*
 * A relay that is made in the child has its bytes to itself; one that is made now is shared, as the
 * kernel's queue is. So a stream that has unread bytes and that the program is going to inherit, as
 * far as can be seen now, leaves the ring now.
 */
void rsk_vfork_prepare(void)
{
	for (int fd = rsk_fd_next(0); fd >= 0; fd = rsk_fd_next(fd + 1)) {
		struct rsk_stream *s = rsk_fd_ours(fd) ? NULL : rsk_stream_of(fd);

		if (!s)
			continue;
		atomic_store(&s->closes, RSK_CLOSES_NOT);
		if (rsk_stream_phase(s) == RSK_PHASE_PAIRED &&
		    is_inherited(s, fd, RSK_CLOSES_VFORKED) && has_unread(s, fd) &&
		    rsk_stream_sole_process(s))
			rsk_fd_fall_back(fd, RSK_REASON_EXEC);
		rsk_stream_unpin(s);
	}
}

/* Streams that the next program inherits. */
static void each_survivor(void (*each)(int fd, struct rsk_stream *s))
{
	for (int fd = rsk_fd_next(0); fd >= 0; fd = rsk_fd_next(fd + 1)) {
		struct rsk_stream *s = rsk_fd_stream(rsk_fd_word(fd));
		int flags = s ? rsk_sys_fcntl(fd, F_GETFD, 0) : -1;

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			each(fd, s);
	}
}

/*
 * Streams of this process only that the next program does not inherit; @each handles those with
 * bytes to repeat by TCP.
 */
static int each_closed(int (*each)(int fd, struct rsk_stream *s))
{
	int rc = 0;

	for (int fd = rsk_fd_next(0); fd >= 0 && rc == 0; fd = rsk_fd_next(fd + 1)) {
		struct rsk_stream *s = rsk_fd_ours(fd) ? NULL : rsk_stream_of(fd);

		if (!s)
			continue;
		if (rsk_stream_phase(s) == RSK_PHASE_PAIRED &&
		    (rsk_sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC)) {
			rsk_sigdefer_enter();
			rsk_lock(&s->tx_lock);
			rc = each(fd, s);
			rsk_unlock(&s->tx_lock);
			rsk_sigdefer_exit();
		}
		rsk_stream_unpin(s);
	}
	return rc;
}

/* Of the exec in progress in this thread: a pipe that is open until the new program has started. */
static __thread int executing[2] = { -1, -1 };

static int give_owed(int fd, struct rsk_stream *s)
{
	struct rsk_kernel_tcp k;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_tx_serve(&s->tx, &k.c);
	if (!rsk_tx_retransmits(&s->tx) || s->tx.passed_on)
		return 0;
	if (executing[0] < 0) {
		int rc = rsk_sys_pipe2(executing, O_CLOEXEC);

		if (rc < 0)
			return rc;
		executing[0] = rsk_own_fd(executing[0]);
		executing[1] = rsk_own_fd(executing[1]);
		if (executing[0] < 0 || executing[1] < 0)
			return -EMFILE;
	}
	return rsk_stream_give_owed(s, fd, RSK_OWED_ENDING, executing[0]);
}

static int take_owed(int fd, struct rsk_stream *s)
{
	(void)fd;
	s->tx.passed_on = s->tx.passed_on && !rsk_tx_retransmits(&s->tx);
	return 0;
}

/* There is no new program: this process repeats the bytes, as before. */
static void take_back(void)
{
	if (executing[0] < 0 && executing[1] < 0)
		return;
	rsk_sys_write(executing[1], "", 1);
	each_closed(take_owed);
	for (int i = 0; i < 2; i++) {
		rsk_own_close(executing[i]);
		executing[i] = -1;
	}
}

static void survives(int fd, struct rsk_stream *s)
{
	(void)fd;
	rsk_kin_survives(&s->fork.kin, true);
}

static void survives_not(int fd, struct rsk_stream *s)
{
	(void)fd;
	rsk_kin_survives(&s->fork.kin, false);
}

/*
 * Another program takes over. A descriptor with CLOEXEC is treated like one of a killed process:
 * the ring says what was sent. One that stays open is used there without the library, and its
 * stream goes back to TCP. Whether it is used cannot be known, and a stream on TCP is right either
 * way.
 */
int rsk_exec_prepare(void)
{
	int rc = rsk_exec_vforked();

	if (rc < 0 || rsk_kernel_only())
		return rc;
	each_survivor(survives);
	rsk_progress_finish(RSK_RECOVERY_PATIENCE_NS);
	rc = each_closed(give_owed);
	if (rc < 0)
		rsk_exec_failed();
	return rc < 0 ? -EAGAIN : 0;
}

/* Streams that have left the ring do not return to it. */
void rsk_exec_failed(void)
{
	if (rsk_kernel_only())
		return;
	take_back();
	each_survivor(survives_not);
}
