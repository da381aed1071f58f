/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_uring.c - io_uring by syscall(): hook_syscall.c calls it.
 *
 * A ring that is set up by syscall() is submitted to by syscall(), too, unless the kernel polls it
 * (SQPOLL). So each io_uring_enter() is preceded by a look at what is submitted: a stream whose
 * descriptor an entry names falls back, since the kernel moves its bytes from then on; an
 * EPOLL_CTL entry is carried out here, by the hook of epoll_ctl(), and the kernel gets an entry
 * without effect in its place, which completes alike. libuv changes its epoll sets that way, many
 * registrations at once.
 *
 * The ring's memory is the application's and the kernel's: it is mapped here for the look, and
 * nothing of ours keeps a ring alive. Programs that make the system calls by an instruction of
 * their own (liburing) are not seen here, as none of their calls is.
 */
#include <linux/io_uring.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "hook.h"
#include "real.h"

/* The hooks of the other families. */
#define RSK_EXIT(name, params, args, family, raw, note)
#define RSK_SYM(ret, name, params, args, family, raw, note) ret rsk_hook_##name params;
#include "symbols.def"

/* Newer than the headers that this is built with, or may be. */
#define RSK_URING_NO_SQARRAY (1u << 16)	    /* Linux 6.6 */
#define RSK_URING_REGISTERED_RING (1u << 4) /* of io_uring_enter(): not a descriptor */
#define RSK_URING_USE_REGISTERED (1u << 31) /* the same, of io_uring_register() */
#define RSK_URING_REGISTER_RESIZE_RINGS 33u /* Linux 6.13 */
#define RSK_URING_OP_SOCKET 45		    /* fd: the domain */
#define RSK_URING_OP_WAITID 50		    /* fd: an id */
#define RSK_URING_OP_FUTEX_WAIT 51	    /* fd: flags, as of the next two */
#define RSK_URING_OP_FUTEX_WAKE 52
#define RSK_URING_OP_FUTEX_WAITV 53

/*
 * Flags of io_uring_setup() under which the look is right: not SQPOLL (1), whose entries the kernel
 * takes at any time, nor NO_MMAP (14), nor what a later kernel may have. RESIZE_RINGS changes a
 * ring's shape.
 */
#define RSK_URING_FOLLOWED (((1u << 17) - 1) & ~(1u << 1) & ~(1u << 14))

/* An entry that is part of a chain may never be carried out, or not yet. */
#define RSK_URING_CHAINED (IOSQE_IO_LINK | IOSQE_IO_HARDLINK | IOSQE_IO_DRAIN)

#define RSK_URING_RINGS 64u

/*
 * The shapes of rings by descriptor. @who: the descriptor + 1, 0: free; set last (release). A ring
 * that is closed keeps its place until that is wanted, or its number is a ring's again.
 */
struct rsk_uring {
	_Atomic(uint32_t) who;
	uint32_t entries, stride;
	bool array;
	struct io_sqring_offsets off;
};

static struct rsk_uring rsk_urings[RSK_URING_RINGS];

static const struct rsk_uring *rsk_uring_find(int fd)
{
	for (uint32_t i = 0; i < RSK_URING_RINGS; i++)
		if (atomic_load_explicit(&rsk_urings[i].who, memory_order_acquire) ==
		    (uint32_t)fd + 1)
			return &rsk_urings[i];
	return NULL;
}

/* Whether that descriptor is no ring any more. */
static bool rsk_uring_gone(uint32_t fd)
{
	void *at =
		rsk_sys_mmap(NULL, RSK_TOUCH_PAGE, PROT_READ, MAP_SHARED, (int)fd, IORING_OFF_SQES);

	if (rsk_sys_is_err(at))
		return true;
	rsk_sys_munmap(at, RSK_TOUCH_PAGE);
	return false;
}

static struct rsk_uring *rsk_uring_place(int fd, bool sweep)
{
	for (uint32_t i = 0; i < RSK_URING_RINGS; i++) {
		struct rsk_uring *u = &rsk_urings[i];
		uint32_t who = atomic_load(&u->who);

		if (who == (uint32_t)fd + 1)
			return u;
		if ((!who || (sweep && who != UINT32_MAX && rsk_uring_gone(who - 1))) &&
		    atomic_compare_exchange_strong(&u->who, &who, UINT32_MAX))
			return u;
	}
	return NULL;
}

/* False: there are too many rings. */
static bool rsk_uring_add(int fd, const struct io_uring_params *p)
{
	struct rsk_uring *u = rsk_uring_place(fd, false);

	if (!u)
		u = rsk_uring_place(fd, true);
	if (!u)
		return false;
	u->entries = p->sq_entries;
	u->stride = (uint32_t)sizeof(struct io_uring_sqe)
		    << (p->flags & IORING_SETUP_SQE128 ? 1 : 0);
	u->array = !(p->flags & RSK_URING_NO_SQARRAY);
	u->off = p->sq_off;
	atomic_store_explicit(&u->who, (uint32_t)fd + 1, memory_order_release);
	return true;
}

long rsk_uring_setup(const long a[static 6])
{
	struct io_uring_params *p = (void *)a[1]; /* NOLINT(performance-no-int-to-ptr) */
	bool followed = rsk_begins() && rsk_readable(p) && !(p->flags & ~RSK_URING_FOLLOWED);
	int fd;

	if (!followed && rsk_no_more(RSK_REASON_IO_URING) < 0)
		return rsk_result(-EAGAIN);
	fd = (int)rsk_real.syscall(SYS_io_uring_setup, a[0], a[1], 0L, 0L, 0L, 0L);
	if (fd < 0 || !followed)
		return rsk_made(fd);
	rsk_made(fd);
	if (!rsk_uring_add(fd, p) && rsk_no_more(RSK_REASON_IO_URING) < 0) {
		rsk_real.close(fd);
		return rsk_result(-EAGAIN);
	}
	return fd;
}

/* ---- what is submitted ---- */

static bool rsk_uring_listens(int fd)
{
	socklen_t len = sizeof(int);
	int is = 0;

	return rsk_sys_getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &len) == 0 && is;
}

/*
 * An entry, or a ring, names this descriptor. @stays: what it asks for outlives this call, so a
 * socket that has no stream yet is to get none that leaves TCP. A set of which the ring learns
 * holds streams on the ring, or may: their events are not the kernel's.
 */
static int rsk_uring_file(int fd, bool stays)
{
	uintptr_t w = rsk_fd_word(fd);

	if (w & RSK_FD_EPOLL)
		return rsk_no_more(RSK_REASON_IO_URING);
	if (rsk_fd_tracked(fd))
		return rsk_fd_fall_back(fd, RSK_REASON_IO_URING);
	if (stays && fd >= 0 && !rsk_fd_stream(w) && !rsk_uring_listens(fd))
		return rsk_fd_refuse(fd, RSK_REASON_IO_URING);
	return 0;
}

/* 0; -EAGAIN; -EBADF: one of them is the library's own. */
static int rsk_uring_files(const int *fds, uint32_t n)
{
	int rc = 0;

	if (!n || !rsk_reads(fds, n * sizeof(*fds)))
		return 0; /* the kernel refuses it */
	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = rsk_fd_not_yours(fds[i]) ? -EBADF : rsk_uring_file(fds[i], true);
	return rc;
}

/*
 * Carries out an EPOLL_CTL entry, and puts another one in its place that completes as the call has:
 * one without effect, or, if there is no such registration (the kernel may still have it), the
 * removal of a poll that does not exist. Other failures the kernel finds itself.
 */
static int rsk_uring_epoll_ctl(struct io_uring_sqe *e, bool chained)
{
	struct epoll_event *ev = (void *)(uintptr_t)e->addr; /* NOLINT(performance-no-int-to-ptr) */
	struct io_uring_sqe done = {
		.opcode = IORING_OP_NOP, .flags = e->flags, .fd = -1, .user_data = e->user_data
	};
	int saved = errno, err;

	if (rsk_fd_not_yours(e->fd) || rsk_fd_not_yours((int)e->off)) {
		e->fd = -1;
		return 0;
	}
	if (chained || (e->flags & (RSK_URING_CHAINED | IOSQE_FIXED_FILE)))
		return rsk_no_more(RSK_REASON_IO_URING);
	err = rsk_hook_epoll_ctl(e->fd, (int)e->len, (int)e->off, ev) < 0 ? errno : 0;
	errno = saved;
	if (err == ENOENT) {
		done.opcode = IORING_OP_POLL_REMOVE;
		done.addr = (uintptr_t)rsk_urings; /* no poll of the application's has this name */
	} else if (err) {
		/* Of our own: without memory the stream could not be taken off the ring. */
		return err == ENOMEM ? -EAGAIN : 0;
	}
	*e = done;
	return 0;
}

/* Whoever gets the number next is another file. */
static int rsk_uring_close(const struct io_uring_sqe *e, bool chained)
{
	int rc = 0;

	if (!rsk_known(e->fd))
		return 0;
	/* It may not be carried out, and the set goes on. */
	if ((rsk_fd_word(e->fd) & RSK_FD_EPOLL) && (chained || (e->flags & RSK_URING_CHAINED)))
		return rsk_no_more(RSK_REASON_IO_URING);
	if (!(rsk_fd_word(e->fd) & RSK_FD_EPOLL))
		rc = rsk_uring_file(e->fd, false);
	if (rc == 0)
		rsk_fd_new(e->fd);
	return rc;
}

static bool rsk_uring_names_none(uint8_t op)
{
	switch (op) {
	case IORING_OP_PROVIDE_BUFFERS:
	case IORING_OP_REMOVE_BUFFERS:
	case RSK_URING_OP_SOCKET:
	case RSK_URING_OP_WAITID:
	case RSK_URING_OP_FUTEX_WAIT:
	case RSK_URING_OP_FUTEX_WAKE:
	case RSK_URING_OP_FUTEX_WAITV:
		return true;
	default:
		return false;
	}
}

static int rsk_uring_entry(struct io_uring_sqe *e, bool chained)
{
	const void *addr = (const void *)(uintptr_t)e->addr; /* NOLINT(performance-no-int-to-ptr) */
	int rc = 0;

	if (e->opcode == IORING_OP_EPOLL_CTL)
		return rsk_uring_epoll_ctl(e, chained);
	if (e->opcode == IORING_OP_FILES_UPDATE) {
		rc = rsk_uring_files(addr, e->len);
		if (rc == -EBADF)
			e->addr = 0; /* EFAULT; which of the errors does not matter */
		return rc == -EBADF ? 0 : rc;
	}
	if (rsk_uring_names_none(e->opcode))
		return 0;
	if ((e->opcode == IORING_OP_SPLICE || e->opcode == IORING_OP_TEE) &&
	    !(e->splice_flags & SPLICE_F_FD_IN_FIXED)) {
		if (rsk_fd_not_yours(e->splice_fd_in))
			e->splice_fd_in = -1;
		rc = rsk_uring_file(e->splice_fd_in, false);
	} else if (e->opcode == IORING_OP_SENDMSG) {
		rc = rsk_rights_before_send(addr);
	}
	if (rc < 0 || (e->flags & IOSQE_FIXED_FILE))
		return rc;
	if (e->opcode == IORING_OP_CLOSE && e->file_index)
		return 0; /* a registered file */
	if (rsk_fd_not_yours(e->fd)) {
		e->fd = -1;
		return 0;
	}
	if (e->opcode == IORING_OP_CLOSE)
		return rsk_uring_close(e, chained);
	return rsk_uring_file(e->fd, e->opcode == IORING_OP_POLL_ADD);
}

struct rsk_uring_view {
	uint8_t *ring, *entries;
	size_t ring_bytes, entries_bytes;
};

static uint32_t rsk_uring_word(const struct rsk_uring_view *v, uint32_t at)
{
	return __atomic_load_n((const uint32_t *)(const void *)(v->ring + at), __ATOMIC_ACQUIRE);
}

static void rsk_uring_unmap(struct rsk_uring_view *v)
{
	rsk_sys_munmap(v->entries, v->entries_bytes);
	rsk_sys_munmap(v->ring, v->ring_bytes);
}

/* False: it is no ring any more, or another one, or there is no memory. */
static bool rsk_uring_map(struct rsk_uring_view *v, const struct rsk_uring *u, int fd)
{
	v->ring_bytes = u->array ? u->off.array + u->entries * sizeof(uint32_t) : RSK_TOUCH_PAGE;
	v->entries_bytes = (size_t)u->entries * u->stride;
	v->ring = rsk_sys_mmap(NULL, v->ring_bytes, PROT_READ, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	if (rsk_sys_is_err(v->ring))
		return false;
	v->entries = rsk_sys_mmap(NULL, v->entries_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				  IORING_OFF_SQES);
	if (rsk_sys_is_err(v->entries)) {
		rsk_sys_munmap(v->ring, v->ring_bytes);
		return false;
	}
	/* A number that is another file's shows no page beyond its end. */
	if (rsk_reads(v->ring, v->ring_bytes) && rsk_reads(v->entries, v->entries_bytes) &&
	    rsk_uring_word(v, u->off.ring_entries) == u->entries)
		return true;
	rsk_uring_unmap(v);
	return false;
}

/*
 * Everything that has been prepared, since another thread may submit at the same time. (Two that
 * submit to one ring at once take turns, as they have to for the ring's own tail: otherwise an
 * entry could be carried out twice.)
 */
static int rsk_uring_all(const struct rsk_uring_view *v, const struct rsk_uring *u)
{
	uint32_t head = rsk_uring_word(v, u->off.head), n = rsk_uring_word(v, u->off.tail) - head;
	bool chained = false, drained = false;
	int rc = 0;

	if (n > u->entries)
		n = u->entries;
	for (; n && rc == 0; n--, head++) {
		uint32_t i = head & (u->entries - 1);
		struct io_uring_sqe *e;

		if (u->array)
			i = rsk_uring_word(v, u->off.array + i * (uint32_t)sizeof(i));
		if (i >= u->entries)
			continue; /* the kernel drops it */
		e = (void *)(v->entries + (size_t)i * u->stride);
		drained |= e->flags & IOSQE_IO_DRAIN;
		rc = rsk_uring_entry(e, chained || drained);
		chained = e->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
	}
	return rc;
}

/* 0; -EAGAIN: bytes of a ring would be lost, and nothing may be submitted. */
static int rsk_uring_look(int fd)
{
	const struct rsk_uring *u = rsk_uring_find(fd);
	struct rsk_uring_view v;
	int rc;

	/* It was made where no call was seen, or has gone; then the kernel refuses the call. */
	if (!u || !rsk_uring_map(&v, u, fd))
		return rsk_no_more(RSK_REASON_IO_URING);
	rc = rsk_uring_all(&v, u);
	rsk_uring_unmap(&v);
	return rc;
}

long rsk_uring_enter(const long a[static 6])
{
	int rc = 0;

	if (rsk_live() && (uint32_t)a[1])
		rc = (uint32_t)a[3] & RSK_URING_REGISTERED_RING ? rsk_no_more(RSK_REASON_IO_URING) :
								  rsk_uring_look((int)a[0]);
	if (rc < 0)
		return rsk_result(-EAGAIN);
	return rsk_counted(
		rsk_real.syscall(SYS_io_uring_enter, a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* ---- registered files ---- */

static int rsk_uring_registers(uint32_t op, const void *arg, uint32_t n)
{
	const struct io_uring_files_update *update = arg;
	const struct io_uring_rsrc_register *two = arg;
	const struct io_uring_rsrc_update2 *update2 = arg;

	/* NOLINTBEGIN(performance-no-int-to-ptr): the kernel's view of them */
	switch (op) {
	case IORING_REGISTER_FILES:
		return rsk_uring_files(arg, n);
	case IORING_REGISTER_FILES_UPDATE:
		return rsk_readable(update) ?
			       rsk_uring_files((const int *)(uintptr_t)update->fds, n) :
			       0;
	case IORING_REGISTER_FILES2:
		return rsk_readable(two) ?
			       rsk_uring_files((const int *)(uintptr_t)two->data, two->nr) :
			       0;
	case IORING_REGISTER_FILES_UPDATE2:
		return rsk_readable(update2) ?
			       rsk_uring_files((const int *)(uintptr_t)update2->data, update2->nr) :
			       0;
	case RSK_URING_REGISTER_RESIZE_RINGS:
		return rsk_no_more(RSK_REASON_IO_URING);
	default:
		return 0;
	}
	/* NOLINTEND(performance-no-int-to-ptr) */
}

long rsk_uring_register(const long a[static 6])
{
	const void *arg = (const void *)a[2]; /* NOLINT(performance-no-int-to-ptr) */
	int rc = 0;

	if (rsk_live())
		rc = rsk_uring_registers((uint32_t)a[1] & ~RSK_URING_USE_REGISTERED, arg,
					 (uint32_t)a[3]);
	if (rc < 0)
		return rsk_result(rc);
	return rsk_real.syscall(SYS_io_uring_register, a[0], a[1], a[2], a[3], a[4], a[5]);
}
