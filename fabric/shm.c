// SPDX-License-Identifier: BSD-2-Clause
/* shm.c - the fabric for one host: see shm.h. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#include "doorbell.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int rsk_shm_create(struct rsk_seg *seg, uint32_t ring_bytes)
{
	struct rsk_seg_geometry g = { .ring_bytes = ring_bytes,
				      .streams = rsk_seg_most_streams(ring_bytes) };
	int fd, rc;

	if (seg->window_streams && seg->window_streams < g.streams)
		g.streams = seg->window_streams;
	g.bytes = rsk_seg_ring_off(&g, g.streams);
	fd = rsk_sys_memfd_create("rsock-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return fd;
	rc = rsk_sys_ftruncate(fd, (off_t)g.bytes);
	if (rc == 0)
		rc = rsk_sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (rc < 0)
		goto out;
	rc = rsk_seg_map(fd, &g, g.bytes, &seg->rail.segment);
	if (rc < 0)
		goto out;
	seg->own = g;
	seg->rail.segment_bytes = g.bytes;
	seg->rail.ops = &rsk_shm_ops;
	seg->rail.priv = seg;
	return fd;
out:
	rsk_sys_close(fd);
	return rc;
}

int rsk_shm_attach(struct rsk_seg *seg, int memfd, const struct rsk_seg_geometry *g)
{
	struct stat st;
	uint32_t streams;
	uint64_t bytes;
	int seals, rc = rsk_seg_geometry_check(g);

	if (rc < 0)
		return rc;
	streams = seg->own.streams ? seg->own.streams : rsk_seg_most_streams(g->ring_bytes);
	if (streams > g->streams)
		streams = g->streams;
	bytes = rsk_seg_ring_off(g, streams);
	seals = rsk_sys_fcntl(memfd, F_GET_SEALS, 0);
	if (seals < 0)
		return -EPROTO;
	rc = rsk_sys_fstat(memfd, &st);
	if (rc < 0)
		return rc;
	/*
	 * Sealed against shrinking, and of ordinary pages: touching a page can never cause SIGBUS.
	 */
	if ((seals & SEALS) != SEALS || (seals & F_SEAL_WRITE) ||
	    (uint64_t)st.st_size != g->bytes || st.st_blksize != 4096)
		return -EPROTO;
	rc = rsk_seg_map(memfd, g, bytes, &seg->rail.window);
	if (rc < 0)
		return rc;
	seg->peer = *g;
	seg->window_streams = streams;
	seg->rail.window_bytes = bytes;
	return 0;
}

int rsk_shm_mirror(struct rsk_seg *seg, const struct rsk_seg_geometry *g)
{
	uint32_t streams = seg->own.streams < g->streams ? seg->own.streams : g->streams;
	uint64_t bytes = rsk_seg_ring_off(g, streams);
	int fd = rsk_sys_memfd_create("rsock-mirror", MFD_CLOEXEC), rc;

	if (fd < 0)
		return fd;
	rc = rsk_sys_ftruncate(fd, (off_t)bytes);
	if (rc == 0)
		rc = rsk_seg_map(fd, g, bytes, &seg->rail.window);
	rsk_sys_close(fd);
	if (rc < 0)
		return rc;
	seg->peer = *g;
	seg->window_streams = streams;
	seg->rail.window_bytes = bytes;
	return 0;
}

static void shm_notify(struct rsk_rail *rail, uint64_t doorbells)
{
	const struct rsk_seg *seg = rail->priv;

	/* Lets the woken thread compute how long it waited, and how long waking took. */
	atomic_store_explicit(&rsk_seg_peer_head(seg)->rang_ns, rsk_monotonic_ns(),
			      memory_order_relaxed);
	doorbells &= (1u << RSK_SEG_DOORBELLS) - 1;
	while (doorbells) {
		int b = __builtin_ctzll(doorbells);

		doorbells &= doorbells - 1;
		if (seg->peer_doorbell[b] >= 0)
			rsk_doorbell_ring(seg->peer_doorbell[b]);
	}
}

static int shm_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	(void)token;
	if (off >= rail->window_bytes || len > rail->window_bytes - off)
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

static uint64_t shm_due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return rsk_seg_due(rsk_seg_peer_head(rail->priv), sid, what);
}

static void shm_announce(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	rsk_seg_announce(rail->priv, sid, what, doorbell);
}

static void shm_retract(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	rsk_seg_retract(rail->priv, sid, what, doorbell);
}

const struct rsk_fabric_ops rsk_shm_ops = {
	.name = "shm",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
	.get = shm_get,
	.poll = shm_poll,
	.due = shm_due,
	.notify = shm_notify,
	.announce = shm_announce,
	.retract = shm_retract,
};
