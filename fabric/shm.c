// SPDX-License-Identifier: BSD-2-Clause
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <rsock/sys.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int rsk_shm_geometry_check(const struct rsk_shm_geometry *g)
{
	if (g->streams < RSK_SHM_MIN_STREAMS || g->streams > RSK_SHM_STREAMS ||
	    (g->streams & (g->streams - 1)) || g->ring_bytes < RSK_SHM_MIN_RING ||
	    g->ring_bytes > RSK_SHM_MAX_RING || (g->ring_bytes & (g->ring_bytes - 1)))
		return -EPROTO;
	return g->bytes == rsk_shm_ring_off(g, g->streams) ? 0 : -EPROTO;
}

/* Rings of that size to reserve at most. A process whose address space is limited has little to spare. */
static uint32_t most_streams(uint32_t ring_bytes)
{
	struct rlimit lim = { .rlim_cur = RLIM_INFINITY };
	uint32_t n = RSK_SHM_MIN_STREAMS;

	getrlimit(RLIMIT_AS, &lim);
	while (lim.rlim_cur == RLIM_INFINITY && n < RSK_SHM_STREAMS &&
	       2ull * n * ring_bytes <= RSK_SHM_BYTES)
		n *= 2;
	return n;
}

/* The whole is reserved; head and control blocks can be touched, the rings later (rsk_shm_reach()). */
static int map(int fd, const struct rsk_shm_geometry *g, uint64_t bytes, uint8_t **at)
{
	void *p = rsk_sys_mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	int rc;

	if (rsk_sys_is_err(p))
		return rsk_sys_ptr_err(p);
	rc = rsk_sys_mprotect(p, rsk_shm_ring_off(g, 0), PROT_READ | PROT_WRITE);
	if (rc < 0) {
		rsk_sys_munmap(p, bytes);
		return rc;
	}
	*at = p;
	return 0;
}

int rsk_shm_create(struct rsk_shm *shm, uint32_t ring_bytes)
{
	struct rsk_shm_geometry g = { .ring_bytes = ring_bytes,
				      .streams = most_streams(ring_bytes) };
	int fd, rc;

	if (shm->window_streams && shm->window_streams < g.streams)
		g.streams = shm->window_streams;
	g.bytes = rsk_shm_ring_off(&g, g.streams);
	fd = rsk_sys_memfd_create("rsock-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return fd;
	rc = rsk_sys_ftruncate(fd, (off_t)g.bytes);
	if (rc == 0)
		rc = rsk_sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (rc < 0)
		goto out;
	rc = map(fd, &g, g.bytes, &shm->rail.segment);
	if (rc < 0)
		goto out;
	shm->own = g;
	shm->rail.segment_bytes = g.bytes;
	shm->rail.ops = &rsk_shm_ops;
	shm->rail.priv = shm;
	return fd;
out:
	rsk_sys_close(fd);
	return rc;
}

int rsk_shm_attach(struct rsk_shm *shm, int memfd, const struct rsk_shm_geometry *g)
{
	struct stat st;
	uint32_t streams;
	uint64_t bytes;
	int seals, rc = rsk_shm_geometry_check(g);

	if (rc < 0)
		return rc;
	streams = shm->own.streams ? shm->own.streams : most_streams(g->ring_bytes);
	if (streams > g->streams)
		streams = g->streams;
	bytes = rsk_shm_ring_off(g, streams);
	seals = rsk_sys_fcntl(memfd, F_GET_SEALS, 0);
	if (seals < 0)
		return -EPROTO;
	rc = rsk_sys_fstat(memfd, &st);
	if (rc < 0)
		return rc;
	/* Sealed against shrinking, of ordinary pages: touching it can never be SIGBUS for want of file. */
	if ((seals & SEALS) != SEALS || (seals & F_SEAL_WRITE) ||
	    (uint64_t)st.st_size != g->bytes || st.st_blksize != 4096)
		return -EPROTO;
	rc = map(memfd, g, bytes, &shm->rail.window);
	if (rc < 0)
		return rc;
	shm->peer = *g;
	shm->window_streams = streams;
	shm->rail.window_bytes = bytes;
	return 0;
}

int rsk_shm_reach(struct rsk_shm *shm, uint32_t sid)
{
	uint32_t from = atomic_load(&shm->reach);
	uint32_t to = (sid / RSK_SHM_REACH + 1) * RSK_SHM_REACH;
	const struct {
		uint8_t *at;
		const struct rsk_shm_geometry *g;
	} part[] = { { shm->rail.segment, &shm->own }, { shm->rail.window, &shm->peer } };

	if (sid < from)
		return 0;
	if (sid >= rsk_shm_streams(shm))
		return -EINVAL;
	for (size_t i = 0; i < 2; i++) {
		int rc = rsk_sys_mprotect(part[i].at + rsk_shm_ring_off(part[i].g, from),
					  (uint64_t)(to - from) * part[i].g->ring_bytes,
					  PROT_READ | PROT_WRITE);

		if (rc < 0)
			return rc;
	}
	atomic_store(&shm->reach, to);
	return 0;
}

void rsk_shm_drop_ring(const struct rsk_shm *shm, uint32_t sid)
{
	rsk_sys_madvise(shm->rail.segment + rsk_shm_ring_off(&shm->own, sid), shm->own.ring_bytes,
			MADV_REMOVE);
}

void rsk_shm_detach(struct rsk_shm *shm)
{
	if (shm->rail.segment)
		rsk_sys_munmap(shm->rail.segment, shm->rail.segment_bytes);
	if (shm->rail.window)
		rsk_sys_munmap(shm->rail.window, shm->rail.window_bytes);
	shm->rail.segment = NULL;
	shm->rail.window = NULL;
}

static void shm_ring(struct rsk_rail *rail, uint64_t bells)
{
	const struct rsk_shm *shm = rail->priv;
	static const uint64_t one = 1;
	struct timespec now;

	/* For who is woken to learn how long it waited, and how long waking took. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	atomic_store_explicit(&rsk_shm_peer_head(shm)->rang_ns,
			      (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
			      memory_order_relaxed);
	bells &= (1u << RSK_SHM_BELLS) - 1;
	while (bells) {
		int b = __builtin_ctzll(bells);

		bells &= bells - 1;
		if (shm->peer_bell[b] >= 0)
			rsk_sys_write(shm->peer_bell[b], &one, sizeof(one));
	}
}

/* Into the peer's ready map; the bits are set before the sleepers are looked at (both seq_cst). */
static uint64_t mark_ready(struct rsk_shm_head *head, uint32_t sid, uint64_t epolls)
{
	_Atomic(uint64_t) *word = &head->ready[sid / 64];
	uint64_t bit = 1ull << (sid % 64);
	_Atomic(uint64_t) *sum = &head->ready_sum[sid / RSK_SHM_SUM_STREAMS];
	uint64_t sum_bit = 1ull << (sid / 64 % 64);

	if (!(atomic_load(word) & bit))
		atomic_fetch_or(word, bit);
	if (!(atomic_load(sum) & sum_bit))
		atomic_fetch_or(sum, sum_bit);
	if (!(atomic_load(&head->asleep) & epolls))
		return 0;
	return atomic_fetch_and(&head->asleep, ~epolls) & epolls;
}

static uint64_t shm_due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	struct rsk_shm *shm = rail->priv;
	struct rsk_shm_ctl *ctl = rsk_shm_peer_ctl(shm, sid);
	uint64_t bells = 0, epolls = 0;

	/* Pairs with the sleeper's fence between its announcement and its last look (models: sleep_wake). */
	atomic_thread_fence(memory_order_seq_cst);
	if (what & RSK_WAKE_RX) {
		if (atomic_load_explicit(&ctl->want_rx, memory_order_relaxed))
			bells |= atomic_exchange(&ctl->want_rx, 0);
		epolls |= atomic_load_explicit(&ctl->epolls_rx, memory_order_relaxed);
	}
	if (what & RSK_WAKE_TX) {
		if (atomic_load_explicit(&ctl->want_tx, memory_order_relaxed))
			bells |= atomic_exchange(&ctl->want_tx, 0);
		if (atomic_load_explicit(&ctl->epolls_tx, memory_order_relaxed))
			epolls |= atomic_exchange(&ctl->epolls_tx, 0);
	}
	if (epolls)
		bells |= mark_ready(rsk_shm_peer_head(shm), sid, epolls);
	return bells;
}

static int shm_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	(void)token;
	if (off + len > rail->window_bytes)
		return -EINVAL;
	memcpy(dst, rail->window + off, len);
	return 1; /* done already */
}

static int shm_poll(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	(void)rail;
	(void)done;
	(void)max;
	return 0;
}

static _Atomic(uint64_t) *want_word(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	struct rsk_shm_ctl *ctl = rsk_shm_own_ctl(rail->priv, sid);

	return what == RSK_WAKE_RX ? &ctl->want_rx : &ctl->want_tx;
}

static void shm_announce(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t bell)
{
	for (uint32_t w = 1; w <= what; w <<= 1)
		if (what & w)
			atomic_fetch_or(want_word(rail, sid, w), 1ull << bell);
}

static void shm_retract(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t bell)
{
	/* The shared bell may be another sleeper's announcement too: it stays until it is rung. */
	if (bell == RSK_SHM_SHARED_BELL)
		return;
	for (uint32_t w = 1; w <= what; w <<= 1)
		if (what & w)
			atomic_fetch_and(want_word(rail, sid, w), ~(1ull << bell));
}

const struct rsk_fabric_ops rsk_shm_ops = {
	.name = "shm",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
	.get = shm_get,
	.poll = shm_poll,
	.due = shm_due,
	.ring = shm_ring,
	.announce = shm_announce,
	.retract = shm_retract,
};
