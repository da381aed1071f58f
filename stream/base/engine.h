/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - the interface of the engine that the hooks (preload/) call. It is in the lowest layer
 * of stream/, since each layer implements a part of it.
 *
 * A hook looks the descriptor up (rsk_fd_tracked(): one load). For an untracked one it calls libc
 * directly. For a tracked one it first asks the engine whether the call can be done at once
 * (rsk_fast_path_recv(), rsk_fast_path_send()). If not (RSK_SLOW_PATH), the hook begins an
 * operation, which decides whether the kernel or the engine carries the call, and ends it with the
 * result. preload/hook.h wraps this as RSK_SCOPE, rsk_scope_recv() and rsk_scope_send(), with an
 * example:
 *
 *	if (rsk_op_begin(&op, fd, RSK_OP_RECV) == RSK_KERNEL)
 *		n = the real call;				(-1 and errno, as libc says)
 *	else
 *		n = rsk_result(rsk_op_recv(&op, &iov, 1, 0));	(sets errno; -1 on error)
 *	rsk_op_end(&op, n);
 *
 * Functions of the engine return 0, a count or -errno and never touch errno. None allocates from
 * the heap or uses stdio. All may be called from a signal handler: critical sections are
 * signal-deferred (sigdefer.h), and no lock is held while sleeping.
 */
#ifndef RSK_ENGINE_H
#define RSK_ENGINE_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <rsock/reason.h>

#include "fdtab.h"
#include "sigdefer.h"
#include "host.h"
#include "process.h"

struct rsk_stream;

/* ---- process ------------------------------------------------------------------------------- */

/*
 * rsk_engine_init - called once, by the constructor or by the first hook, whichever comes first.
 * @host: libc's real blocking calls (host.h), borrowed forever. Reads the RSOCK_* environment.
 * Creates only private memory.
 *
 * The same in two parts: rsk_engine_prepare() makes no system call but mmap(); rsk_engine_begin()
 * is called once, later, while other threads may make calls that concern no stream yet: it writes
 * nothing that they read.
 */
void rsk_engine_init(const struct rsk_host *host);
void rsk_engine_prepare(const struct rsk_host *host);
void rsk_engine_begin(void);

/*
 * Called once, after rsk_engine_init(): TCP connections that the program has found when it started
 * become streams, at 0 to 2 if it cannot use stdio there. A program that finds no socket makes some
 * calls of fstat(2), and no other.
 */
void rsk_fd_at_start(void);
/*
 * Whether there may be such connections: any sockets. Before rsk_engine_begin(); makes no system
 * call but by libc's fstat(), as the loader does.
 */
bool rsk_fd_any_at_start(void);

/* The process makes no links to other hosts; called before rsk_engine_begin(). */
void rsk_engine_within_host(void);

/*
 * fork(): call prepare in the parent before it, then exactly one of parent (@ok: the child exists)
 * and child. @by_libc: libc's fork() made the child, which gives it the locks of malloc() and of
 * the loader free, whatever other threads of the parent were doing.
 */
void rsk_fork_prepare(void);
void rsk_fork_parent(bool ok);
void rsk_fork_child(bool by_libc);

/*
 * exec*(): call rsk_exec_prepare() directly before the real call (in a fork child or in the process
 * itself, never in a vfork child), and rsk_exec_failed() if the call returned. Returns 0, or
 * -EAGAIN: exec must fail, and nothing was counted. Streams whose only holder calls exec fall back
 * to TCP; copies that another process still uses are left as they are.
 */
int rsk_exec_prepare(void);
void rsk_exec_failed(void);

/*
 * Called in the parent before vfork() and similar calls: the child is going to execute a program.
 */
void rsk_vfork_prepare(void);

/*
 * As rsk_exec_prepare(), in a vfork child, which shares its parent's memory, and before
 * posix_spawn(): streams without FD_CLOEXEC fall back to TCP, and nothing is counted. Returns 0, or
 * -EAGAIN: the call must fail.
 */
int rsk_exec_vforked(void);

/* exit, _exit, _Exit, quick_exit, destructors: the last call of this process. Idempotent. */
void rsk_exit(void);

/* From now on this process promotes no stream (RSK_REASON_IO_URING, RSK_REASON_SECCOMP). */
void rsk_engine_stop_promoting(enum rsk_reason why);

/*
 * The calling thread is about to install the seccomp filter @code (@n instructions, readable).
 * True: it lets all calls through that streams within the host need (needed_calls.def), and they go
 * on; the process makes no links to other hosts from now on, whose devices and drivers need calls
 * that cannot be listed. False: nothing was changed.
 */
struct sock_filter;
bool rsk_engine_filtered(const struct sock_filter *code, size_t n);

/*
 * Called instead, once all streams have fallen back: epoll sets are as the program made them, and
 * nothing but the program's own calls is made from now on.
 */
void rsk_engine_kernel_only(void);

/* ---- descriptors --------------------------------------------------------------------------- */

/*
 * The kernel returned @fd as a new descriptor (open-like calls that are hooked): clears a stale
 * entry.
 */
void rsk_fd_new(int fd);

/*
 * rsk_fd_check - @fd may refer to another file by now, without a call that a hook saw: if the entry
 * leads to a paired stream, asks the kernel, and clears the entry if so.
 */
void rsk_fd_check(int fd);

/*
 * As rsk_fd_new(), after socket(). @tcp: it is a TCP socket; @nonblock: O_NONBLOCK was requested.
 */
void rsk_fd_socket(int fd, bool tcp, bool nonblock);

/*
 * May the policy redirect a connect() (resolve.h)? If not, there is no need to call
 * rsk_fd_connecting().
 */
bool rsk_fd_may_resolve(void);

/*
 * Connect-time resolution, before connect() to @to (readable): true, and *@instead, if it is
 * redirected. @ahead: no connect() follows yet, only resolve the address.
 */
bool rsk_fd_connecting(const struct sockaddr *to, socklen_t len, bool ahead,
		       struct sockaddr_storage *instead);

/*
 * connect() to @peer (NULL: not known) returned 0 or EINPROGRESS on @fd. No effect if it is not a
 * TCP socket.
 */
void rsk_fd_connected(int fd, const struct sockaddr *peer, socklen_t len);

/* listen() returned 0. */
void rsk_fd_listening(int fd);

/*
 * rsk_syn_is_the_programs - the program sets TCP_SAVE_SYN: what is kept is its own from now on.
 * rsk_syn_hidden - the library has set it for its own use, and the program has not.
 */
void rsk_syn_is_the_programs(void);
bool rsk_syn_hidden(void);

/*
 * accept() returned @fd. @before: the listener's table entry (rsk_fd_word()) before the call, which
 * may have taken long. If it has not changed, the number has referred to the same socket
 * throughout.
 */
void rsk_fd_accepted(int fd, bool nonblock, int listener, uintptr_t before);

/*
 * A socket that is not connected yet was added to an epoll set. It is tracked from here on, since
 * its registration has to be known.
 */
void rsk_fd_watched(int fd);

/* epoll_create*() returned @fd. */
void rsk_fd_epoll(int fd);

/*
 * rsk_fd_closing - called directly before the kernel closes @fd (close, close_range, dup2 onto it
 * ...). Detaches the entry, so that a concurrent reuse of the number finds an empty one. For the
 * last holder, puts the final command into the ring: the peer reads up to the last byte, then sees
 * what the TCP socket reports. Returns 0, or -EBADF for one of the library's own descriptors (then
 * the real call must not be made).
 */
int rsk_fd_closing(int fd);

/*
 * rsk_fd_leaving - this process will soon have closed @fd: it is in exit(), and its other threads
 * may use @fd until they are gone. The process is no longer counted as a holder, and for the last
 * holder the peer gets what is outstanding. The entry and its object stay as they are. No effect on
 * the library's own descriptors.
 */
void rsk_fd_leaving(int fd);

/*
 * A dup of any kind has made @newfd from @oldfd; rsk_fd_closing() was called before for what @newfd
 * had been.
 */
void rsk_fd_dup(int oldfd, int newfd);

/*
 * rsk_fd_fall_back - falls back to TCP: the stream of @fd returns to TCP in both directions and
 * stays there, since it is about to be used where no hook sees it (fdopen, SCM_RIGHTS, OOB, splice,
 * aio, kTLS, O_ASYNC ...). Returns when only the kernel socket carries the stream. May block for a
 * bounded time (200 ms; a second more where a relay is made, relay.h) while the peer retransmits
 * what was unread in the ring. Any @fd is allowed; for an untracked one it costs one load. Returns
 * 0; -EAGAIN: bytes would be lost or out of order, the caller must not go on, and the stream stays
 * as it was.
 */
int rsk_fd_fall_back(int fd, enum rsk_reason why);

/*
 * As rsk_fd_fall_back(), for one of several descriptors that an executed program inherits
 * (RSK_REASON_EXEC). *@until, 0 at first: the deadline for other processes that hold them to close
 * theirs.
 */
int rsk_fd_fall_back_exec(int fd, uint64_t *until);

/*
 * As rsk_fd_fall_back(), where only the kernel reads from now on, although @why does not imply it.
 */
int rsk_fd_fall_back_now(int fd, enum rsk_reason why);

/*
 * rsk_fd_fall_back_tx - falls back for what is sent only: the caller makes the kernel write to the
 * socket, and our hooks go on reading. Returns 0; -EAGAIN; another -errno: an error that was
 * pending, and is now reported.
 */
int rsk_fd_fall_back_tx(int fd, enum rsk_reason why);

/*
 * A kernel call on @fd has reported @err (-errno): after a reset only the end of the stream
 * follows.
 */
void rsk_fd_told(int fd, int err);

/*
 * As rsk_fd_fall_back(), also for a socket that has no stream yet: the stream it gets stays on TCP.
 */
int rsk_fd_refuse(int fd, enum rsk_reason why);

/*
 * A hook saw that O_NONBLOCK (F_SETFL, FIONBIO, accept4, socket) or SO_RCVLOWAT was changed
 * successfully.
 */
void rsk_fd_set_nonblock(int fd, bool on);
void rsk_fd_set_rcvlowat(int fd, int bytes);

/*
 * SO_LINGER was set, or is read. While the library uses the option itself (resets.h), the program's
 * value is recorded, and returned (@len bytes at @val).
 */
void rsk_fd_set_linger(int fd);
void rsk_fd_get_linger(int fd, void *val, unsigned int len);

/*
 * SO_RCVTIMEO (@recv) or SO_SNDTIMEO was set. @none: to a negative time, which means not to wait at
 * all.
 */
void rsk_fd_set_patience(int fd, bool recv, bool none);

/* ---- one operation ------------------------------------------------------------------------- */

enum rsk_op_kind {
	RSK_OP_RECV,
	RSK_OP_SEND,
	RSK_OP_CTL
};
enum {
	RSK_ENGINE = 0,
	RSK_KERNEL = 1
};

struct rsk_op {
	struct rsk_stream *s; /* pinned until rsk_op_end() */
	int fd;
	uint8_t kind; /* enum rsk_op_kind */
	/*
	 * The stream counts this thread as inside a plain kernel wait; how, see op.c. Also of a
	 * send that the engine carries, since its segment is to be seen: shown_send.c.
	 */
	uint8_t counted;
	/* MSG_PEEK: the bytes do not count as consumed; set by the hook after begin. */
	uint8_t peek;
	/* A receive whose fast path returned RSK_NOTHING_HERE; set by the hook after begin. */
	uint8_t nothing_here;
	/* A chunked send: our copy of fd, which rsk_op_send() takes over; 0: none. */
	int copy;
	/* MSG_ZEROCOPY, of a send; set by the hook after begin. */
	uint8_t zerocopy;
};

/*
 * rsk_op_begin - decides who carries a call. RSK_KERNEL: make the real call, then rsk_op_end() with
 * its result (also -1). RSK_ENGINE: call the matching rsk_op_*() below, then rsk_op_end(). @op is
 * always initialised, and always has to be ended.
 */
int rsk_op_begin(struct rsk_op *op, int fd, enum rsk_op_kind kind);
void rsk_op_end(struct rsk_op *op, ssize_t ret);

/*
 * Receive into, or send from, @iov as recvmsg(2), sendmsg(2) on a connected TCP socket would, and
 * block where they would. @flags: MSG_*. Return bytes (0: end of stream for recv), -errno, or
 * -RSK_EKERNEL if the stream has just fallen back for this call: make the real call now. SIGPIPE is
 * raised here as TCP does. Invalid memory gives -EFAULT as in the kernel (touch.h).
 */
#define RSK_EKERNEL 4095
ssize_t rsk_op_recv(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);
ssize_t rsk_op_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);

/*
 * MSG_ZEROCOPY on a socket with SO_ZEROCOPY: the library copies, and the completion is there at
 * once. Without the option the flag is ignored, as by the kernel.
 *
 * rsk_fd_completion - a recvmsg(MSG_ERRQUEUE) has found the kernel's queue empty: takes the
 * completions that the library has, the sends @range[0] to @range[1]. False: none.
 * rsk_fd_renumber - the kernel has told of the sends @range, by its numbers, which become those
 * that the program knows. rsk_fd_zerocopy_by_tcp - such a send is about to be the kernel's,
 * although the stream may be paired. Any @fd is allowed.
 */
bool rsk_fd_completion(int fd, uint32_t range[static 2]);
void rsk_fd_renumber(int fd, uint32_t range[static 2]);
void rsk_fd_zerocopy_by_tcp(int fd);

/*
 * Receive timestamps. rsk_fd_stamps_set - an option for them was set, or taken back.
 * rsk_fd_stamp - after a call that received, or @peeked at, bytes: when the last one had arrived,
 * in nanoseconds of CLOCK_REALTIME. Returns the type of the control message that tells it; 0: none
 * is due, as for bytes that came before the option was set. Of several threads that read at once,
 * one may get another's. Any @fd is allowed.
 */
void rsk_fd_stamps_set(int fd);
int rsk_fd_stamp(int fd, bool peeked, uint64_t *ns);

/*
 * rsk_fast_path_send, rsk_fast_path_recv - the fast path, without an operation: a call on a tracked
 * descriptor that finds the same state as the last one left (fast_path.c). Returns bytes, -EAGAIN,
 * or, all of them <= RSK_SLOW_PATH: nothing was done, begin an operation. RSK_NOTHING_HERE: the
 * ring is empty, so a call that blocks may wait before it looks again.
 */
#define RSK_SLOW_PATH (-RSK_EKERNEL)
#define RSK_NOTHING_HERE (-RSK_EKERNEL - 1)
ssize_t rsk_fast_path_send(int fd, const struct iovec *iov, int n, int flags);
ssize_t rsk_fast_path_recv(int fd, const struct iovec *iov, int n, int flags);

/*
 * rsk_op_fill - sends @len bytes (> 0) that @f reads directly into the ring. Works as
 * rsk_op_send(), but @f may end it. In that case f->rc is the reason (0: no more to read; -ENOSYS:
 * there is no ring now), and the return value (count, 0 or -errno) covers what went before.
 * Otherwise f->rc is unchanged.
 */
struct rsk_fill;
ssize_t rsk_op_fill(struct rsk_op *op, struct rsk_fill *f, size_t len);

/*
 * rsk_op_drain - passes the stream's next bytes, up to @len, to @d by way of @buf. What @d takes is
 * consumed, in one atomic step for all readers. Waits for bytes as recv() without flags does.
 * Returns the bytes, 0 at the end, -errno, -RSK_EKERNEL as above, or -RSK_EDRAIN: there were bytes,
 * @d took none, and d->rc is what it returned.
 */
struct rsk_drain {
	/*
	 * Takes up to @len bytes at @from. Returns the number taken, 0 or -errno. Must not sleep:
	 * it is called under a lock.
	 */
	ssize_t (*take)(struct rsk_drain *d, const void *from, size_t len);
	int rc;
};
#define RSK_EDRAIN 4094
ssize_t rsk_op_drain(struct rsk_op *op, struct rsk_drain *d, void *buf, size_t len);

/*
 * rsk_op_chunked - chunked send: called after RSK_KERNEL for a send. Returns whether the engine
 * carries it after all, since it is large and blocks. Then call rsk_op_send() with the same
 * arguments.
 */
bool rsk_op_chunked(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);

/* shutdown(2): the kernel's part and the ring's (FIN slot). Returns 0 or -errno. */
int rsk_op_shutdown(struct rsk_op *op, int how);

/* FIONREAD / SIOCOUTQ: adds what the ring holds to *@value, which the real ioctl has just set. */
void rsk_op_inq(struct rsk_op *op, int *value);
/*
 * FIONREAD if the kernel cannot have any bytes. False: it may have some, and nothing was done; make
 * the real call and then rsk_op_inq().
 */
bool rsk_op_inq_alone(struct rsk_op *op, int *value);
void rsk_op_outq(struct rsk_op *op, int *value);

/*
 * getsockopt(SO_ERROR): *@value is what the real call has just returned. Replaces it by the error
 * that the engine keeps, if any.
 */
void rsk_op_so_error(struct rsk_op *op, int *value);

/* Takes the pending error, as SO_ERROR reports it. Returns -errno; 0: none. Any @fd is allowed. */
int rsk_fd_pending_error(int fd);

/*
 * A call moved some bytes before it got error @err: keeps it for the next call on the connection.
 * Any @fd is allowed.
 */
void rsk_fd_keep_error(int fd, int err);

/*
 * getsockopt(TCP_INFO): adds the ring's bytes to the kernel's counters (@len bytes were returned).
 */
struct tcp_info;
void rsk_op_tcp_info(struct rsk_op *op, struct tcp_info *ti, unsigned int len);

/* ---- waiting ------------------------------------------------------------------------------- */

/*
 * poll/ppoll and select/pselect. *_concerns(): does the set contain a tracked stream? If not, make
 * the real call. @timeout: relative, not modified, NULL waits forever. @mask: NULL keeps the
 * thread's. Return the number of ready descriptors (revents set) or -errno. rsk_select() takes the
 * fd_sets as select(2) does (read and written, @nfds bits each; fd_sets larger than FD_SETSIZE
 * work). rsk_select_most(): how many of @nfds the kernel would check if there were no descriptors
 * of ours; call it before rsk_select() and before the real call.
 */
bool rsk_poll_concerns(const struct pollfd *fds, nfds_t n);
int rsk_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int rsk_select_most(int nfds);
bool rsk_select_concerns(int nfds, const fd_set *r, const fd_set *w, const fd_set *e);
int rsk_select(int nfds, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
	       const sigset_t *mask);

/*
 * epoll. rsk_epoll_ctl() makes the real call itself and maintains the shadow of the registrations.
 * rsk_epoll_wait(): as epoll_pwait2; @timeout NULL: forever. Both return count/0 or -errno. For an
 * untracked epoll descriptor (no stream is registered) the hook may make the real call directly.
 */
int rsk_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int rsk_epoll_wait(int epfd, struct epoll_event *evs, int max, const struct timespec *timeout,
		   const sigset_t *mask);

#endif
