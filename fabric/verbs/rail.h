/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rail.h - what the progress thread does with rails: registrations, creation and teardown, and
 * connections by rdma_cm. Contracts: the member of struct rsk_verbs_module (fabric/verbs.h) that
 * module.c sets to each.
 */
#ifndef RSK_VERBS_RAIL_H
#define RSK_VERBS_RAIL_H

#include "inner.h"

/* ---- mr.c ---- */
struct ibv_mr *rsk_mr_new(struct rsk_verbs_rail *r, void *at, size_t bytes, int access, int *rc);
void rsk_mr_free(struct rsk_verbs *v, struct ibv_mr **mr);
void rsk_mr_drop_all(struct rsk_verbs_rail *r);
int rsk_mr_buffers(struct rsk_verbs_rail *r);
int rsk_mr_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey);
int rsk_mr_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes, uint32_t *rkey);
/*
 * Returns a registration of at least the first @bytes at @at, which it makes if there is none.
 * NULL: *rc.
 */
struct ibv_mr *rsk_mr_width(struct rsk_verbs_rail *r, struct rsk_vwidths *w, void *at, size_t bytes,
			    int access, int *rc);
/* All but the first widths of all rings. There is no queue pair. */
void rsk_mr_narrow_all(struct rsk_verbs_rail *r);
/* Frees those of more than the first @bytes. */
void rsk_mr_narrow(struct rsk_verbs *v, struct rsk_vwidths *w, size_t bytes);
void rsk_mr_narrow_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes);

/* ---- rail.c (progress thread) ---- */
struct rsk_verbs_rail *rsk_rail_new(struct rsk_verbs *v, struct rsk_seg *seg, struct rsk_rail *rail,
				    void *ctx);
void rsk_rail_free(struct rsk_verbs_rail *r);
/* Creates the queue pair on r->id, whose device is known. Returns 0 or -errno. */
int rsk_rail_make_qp(struct rsk_verbs_rail *r);
void rsk_rail_up(struct rsk_verbs_rail *r);
void rsk_rail_break(struct rsk_verbs_rail *r);
/* Breaks the rail and calls host->down(); @r may be freed on return. */
void rsk_rail_down(struct rsk_verbs_rail *r, int err);
/* Takes down all rails of the device and frees all that they have registered there. */
void rsk_rails_leave(struct rsk_vdev *d);
int rsk_rail_end(struct rsk_verbs_rail *r, struct rsk_verbs_end *out);
int rsk_rail_set_peer(struct rsk_verbs_rail *r, const struct rsk_verbs_end *peer);
int rsk_rail_set_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t rkey);
int rsk_rail_set_ring(struct rsk_verbs_rail *r, uint32_t sid, enum rsk_verbs_way way, uint32_t rkey,
		      uint32_t bytes);
int rsk_rail_narrow_window(struct rsk_verbs_rail *r, uint32_t sid, uint32_t rkey, uint32_t bytes);
int rsk_rail_ring_way(const struct rsk_verbs_rail *r, uint32_t sid);
void rsk_rail_probe(struct rsk_verbs_rail *r);
int rsk_rail_settle(struct rsk_verbs_rail *r, uint64_t timeout_ns);
int rsk_rail_say(struct rsk_verbs_rail *r, const void *word, size_t bytes);

/* ---- cm.c ---- */
/* Handles what rdma_cm has reported, a limited number of events. */
void rsk_cm_events(struct rsk_verbs *v);
int rsk_cm_listen(struct rsk_verbs *v, uint16_t port);
/* Closes the listeners. */
void rsk_cm_unlisten(struct rsk_verbs *v);
void rsk_cm_local_addr(const struct rsk_verbs_rail *r, struct rsk_verbs_addr *from);
int rsk_cm_connect(struct rsk_verbs_rail *r, const struct rsk_verbs_addr *from,
		   const struct rsk_verbs_addr *to, const void *data, size_t bytes);

/* ---- forked.c ---- */
void rsk_verbs_forked(struct rsk_verbs *v);

#endif
