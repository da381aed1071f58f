// SPDX-License-Identifier: BSD-2-Clause
/* stats.c - see stats.h. */
#include "stats.h"
#include "stats_busy.h"
#include "stats_json.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <rsock/clock.h>
#include <rsock/sys.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* If no record is free, records of dead processes are searched for at most this often. */
#define SWEEP_NS UINT64_C(1000000000)

/*
 * This process's view. Set by init and fork, else only read. A child of this process has no mapping
 * of seg (MADV_DONTFORK): it makes its own.
 */
static struct {
	struct rsk_stats_segment *seg;
	int fd;
	dev_t dev;
	ino_t ino;
	struct rsk_stats_process *self;
	uint32_t pid;
} view = { .fd = -1 };

/* For processes and streams without a record. Many threads write them, nothing reads them. */
static struct rsk_stats_process spare_process;
static struct rsk_stats_stream spare_stream;

static int memfd_make(void)
{
	int fd = rsk_sys_memfd_create(RSK_STATS_NAME,
				      MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	/* Before Linux 6.3 the last flag is unknown. */
	if (fd == -EINVAL)
		fd = rsk_sys_memfd_create(RSK_STATS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static void header_fill(struct rsk_stats_header *h)
{
	h->version = RSK_STATS_VERSION;
	h->bytes = sizeof(struct rsk_stats_segment);
	h->processes = RSK_STATS_PROCESSES;
	h->process_bytes = sizeof(struct rsk_stats_process);
	h->streams = RSK_STATS_STREAMS;
	h->stream_bytes = sizeof(struct rsk_stats_stream);
	h->created_ns = rsk_monotonic_ns();
	/* The magic comes last: a reader that sees it sees the rest. */
	__atomic_store_n(&h->magic, RSK_STATS_MAGIC, __ATOMIC_RELEASE);
}

int rsk_stats_init(int (*place_fd)(int fd))
{
	struct rsk_stats_segment *seg;
	struct stat st;
	int fd, err;

	if (view.seg)
		return 0;
	fd = memfd_make();
	if (fd < 0)
		return fd;
	err = rsk_sys_ftruncate(fd, sizeof(*seg));
	if (!err)
		err = rsk_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (!err)
		err = rsk_sys_fstat(fd, &st);
	if (err)
		goto out_close;
	seg = rsk_sys_mmap(NULL, sizeof(*seg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rsk_sys_is_err(seg)) {
		err = rsk_sys_ptr_err(seg);
		goto out_close;
	}
	if (place_fd) {
		fd = place_fd(fd);
		if (fd < 0) {
			rsk_sys_munmap(seg, sizeof(*seg));
			return fd;
		}
	}
	rsk_sys_madvise(seg, sizeof(*seg), MADV_DONTFORK);
	header_fill(&seg->header);
	view.fd = fd;
	view.dev = st.st_dev;
	view.ino = st.st_ino;
	view.seg = seg;
	view.self = NULL;
	rsk_stats_self();
	return 0;

out_close:
	rsk_sys_close(fd);
	return err;
}

void rsk_stats_fini(void)
{
	struct stat st;

	if (!view.seg)
		return;
	rsk_sys_munmap(view.seg, sizeof(*view.seg));
	if (!rsk_sys_fstat(view.fd, &st) && st.st_dev == view.dev && st.st_ino == view.ino)
		rsk_sys_close(view.fd);
	view.seg = NULL;
	view.self = NULL;
	view.fd = -1;
}

int rsk_stats_fd(void)
{
	return view.fd;
}

const struct rsk_stats_segment *rsk_stats_segment(void)
{
	return view.seg;
}

/* --- processes --------------------------------------------------------------------------- */

static bool process_is_dead(uint32_t pid)
{
	return pid > INT32_MAX || rsk_sys_kill((pid_t)pid, 0) == -ESRCH;
}

/*
 * comm and start time from /proc/self/stat: "pid (comm) S ..."; comm may contain spaces and
 * parentheses, so its end is the last ')'. Field 22 is the 19th after that.
 */
static void process_describe(struct rsk_stats_process *p)
{
	char text[512];
	ssize_t n, open = -1, close = -1, at;
	int fd = rsk_sys_openat(AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);

	memset(p->comm, 0, sizeof(p->comm));
	p->start_ticks = 0;
	if (fd < 0)
		return;
	n = rsk_sys_read(fd, text, sizeof(text));
	rsk_sys_close(fd);
	for (at = 0; at < n; at++) {
		if (text[at] == '(' && open < 0)
			open = at;
		if (text[at] == ')')
			close = at;
	}
	if (open < 0 || close < open)
		return;
	for (at = open + 1; at < close && at - open <= (ssize_t)sizeof(p->comm) - 1; at++)
		p->comm[at - open - 1] = text[at];
	at = close;
	for (int spaces = 0; at < n && spaces < 20; at++)
		spaces += text[at] == ' ';
	for (; at < n && text[at] >= '0' && text[at] <= '9'; at++)
		p->start_ticks = p->start_ticks * 10 + (uint64_t)(text[at] - '0');
}

static struct rsk_stats_process *process_claim(uint32_t pid)
{
	for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++) {
		struct rsk_stats_process *p = &view.seg->process[i];
		uint32_t was = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);

		/* An equal pid is that of a predecessor: this process has claimed nothing yet. */
		if (was && was != pid && !process_is_dead(was))
			continue;
		if (!__atomic_compare_exchange_n(&p->pid, &was, pid, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&p->spins, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&p->spins_useful, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&p->sleeps, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&p->wakes, 0, __ATOMIC_RELAXED);
		process_describe(p);
		return p;
	}
	return &spare_process;
}

struct rsk_stats_process *rsk_stats_self(void)
{
	if (!view.seg)
		return &spare_process;
	if (!view.self) {
		view.pid = (uint32_t)rsk_sys_getpid();
		view.self = process_claim(view.pid);
	}
	return view.self;
}

void rsk_stats_forked(void)
{
	view.seg = NULL;
	view.self = NULL;
	view.fd = -1;
}

/* --- streams ----------------------------------------------------------------------------- */

/* Frees the records that dead processes left open. One sweep at a time, at most once a second. */
static bool sweep(struct rsk_stats_segment *seg, uint64_t now_ns)
{
	uint64_t last = __atomic_load_n(&seg->header.swept_ns, __ATOMIC_RELAXED);
	uint32_t known_dead = 0, known_alive = 0;
	bool freed = false;

	if (last && now_ns < last + SWEEP_NS && now_ns >= last)
		return false;
	if (!__atomic_compare_exchange_n(&seg->header.swept_ns, &last, now_ns, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	for (unsigned int i = 0; i < RSK_STATS_STREAMS; i++) {
		struct rsk_stats_stream *rec = &seg->stream[i];
		uint32_t pid = __atomic_load_n(&rec->pid, __ATOMIC_RELAXED);
		uint32_t state;

		if (pid == 0 || pid == known_alive)
			continue;
		if (pid != known_dead) {
			if (!process_is_dead(pid)) {
				known_alive = pid;
				continue;
			}
			known_dead = pid;
		}
		state = RSK_STATS_OPEN;
		__atomic_compare_exchange_n(&rec->state, &state, RSK_STATS_CLOSED, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		rsk_stats_busy_drop(&seg->header, i);
		freed = true;
	}
	return freed;
}

#define SET(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

void rsk_stats_set_fabric(struct rsk_stats_stream *rec, const char *fabric)
{
	uint64_t word[RSK_STATS_FABRIC_BYTES / 8] = { 0 };

	memcpy(word, fabric, strnlen(fabric, sizeof(word) - 1));
	for (unsigned int i = 0; i < RSK_STATS_FABRIC_BYTES / 8; i++)
		SET(((uint64_t *)(void *)rec->fabric)[i], word[i]);
}

/*
 * Writes half an address at a time: readers may see a mixture. An address is only a label; nothing
 * depends on it.
 */
static void addr_set(uint8_t to[static 16], const uint8_t from[static 16])
{
	uint64_t half[2];

	memcpy(half, from, sizeof(half));
	SET(((uint64_t *)(void *)to)[0], half[0]);
	SET(((uint64_t *)(void *)to)[1], half[1]);
}

static void name_set(struct rsk_stats_stream *rec, const struct rsk_tuple *tuple)
{
	addr_set(rec->local, tuple->local);
	addr_set(rec->peer, tuple->peer);
	SET(rec->local_port, tuple->local_port);
	SET(rec->peer_port, tuple->peer_port);
	SET(rec->family, (uint8_t)tuple->family);
}

/*
 * Initialises a record: every field except the entries beyond events_written. Readers skip it until
 * it is complete; the state is written last.
 */
static void stream_fill(struct rsk_stats_stream *rec, const struct rsk_tuple *tuple,
			uint64_t now_ns)
{
	static const struct rsk_tuple none;

	SET(rec->state, RSK_STATS_FREE);
	/* No field of the new generation may become visible before the end of the old one. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	name_set(rec, tuple ? tuple : &none);
	SET(rec->reason, (uint8_t)RSK_REASON_NOT_EARNED);
	SET(rec->peer_reason, (uint8_t)RSK_REASON_DIRECT);
	SET(rec->tx, (uint8_t)RSK_PATH_TCP);
	SET(rec->rx, (uint8_t)RSK_PATH_TCP);
	SET(rec->demote_cause, (uint8_t)RSK_REASON_DIRECT);
	SET(rec->given_up, 0);
	SET(rec->link, 0);
	SET(rec->applied, 0);
	SET(rec->opened_ns, now_ns);
	SET(rec->tx_ring_bytes, 0);
	SET(rec->tx_tcp_bytes, 0);
	SET(rec->tx_slots, 0);
	SET(rec->tx_tcp_calls, 0);
	SET(rec->promotions, 0);
	SET(rec->demotions, 0);
	SET(rec->tx_repairs, 0);
	SET(rec->rx_ring_bytes, 0);
	SET(rec->rx_tcp_bytes, 0);
	SET(rec->rx_slots, 0);
	SET(rec->rx_tcp_calls, 0);
	SET(rec->hash_retries, 0);
	rsk_stats_rails_reset(rec);
	for (unsigned int i = 0; i < RSK_STATS_FABRIC_BYTES / 8; i++)
		SET(((uint64_t *)(void *)rec->fabric)[i], 0);
	SET(rec->fd_plus_1, 0);
	/* A reader that sees the new generation sees all the stores above. */
	__atomic_store_n(&rec->request,
			 rsk_stats_request_next_generation(
				 __atomic_load_n(&rec->request, __ATOMIC_RELAXED)),
			 __ATOMIC_RELEASE);
	SET(rec->events[0], rsk_stats_event_pack(now_ns, RSK_EVENT_OPENED, RSK_REASON_DIRECT));
	SET(rec->events_written, 1);
	SET(rec->pid, view.pid);
	__atomic_store_n(&rec->state, RSK_STATS_OPEN, __ATOMIC_RELEASE);
}

struct rsk_stats_stream *rsk_stats_stream_get(const struct rsk_tuple *tuple, uint64_t now_ns)
{
	struct rsk_stats_segment *seg = view.seg;
	struct rsk_stats_stream *rec;
	int number;

	if (!seg)
		return &spare_stream;
	number = rsk_stats_busy_take(&seg->header);
	if (number < 0 && sweep(seg, now_ns))
		number = rsk_stats_busy_take(&seg->header);
	if (number < 0) {
		rsk_stats_add_shared(&seg->header.unrecorded, 1);
		return &spare_stream;
	}
	rec = &seg->stream[number];
	if ((uint32_t)number >= __atomic_load_n(&seg->header.high_water, __ATOMIC_RELAXED))
		__atomic_store_n(&seg->header.high_water, (uint32_t)number + 1, __ATOMIC_RELAXED);
	stream_fill(rec, tuple, now_ns);
	return rec;
}

/* The record's number, or -1 for the spare one. */
static int stream_number(const struct rsk_stats_stream *rec)
{
	if (!view.seg || rec < view.seg->stream || rec >= view.seg->stream + RSK_STATS_STREAMS)
		return -1;
	return (int)(rec - view.seg->stream);
}

static void add_some(uint64_t *total, uint64_t n)
{
	if (n)
		rsk_stats_add_shared(total, n);
}

/* Adds the stream's counters to the process's, so that they are kept when the record is reused. */
static void sum_up(const struct rsk_stats_stream *rec)
{
	struct rsk_stats_process *p = rsk_stats_self();

	rsk_stats_add_shared(&p->ended, 1);
	add_some(&p->ended_promotions, rec->promotions);
	add_some(&p->ended_demotions, rec->demotions);
	add_some(&p->ended_repairs, rec->tx_repairs);
	add_some(&p->ended_retries, rec->hash_retries);
	add_some(&p->ended_ring_bytes, rec->tx_ring_bytes + rec->rx_ring_bytes);
	add_some(&p->ended_tcp_bytes, rec->tx_tcp_bytes + rec->rx_tcp_bytes);
}

void rsk_stats_stream_put(struct rsk_stats_stream *rec, uint64_t now_ns)
{
	int number = stream_number(rec);
	uint32_t n;

	if (number < 0)
		return;
	/* The closing thread is the only writer now. */
	n = __atomic_load_n(&rec->events_written, __ATOMIC_RELAXED);
	SET(rec->events[n % RSK_STATS_EVENTS],
	    rsk_stats_event_pack(now_ns, RSK_EVENT_CLOSED, RSK_REASON_CLOSED));
	SET(rec->events_written, n + 1);
	/* The first close frees the place; a second one must not free another stream's. */
	if (__atomic_exchange_n(&rec->state, RSK_STATS_CLOSED, __ATOMIC_ACQ_REL) != RSK_STATS_OPEN)
		return;
	sum_up(rec);
	rsk_stats_busy_drop(&view.seg->header, (unsigned int)number);
}

void rsk_stats_stream_own(struct rsk_stats_stream *rec)
{
	if (stream_number(rec) >= 0)
		__atomic_store_n(&rec->pid, view.pid, __ATOMIC_RELAXED);
}

void rsk_stats_stream_name(struct rsk_stats_stream *rec, const struct rsk_tuple *tuple)
{
	if (stream_number(rec) >= 0)
		name_set(rec, tuple);
}

static void promoted(struct rsk_stats_stream *rec, uint8_t *path)
{
	__atomic_store_n(path, RSK_PATH_RING, __ATOMIC_RELAXED);
	__atomic_fetch_add(&rec->promotions, 1, __ATOMIC_RELAXED);
	rsk_stats_set_reason(rec, RSK_REASON_DIRECT);
}

static void demoted(struct rsk_stats_stream *rec, uint8_t *path, enum rsk_reason cause)
{
	__atomic_store_n(path, RSK_PATH_TCP, __ATOMIC_RELAXED);
	__atomic_fetch_add(&rec->demotions, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->demote_cause, (uint8_t)cause, __ATOMIC_RELAXED);
	rsk_stats_set_reason(rec, cause);
}

void rsk_stats_event(struct rsk_stats_stream *rec, uint64_t now_ns, enum rsk_stats_event kind,
		     enum rsk_reason cause)
{
	uint32_t n = __atomic_fetch_add(&rec->events_written, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&rec->events[n % RSK_STATS_EVENTS],
			 rsk_stats_event_pack(now_ns, kind, cause), __ATOMIC_RELAXED);
	switch (kind) {
	case RSK_EVENT_PROMOTED_TX:
		promoted(rec, &rec->tx);
		break;
	case RSK_EVENT_PROMOTED_RX:
		promoted(rec, &rec->rx);
		break;
	case RSK_EVENT_DEMOTED_TX:
		demoted(rec, &rec->tx, cause);
		break;
	case RSK_EVENT_DEMOTED_RX:
		demoted(rec, &rec->rx, cause);
		break;
	case RSK_EVENT_REFUSED:
		rsk_stats_set_reason(rec, cause);
		break;
	default:
		break;
	}
}

/* --- at exit ----------------------------------------------------------------------------- */

int rsk_stats_append(const char *path)
{
	const struct rsk_stats_segment *seg = view.seg;
	uint32_t pid = (uint32_t)rsk_sys_getpid();
	struct rsk_json j;
	char *buf;
	int fd, err;
	size_t cap;
	ssize_t n;

	if (!seg)
		return 0;
	/* First pass: only counts, because the line is written with one write. */
	rsk_json_init(&j, NULL, 0);
	rsk_stats_json_own(&j, seg, pid);
	/* Other threads may still open streams: leave room for some more. */
	cap = j.len + 16 * RSK_STATS_JSON_STREAM_BYTES;
	buf = rsk_sys_mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rsk_sys_is_err(buf))
		return rsk_sys_ptr_err(buf);
	rsk_json_init(&j, buf, cap);
	rsk_stats_json_own(&j, seg, pid);
	err = j.len > cap ? -ENOBUFS : 0;
	if (err)
		goto out;
	fd = rsk_sys_openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY,
			    0600);
	if (fd < 0) {
		err = fd;
		goto out;
	}
	n = rsk_sys_write(fd, buf, j.len);
	if (n < 0)
		err = (int)n;
	else if ((size_t)n != j.len)
		err = -ENOSPC;
	rsk_sys_close(fd);
out:
	rsk_sys_munmap(buf, cap);
	return err;
}
