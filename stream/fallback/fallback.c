// SPDX-License-Identifier: BSD-2-Clause
/*
 * fallback.c - a paired stream leaves the ring for good: the kernel is to carry it, in both
 * directions or in one. Hooks call this by rsk_fd_fall_back() and its variants.
 */
#include "fallback.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "return_unread.h"
#include "log.h"
#include "recovery.h"
#include "over.h"
#include "relay.h"
#include "slot_repair.h"
#include "stream.h"

/*
 * True if our hooks, which can read the ring to its end first, use the socket from now on; false if
 * it is used where only the kernel is seen.
 */
static bool stays(enum rsk_reason why)
{
	switch (why) {
	case RSK_REASON_OOB:
	case RSK_REASON_ZEROCOPY:
	case RSK_REASON_FASTOPEN:
	case RSK_REASON_ASYNC:
	case RSK_REASON_EPOLL_EXCLUSIVE:
	case RSK_REASON_EPOLL_TAG:
	case RSK_REASON_EPOLL_SHARED:
	case RSK_REASON_EPOLL_PEERS:
	case RSK_REASON_FD_LIMIT:
	case RSK_REASON_MESSAGES:
		return true;
	default:
		return false;
	}
}

/*
 * If nothing else helps, a relay is made for these, or the call fails. For all other reasons our
 * hooks go on until the ring is drained.
 */
static bool needs_kernel(enum rsk_reason why)
{
	switch (why) {
	case RSK_REASON_EXEC:
	case RSK_REASON_STDIO:
	case RSK_REASON_PASSED:
	case RSK_REASON_SPLICE:
	case RSK_REASON_AIO:
	case RSK_REASON_IO_URING:
	case RSK_REASON_KTLS:
	case RSK_REASON_INHERITED: /* to an epoll set that is not tracked */
	/* TCP_REPAIR; a child that shares our memory, but not our descriptors */
	case RSK_REASON_UNSUPPORTED:
	case RSK_REASON_SECCOMP: /* the calls that reading a ring needs may be forbidden */
		return true;
	default:
		return false;
	}
}

/*
 * A relay takes the stream's bytes from all processes that hold the socket. A process that executes
 * a program with a copy of it, while others use theirs, has most often forgotten to set FD_CLOEXEC:
 * the bytes stay with those others, and the program does not see what they have not read yet. The
 * copy is intended if the descriptor is one of 0 to 2, if no other process has the socket, or if
 * FD_CLOEXEC was removed since the fork. What a vfork child inherits otherwise had left the ring
 * before, if necessary.
 */
static bool takes_relay(struct rsk_stream *s, int fd, enum rsk_reason why,
			const struct rsk_leaving *l)
{
	if (why != RSK_REASON_EXEC || fd <= STDERR_FILENO)
		return l->kernel;
	if (rsk_sys_getpid() != rsk_pid)
		return atomic_load(&s->closes) == RSK_CLOSES_VFORKED;
	return atomic_load(&s->closes) == RSK_CLOSES_FORKED || rsk_stream_sole_process(s);
}

/* How long a stream that leaves waits for the peer to repeat what was unread in the ring. */
#define LEAVE_WAIT_NS 200000000ull

/*
 * The same with bytes at stake. A process that forks, lets the child execute a program, and closes
 * its own descriptor does so while the child runs: it is waited for a while, once for all streams
 * of the child. *@until: as in rsk_fd_fall_back_exec().
 */
static bool takes_relay_in_time(struct rsk_stream *s, int fd, enum rsk_reason why,
				const struct rsk_leaving *l, uint64_t *until)
{
	while (!takes_relay(s, fd, why, l)) {
		if (!*until)
			*until = rsk_now_ns() + LEAVE_WAIT_NS;
		if (why != RSK_REASON_EXEC || rsk_sys_getpid() != rsk_pid || rsk_now_ns() >= *until)
			return false;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return true;
}

/*
 * True if what is sent next goes by TCP, and nothing that was put before can come behind it any
 * more.
 */
static bool settled(struct rsk_stream *s, int fd, enum rsk_reason why)
{
	struct rsk_kernel_tcp k;
	bool done;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, &k.c);
	rsk_tx_fall_back(&s->tx, &k.c);
	rsk_stream_note(s, true, why);
	done = rsk_tx_secure(&s->tx);
	rsk_unlock(&s->tx_lock);
	return done;
}

/* Before the next check: repeated bytes wait for room, nothing else shows at the socket. */
static void wait_a_little(const struct rsk_stream *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = rsk_tx_retransmits(&s->tx) ? POLLOUT : 0 };

	rsk_sys_ppoll(&p, 1, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/*
 * True if our hooks read the ring to its end first, if need be: on one host always, unless the
 * socket is handed to a user that sees only the kernel. What the peer is asked to repeat instead
 * comes when it makes a call.
 */
static bool reads_on(const struct rsk_stream *s, enum rsk_reason why, const struct rsk_leaving *l)
{
	return (!l->kernel && (stays(why) || !s->link->remote)) || rsk_stream_takes_nothing(s);
}

/* rsk_rx_fall_back(); the rx lock is held. */
static int fall_back_rx(struct rsk_stream *s, int fd, enum rsk_reason why, struct rsk_leaving *l)
{
	int rc = rsk_rx_fall_back(&s->rx, reads_on(s, why, l), &l->again);

	if (rc == -EPROTO)
		rsk_stream_fail(s, fd);
	else if (rc == -EAGAIN)
		rsk_slot_repair_want(s);
	rsk_stream_note(s, false, why);
	return rc;
}

/*
 * Between hosts the sender is asked first (rsk_rx_quiesce()), through its progress thread, whatever
 * its program does.
 */
static int fall_back_rx_later(struct rsk_stream *s, int fd, enum rsk_reason why,
			      struct rsk_leaving *l)
{
	int rc;

	rsk_sigdefer_enter();
	rsk_lock(&s->rx_lock);
	rc = fall_back_rx(s, fd, why, l);
	rsk_unlock(&s->rx_lock);
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	rsk_sigdefer_exit();
	return rc;
}

/*
 * Before the machine leaves: saves the bytes of a slot that was read in part, which the machine
 * drops then, and counts the bytes that the TCP socket will have before those that the peer
 * repeats. Both locks held.
 */
static void keep_quiesced(struct rsk_stream *s, int fd, struct rsk_leaving *l)
{
	int inq = 0;

	if (s->rx.state == RSK_RX_DRAIN_TCP) {
		l->before = s->rx.switch_at.pos - s->rx.pos;
		return;
	}
	/* The peer's sender writes nothing by TCP as long as it is on the ring. */
	rsk_sys_ioctl(fd, FIONREAD, &inq);
	l->before = (uint64_t)inq +
		    (s->rx.fallback.step == RSK_FALLBACK_ENDED ? rsk_return_unread(s, fd) : 0);
	if (!s->rx.partial.len)
		return;
	l->partial_len = s->rx.partial.len - s->rx.partial.off;
	l->stage = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (l->stage)
		memcpy(l->stage, s->rx.partial.bytes + s->rx.partial.off, l->partial_len);
}

/*
 * True if all that the peer has to repeat is in the kernel: the peer's death would not change that
 * any more. Between hosts the peer has said how much that is. A user that sees only the kernel
 * would take an end that comes before it for the stream's; for our hooks, who do not wait here, the
 * socket's bytes come as they come.
 */
static bool repeated(struct rsk_stream *s, int fd, const struct rsk_leaving *l)
{
	uint64_t bytes = l->before + l->partial_len, owed, got;
	int inq = 0;

	rsk_lock(&s->rx_lock);
	bytes += rsk_rx_relay_copy(&s->rx, s->rx.ring, NULL, 0);
	owed = l->kernel ? rsk_rx_tcp_owed(&s->rx) : 0;
	rsk_unlock(&s->rx_lock);
	if (owed && rsk_kernel_received(fd, &got) >= 0 && got < owed)
		return false;
	return rsk_sys_ioctl(fd, FIONREAD, &inq) < 0 || (uint64_t)inq >= bytes;
}

/*
 * Moves both directions to the TCP socket, for good. The peer finds FALLBACK_RX in its next call,
 * or in a wait, which is woken; or it has put a slot in that moment, which we then see: fence on
 * both sides (model: demotion).
 *
 * 0: only the kernel carries the stream. -EBUSY: not yet. Either bytes lie here that will not be
 * repeated, since the sender has gone on to the TCP socket, or has ended, behind them
 * (rsk_rx_fall_back()); or the sender was asked to repeat (l->again) and has not in time; or we
 * have bytes to repeat and there is no room. Nothing new comes to the ring meanwhile: we do not
 * watch it any more. Or, between hosts, the peer's progress thread has not answered in time; a
 * later answer is still applied. -EINPROGRESS: all is done here, and what the peer was asked to
 * repeat is not all in the kernel yet.
 */
static int leave(struct rsk_stream *s, int fd, enum rsk_reason why, struct rsk_leaving *l,
		 uint64_t *relay_until)
{
	bool out, keep, on = reads_on(s, why, l), over_is = rsk_over_unread(s) && !on;
	uint64_t until;
	int rc, over;

	/*
	 * What our hooks do not read, and no relay takes, must not be kept here; nor in a vfork
	 * child, whose descriptors are not those of the memory that it shares.
	 */
	keep = over_is && (!l->kernel || (rsk_sys_getpid() == rsk_pid &&
					  takes_relay_in_time(s, fd, why, l, relay_until)));
	until = rsk_now_ns() + LEAVE_WAIT_NS;

	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	s->tx.gave_up = true; /* we never propose again */
	s->rx.gave_up = true;
	/* If the sender moved while we write in its place, its bytes would come before ours. */
	if (!on)
		rsk_rx_end_it(&s->rx);
	keep_quiesced(s, fd, l);
	over = rsk_over_is(s) && !on ? rsk_over_back(s, fd, keep) : 0;
	if (over == -EIO)
		rsk_stream_abort(s, fd);
	rc = fall_back_rx(s, fd, why, l);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	out = settled(s, fd, why);
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	rsk_sigdefer_exit();
	atomic_thread_fence(memory_order_seq_cst);
	if (rc == -EAGAIN)
		rsk_recovery_call(s);
	while (rsk_now_ns() < until) {
		out = settled(s, fd, why);
		if (rc == -EAGAIN)
			rc = fall_back_rx_later(s, fd, why, l);
		if (out && rc != -EAGAIN && (!l->again || repeated(s, fd, l)))
			break;
		/* Waiting does not help for bytes that will not be repeated. */
		if (out && rc == -EBUSY)
			break;
		wait_a_little(s, fd);
	}
	if (rc == -EBUSY || rc == -EAGAIN || !out || rsk_over_unread(s))
		return -EBUSY;
	return l->again && !repeated(s, fd, l) ? -EINPROGRESS : 0;
}

/* Returns 0; -EAGAIN: it is not certain that no byte is lost, and the caller must not go on. */
static int fall_back_or_later(struct rsk_stream *s, int fd, enum rsk_reason why, bool kernel,
			      uint64_t *until)
{
	struct rsk_leaving l = { .kernel = kernel || needs_kernel(why) };
	int rc = 0;

	if (rsk_stream_phase(s) == RSK_PHASE_PAIRED) {
		rc = leave(s, fd, why, &l, until);
		/*
		 * Bytes that are repeated late still come in order, to our hooks as to the kernel's
		 * users.
		 */
		if (rc < 0 && takes_relay_in_time(s, fd, why, &l, until))
			rc = rsk_stream_relay(s, fd, why, &l);
		else if (rc == -EINPROGRESS)
			rc = 0;
		else if (rc == 0 && takes_relay(s, fd, why, &l))
			rc = rsk_stream_relay_error(s, fd);
		rsk_arena_free(l.stage);
		/* The kernel would not show what the program has yet to read of these. */
		if (rc == 0 && !l.kernel && rsk_zerocopy_pending(&s->zerocopy))
			rc = -EBUSY;
		if (rc < 0) {
			rsk_log(RSK_LOG_INFO, "fd %d: leaves when it is drained", fd);
			rsk_stats_set_reason(s->rec, why);
			atomic_store_explicit(&s->fallback_due, (uint8_t)why, memory_order_relaxed);
			rsk_epoll_falls_back(s);
			return takes_relay(s, fd, why, &l) ? -EAGAIN : 0;
		}
		atomic_store_explicit(&s->fallback_due, 0, memory_order_relaxed);
	}
	rsk_epoll_restore(s);
	if (rsk_stream_phase(s) != RSK_PHASE_UNTRACKED)
		rsk_stream_untrack(s, why);
	return 0;
}

void rsk_stream_fall_back_late(struct rsk_stream *s, int fd)
{
	uint8_t why;
	bool ready;

	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	/* A stream that never tried to leave does so now. */
	ready = !s->tx.gave_up || !s->rx.gave_up ||
		(rsk_tx_arrived(&s->tx) && rsk_rx_drained(&s->rx) && !rsk_over_unread(s) &&
		 !rsk_zerocopy_pending(&s->zerocopy));
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	why = ready ? atomic_exchange_explicit(&s->fallback_due, 0, memory_order_relaxed) : 0;
	if (why)
		fall_back_or_later(s, fd, (enum rsk_reason)why, false, &(uint64_t){ 0 });
}

static int fall_back_fd(int fd, enum rsk_reason why, bool kernel, uint64_t *until)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	int rc;

	if (!s)
		return 0;
	rc = rsk_stream_is_at(s, fd) ? fall_back_or_later(s, fd, why, kernel, until) : 0;
	rsk_stream_unpin(s);
	return rc;
}

int rsk_fd_fall_back(int fd, enum rsk_reason why)
{
	return fall_back_fd(fd, why, false, &(uint64_t){ 0 });
}

int rsk_fd_fall_back_exec(int fd, uint64_t *until)
{
	return fall_back_fd(fd, RSK_REASON_EXEC, false, until);
}

int rsk_fd_fall_back_now(int fd, enum rsk_reason why)
{
	return fall_back_fd(fd, why, true, &(uint64_t){ 0 });
}

/* A pending error comes first, as in the kernel's sends (sk_stream_error()). */
static int send_error(struct rsk_stream *s)
{
	int err;

	rsk_lock(&s->rx_lock);
	err = rsk_rx_take_error(&s->rx);
	rsk_unlock(&s->rx_lock);
	return err;
}

int rsk_fd_fall_back_tx(int fd, enum rsk_reason why)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	uint64_t until = rsk_now_ns() + LEAVE_WAIT_NS;
	bool out = false;
	int rc = 0;

	if (!s)
		return 0;
	if (rsk_stream_is_at(s, fd) && rsk_stream_phase(s) != RSK_PHASE_PAIRED) {
		rc = fall_back_or_later(s, fd, why, false, &(uint64_t){ 0 });
	} else if (rsk_stream_is_at(s, fd)) {
		rsk_lock(&s->tx_lock);
		s->tx.gave_up = true; /* the kernel's count is not ours any more */
		rsk_unlock(&s->tx_lock);
		while (!out && rc == 0) {
			rsk_sigdefer_enter();
			out = settled(s, fd, why);
			rsk_stream_notify(s, RSK_WAKE_RX);
			rsk_sigdefer_exit();
			if (out)
				rc = send_error(s);
			else if (rsk_now_ns() >= until)
				rc = -EAGAIN;
			else
				wait_a_little(s, fd);
		}
	}
	rsk_stream_unpin(s);
	return rc;
}

void rsk_fd_told(int fd, int err)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_lock(&s->rx_lock);
	/* EPIPE may as well be about our own direction's end */
	if (err != -EPIPE)
		rsk_rx_told(&s->rx, err);
	rsk_unlock(&s->rx_lock);
	rsk_stream_unpin(s);
}
