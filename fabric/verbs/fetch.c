// SPDX-License-Identifier: BSD-2-Clause
/*
 * fetch.c - reads of the peer's memory: RDMA READ. Called by streams through the table in put.c. A
 * READ that completes without a response (canary.h) is posted again.
 */
#include <errno.h>

#include "ops.h"
#include "post.h"

/*
 * Takes a response slot, which stays in use until its completion is polled. Returns its index or
 * -errno.
 */
static int take_slot(struct rsk_verbs_rail *r, void *dst, size_t len, uint64_t token)
{
	uint32_t slot = 0;

	while (slot < RSK_VERBS_READS && r->read[slot].state != RSK_READ_FREE)
		slot++;
	if (slot == RSK_VERBS_READS || !rsk_post_room(r, 1))
		return -EAGAIN;
	r->read[slot] = (struct rsk_vread){
		.state = RSK_READ_POSTED, .token = token, .dst = dst, .len = (uint32_t)len
	};
	return (int)slot;
}

int rsk_verbs_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_quiet q;
	struct rsk_remote_region at;
	uint32_t rkey = 0;
	int rc = rsk_remote_region_find(r->seg, off, len, &at);

	if (rc < 0 || len > RSK_VERBS_READ_BYTES)
		return -EINVAL;
	q = rsk_quiet_begin();
	pthread_mutex_lock(&r->lock);
	rc = rsk_remote_region_key(r, &at, &rkey);
	if (rc == 0)
		rc = take_slot(r, dst, len, token);
	if (rc >= 0) {
		r->read[rc].rkey = rkey;
		r->read[rc].from = r->peer.segment + off;
		rc = rsk_post_read(r, (uint32_t)rc, r->peer.segment + off, rkey);
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return rc;
}

/*
 * The response is missing. Returns true if the READ is posted again, now or later; false if it
 * completes with its status.
 */
static bool asks_again(struct rsk_verbs_rail *r, uint32_t slot)
{
	struct rsk_vread *rd = &r->read[slot];

	rd->status = -EIO;
	if (!r->live || ++rd->asked >= RSK_CANARY_ASKS)
		return false;
	if (!rsk_post_room(r, 1)) {
		rd->asked--;
		return true;
	}
	rd->state = RSK_READ_POSTED;
	rd->missing = false;
	if (rsk_post_read(r, slot, rd->from, rd->rkey) == 0)
		return true;
	rd->state = RSK_READ_DONE;
	return false;
}

int rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_quiet q = rsk_quiet_begin();
	int n = 0;

	pthread_mutex_lock(&r->lock);
	if (r->live)
		rsk_post_reap(r);
	for (uint32_t i = 0; i < RSK_VERBS_READS && n < max; i++) {
		struct rsk_vread *rd = &r->read[i];

		if (rd->state != RSK_READ_DONE || (rd->missing && asks_again(r, i)))
			continue;
		done[n++] = (struct rsk_completion){ .token = rd->token, .status = rd->status };
		rd->state = RSK_READ_FREE;
	}
	if (!n && atomic_load(&r->err))
		n = atomic_load(&r->err);
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return n;
}
