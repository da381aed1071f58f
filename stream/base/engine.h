/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - everything that a hook may ask of the engine. It lies on the lowest floor, since
 * each floor does a part of it.
 *
 * A hook looks the fd up (rsk_fd_tracked(): one load); a cold fd goes straight to the real call. Of any other one the
 * engine is asked first whether the call can be done at once (rsk_fast_path_recv() and its like). If not (RSK_UNSTEADY),
 * the hook begins an operation, which says who carries the call, and ends it with what came of it; preload/hook.h has
 * that as RSK_SCOPE and rsk_scope_recv(), rsk_scope_send(), with an example:
 *
 *	if (rsk_op_begin(&op, fd, RSK_OP_RECV) == RSK_KERNEL)
 *		n = the real call;				(-1 and errno, as libc says)
 *	else
 *		n = rsk_result(rsk_op_recv(&op, &iov, 1, 0));	(sets errno; -1 on error)
 *	rsk_op_end(&op, n);
 *
 * Inside the engine functions return 0, a count or -errno and never touch errno. None of them
 * allocates from the heap or uses stdio; all may be called from a signal handler: critical sections
 * are guarded (sigdefer.h), and no lock is held while sleeping.
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

/* ---- life of the process ------------------------------------------------------------------- */

/*
 * rsk_engine_init - once, from the constructor or the first hook, whichever comes first.
 * @host: libc's real blocking calls (host.h), borrowed for ever. Reads the RSOCK_* environment.
 * Makes nothing but private memory: a program that never has a TCP stream pays no system call more.
 */
void rsk_engine_init(const struct rsk_host *host);

/*
 * fork(): prepare in the parent before, then exactly one of parent (ok: the child exists) or child.
 */
void rsk_fork_prepare(void);
void rsk_fork_parent(bool ok);
void rsk_fork_child(void);

/*
 * exec*(): prepare right before the real call (in a fork child or in the process itself, never in a
 * vfork child), failed when it came back. Not 0 (-EAGAIN): exec must fail, and nothing was counted.
 * Streams whose only holder execs go back to TCP; copies that another process still uses are left
 * as they are.
 */
int rsk_exec_prepare(void);
void rsk_exec_failed(void);

/* In the parent, before vfork() and what is like it: the child is going to execute a program. */
void rsk_vfork_prepare(void);

/*
 * The same in a vfork child, whose memory is its parent's, and before posix_spawn(): what has no
 * FD_CLOEXEC leaves, and nothing is counted.
 * 0, or -EAGAIN: the call must fail.
 */
int rsk_exec_vforked(void);

/* exit, _exit, _Exit, quick_exit, fini: the last call of this process. Idempotent. */
void rsk_exit(void);

/* From now on this process promotes nothing more (RSK_REASON_IO_URING, RSK_REASON_SECCOMP). */
void rsk_engine_stop_promoting(enum rsk_reason why);

/* ---- life of an fd ------------------------------------------------------------------------- */

/* The kernel handed out @fd anew (open-like calls that are hooked): forget any stale entry. */
void rsk_fd_new(int fd);

/*
 * rsk_fd_check - @fd may have become another file's number behind our back: asks the kernel, if the entry leads to a
 * stream that is joined, and forgets it then.
 */
void rsk_fd_check(int fd);

/* As rsk_fd_new() for socket(): did it ask for TCP, for O_NONBLOCK? */
void rsk_fd_socket(int fd, bool tcp, bool nonblock);

/* May connect() be to go elsewhere, by policy (resolve.h)? */
bool rsk_fd_may_resolve(void);

/*
 * Before connect() to @to (readable): where it goes instead. @ahead: nobody connects yet, it is
 * only to be found out.
 */
bool rsk_fd_connecting(const struct sockaddr *to, socklen_t len, bool ahead,
		       struct sockaddr_storage *instead);

/*
 * connect() to @peer (NULL: not known) returned 0 or EINPROGRESS on a fd. Not a TCP socket: nothing
 * happens.
 */
void rsk_fd_connected(int fd, const struct sockaddr *peer, socklen_t len);

/* listen() returned 0. */
void rsk_fd_listening(int fd);

/*
 * accept() made @fd. @before: what the table said of the listener (rsk_fd_word()) before the call,
 * which may have lasted: if it is the same still, the number has meant the same socket.
 */
void rsk_fd_accepted(int fd, bool nonblock, int listener, uintptr_t before);

/*
 * A socket that is not connected yet gets into an epoll set: known from here on, as its
 * registration has to be.
 */
void rsk_fd_watched(int fd);

/* epoll_create*() made @fd. */
void rsk_fd_epoll(int fd);

/*
 * rsk_fd_closing - right before the kernel closes @fd (close, close_range, dup2 onto it ...).
 * Detaches the entry, so that a concurrent reuse of the number meets a clean table, and, for the
 * last holder, says goodbye on the ring: the peer reads on to the last byte, then sees what the
 * companion shows. Returns 0, or -EBADF for one of the library's own fds (then the real call must
 * not be made).
 */
int rsk_fd_closing(int fd);

/*
 * rsk_fd_leaving - this process will have closed @fd soon, since it is in exit(), where other
 * threads of it may go on with it until they are gone. It is counted no more, and for the last
 * holder the peer gets what is owed; the entry, and what it leads to, stay as they are. The
 * library's own: nothing.
 */
void rsk_fd_leaving(int fd);

/*
 * A successful dup of any kind made @newfd from @oldfd; @newfd's former life was ended by
 * rsk_fd_closing().
 */
void rsk_fd_dup(int oldfd, int newfd);

/*
 * rsk_fd_fall_back - the stream behind @fd goes back to TCP in both directions and stays there: it is
 * about to be used where no hook sees it (fdopen, SCM_RIGHTS, OOB, splice, aio, kTLS, O_ASYNC ...).
 * Returns when the kernel socket alone carries the stream. May block for a bounded time (200 ms; a
 * second more where a relay is made, relay.h) while the peer repeats what was unread in the ring.
 * Any fd is allowed; a cold one costs a load. 0; -EAGAIN: bytes would be lost or come out of order,
 * the caller must not go on; the stream stays as it was.
 */
int rsk_fd_fall_back(int fd, enum rsk_reason why);

/*
 * The same for a program that inherits it (RSK_REASON_EXEC), one of several. *@until, 0 at first: so long other
 * processes that have them are given to close their own.
 */
int rsk_fd_fall_back_exec(int fd, uint64_t *until);

/* The same where the reason does not say that the kernel alone reads from now on, and it does. */
int rsk_fd_fall_back_now(int fd, enum rsk_reason why);

/*
 * rsk_fd_fall_back_tx - the same of what is sent alone: the caller has the kernel write to it, and our hooks go on to read.
 * 0; -EAGAIN; another -errno: an error that is pending, and was told by this.
 */
int rsk_fd_fall_back_tx(int fd, enum rsk_reason why);

/* A call of the kernel's on @fd has told @err (-errno): behind a reset is the end. */
void rsk_fd_told(int fd, int err);

/* The same, also for a socket that has no stream yet: what it becomes stays on TCP. */
int rsk_fd_refuse(int fd, enum rsk_reason why);

/*
 * The hook saw O_NONBLOCK (F_SETFL, FIONBIO, accept4, socket) or SO_RCVLOWAT change successfully.
 */
void rsk_fd_set_nonblock(int fd, bool on);
void rsk_fd_set_rcvlowat(int fd, int bytes);

/*
 * SO_LINGER was set, or was asked for: where it is the library's for the time being (resets.h), the
 * program's is kept in mind, or is what it gets (@len bytes of @val).
 */
void rsk_fd_set_linger(int fd);
void rsk_fd_get_linger(int fd, void *val, unsigned int len);

/*
 * SO_RCVTIMEO (@recv) or SO_SNDTIMEO was set; @none: to a negative time, which means no waiting at
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
	uint8_t kind;	 /* enum rsk_op_kind */
	uint8_t counted; /* the stream counts this thread as inside a plain kernel wait: where, op.c */
	uint8_t peek; /* MSG_PEEK: the bytes do not count as consumed; set by the hook after begin */
};

/*
 * rsk_op_begin - may the kernel carry this call, or must the engine?
 * RSK_KERNEL: make the real call, then rsk_op_end() with its result (also -1). RSK_ENGINE: call the
 * matching rsk_op_*() below, then rsk_op_end(). @op is always initialised and always to be ended.
 */
int rsk_op_begin(struct rsk_op *op, int fd, enum rsk_op_kind kind);
void rsk_op_end(struct rsk_op *op, ssize_t ret);

/*
 * Receive into / send from @iov as recvmsg(2), sendmsg(2) on a connected TCP socket would, blocking
 * where that would. @flags: MSG_*. Returns bytes (0: end of stream for recv) or -errno, and
 * -RSK_EKERNEL when the stream has just left to the kernel for this call: make the real call now.
 * SIGPIPE is raised here as TCP does. Memory that is not there gives -EFAULT as in the kernel (touch.h).
 */
#define RSK_EKERNEL 4095
ssize_t rsk_op_recv(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);
ssize_t rsk_op_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);

/*
 * rsk_fast_path_send, rsk_fast_path_recv - without an operation: a call on a hot fd that finds everything
 * as the last one left it (fast_path.c). Bytes, -EAGAIN, or RSK_UNSTEADY: nothing was done, open an
 * operation.
 */
#define RSK_UNSTEADY (-RSK_EKERNEL)
ssize_t rsk_fast_path_send(int fd, const struct iovec *iov, int n, int flags);
ssize_t rsk_fast_path_recv(int fd, const struct iovec *iov, int n, int flags);

/*
 * rsk_op_fill - send @len bytes (> 0) that @f reads straight into the ring. As rsk_op_send(), but
 * what ends it may be
 * @f: then f->rc is what ended it (0: no more to read; -ENOSYS: there is no ring now), and the
 * count, or 0 or -errno, is of what went before. Else f->rc stays as it was.
 */
struct rsk_fill;
ssize_t rsk_op_fill(struct rsk_op *op, struct rsk_fill *f, size_t len);

/*
 * rsk_op_drain - hand the stream's next bytes, up to @len, to @d, by way of @buf; what it takes is
 * consumed, in one step for all who read. Waits for bytes as recv() without flags does. Returns the
 * bytes, 0 at the end, -errno, -RSK_EKERNEL as above, or -RSK_EDRAIN: there were bytes, @d took none,
 * and d->rc is what it said.
 */
struct rsk_drain {
	/* Up to @len bytes at @from; returns how many, or 0 or -errno. Must not sleep: it is called under a lock. */
	ssize_t (*take)(struct rsk_drain *d, const void *from, size_t len);
	int rc;
};
#define RSK_EDRAIN 4094
ssize_t rsk_op_drain(struct rsk_op *op, struct rsk_drain *d, void *buf, size_t len);

/*
 * rsk_op_chunked - after RSK_KERNEL for a send: is it one that the engine makes all the same, since
 * it is large and blocks? Then rsk_op_send() is to be called, with the same arguments.
 */
bool rsk_op_chunked(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);

/* shutdown(2), the kernel's part and the ring's (FIN slot). 0 or -errno. */
int rsk_op_shutdown(struct rsk_op *op, int how);

/* FIONREAD / SIOCOUTQ: adds what the ring holds to *@value, which the real ioctl has just set. */
void rsk_op_inq(struct rsk_op *op, int *value);
/*
 * FIONREAD where the kernel can have nothing. False: it may; nothing was done, ask it and then
 * rsk_op_inq().
 */
bool rsk_op_inq_alone(struct rsk_op *op, int *value);
void rsk_op_outq(struct rsk_op *op, int *value);

/*
 * getsockopt(SO_ERROR): *@value is what the real call has just said; or the error that the engine
 * keeps.
 */
void rsk_op_so_error(struct rsk_op *op, int *value);

/* The error that is pending, as SO_ERROR tells it, and it is told now: -errno, 0: none. Any fd is allowed. */
int rsk_fd_pending_error(int fd);

/* A call moved something before it met @err, which the connection tells at the next one. Any fd is allowed. */
void rsk_fd_keep_error(int fd, int err);

/*
 * getsockopt(TCP_INFO): adds the ring's bytes to the kernel's counters (@len bytes were returned).
 */
struct tcp_info;
void rsk_op_tcp_info(struct rsk_op *op, struct tcp_info *ti, unsigned int len);

/* ---- waiting ------------------------------------------------------------------------------- */

/*
 * poll/ppoll and select/pselect. *_concerns(): does the set hold a hot stream? If not: the real
 * call.
 * @timeout: NULL waits for ever, relative, not changed. @mask: NULL keeps the thread's.
 * Return: count of ready fds (revents set) or -errno. rsk_select() takes the fd_sets as select(2)
 * does (read and written, @nfds bits each; fd_sets larger than FD_SETSIZE work). rsk_select_most():
 * of @nfds, as many as the kernel would look at if there were no fds of ours; asked before
 * rsk_select() and before the real call.
 */
bool rsk_poll_concerns(const struct pollfd *fds, nfds_t n);
int rsk_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int rsk_select_most(int nfds);
bool rsk_select_concerns(int nfds, const fd_set *r, const fd_set *w, const fd_set *e);
int rsk_select(int nfds, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
	       const sigset_t *mask);

/*
 * epoll. rsk_epoll_ctl() makes the real call itself (through host->epoll_ctl) and keeps the shadow.
 * rsk_epoll_wait(): as epoll_pwait2; @timeout NULL: for ever. Both return count/0 or -errno.
 * For an epoll fd that is cold (no stream registered) the hook may go straight to the real call.
 */
int rsk_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int rsk_epoll_wait(int epfd, struct epoll_event *evs, int max, const struct timespec *timeout,
		   const sigset_t *mask);

#endif
