/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dev.h - devices: their descriptors, what all rails on one share, what each has there, what they say.
 */
#ifndef RSK_VERBS_DEV_H
#define RSK_VERBS_DEV_H

#include "inner.h"

/* ---- contexts.c ---- */
/* Moves *fd (a field of one of libibverbs' structs), non-blocking. 0, or -errno and *fd is -1. */
int rsk_verbs_move_fd(struct rsk_verbs *v, int *fd);
/* The same of @fd, a new one or -errno, which is owned: to *to. */
int rsk_verbs_own_fd(struct rsk_verbs *v, int fd, int *to);
int rsk_verbs_watch(struct rsk_verbs *v, int fd, struct rsk_source *source);
int rsk_context_own(struct rsk_verbs *v, struct ibv_context *ctx); /* 0 or -errno; again: 0 */
/*
 * Its descriptors are closed: the kernel does not let go of a device as long as somebody has it open (rxe), and
 * librdmacm closes it only when it looks for another one: then it finds that there is nothing left to be closed.
 */
void rsk_context_leave(struct rsk_verbs *v, struct ibv_context *ctx);
void rsk_contexts_removed(struct rsk_verbs *v, const char *name); /* the same, by its name */
void rsk_contexts_forked(void);

/* Of a child: closed, so that no destructor of librdmacm's closes what has that number by then. */
static inline void rsk_drop_fd(int *fd)
{
	if (*fd >= 0)
		rsk_sys_close(*fd);
	*fd = -1;
}

/* ---- poll.c ---- */
int rsk_recvs_post(struct rsk_verbs_rail *r, uint32_t n); /* dev->lock, or nobody else has it yet */
void rsk_vdev_add(struct rsk_vdev *d, struct rsk_verbs_rail *r);
/* Nobody holds a completion of it when it returns, and none will come; what has come is in its place. */
void rsk_vdev_remove(struct rsk_vdev *d, struct rsk_verbs_rail *r);
int rsk_vdev_poll(struct rsk_vdev *d, bool events);
/* Takes all that is in the queues by now. */
void rsk_vdev_drain(struct rsk_vdev *d);
int rsk_verbs_poll(struct rsk_verbs *v, bool events);
/* Keeper: one word that has come is told. False: there is none, or none may be now. @r may be gone afterwards. */
bool rsk_rail_hear(struct rsk_verbs_rail *r);

/* ---- domain.c ---- */
/* A protection domain of its own on r->dev, if it has none there. 0 or -errno: then nothing is registered. */
int rsk_domain_open(struct rsk_verbs_rail *r);
void rsk_domain_close(struct rsk_verbs_rail *r); /* nothing of it is registered any more */
/* Receives of its next queue pair, and a place for their completions. 0, or -errno and there are none. */
int rsk_recvs_open(struct rsk_verbs_rail *r);
void rsk_recvs_close(struct rsk_verbs_rail *r); /* that queue pair is no more */
void rsk_recvs_low(struct rsk_verbs_rail *r);	/* the device has said so */
void rsk_recvs_drop_cqs(struct rsk_vdev *d);	/* no rail is on it */

/* ---- dev.c ---- */
struct rsk_vdev *rsk_vdev_get(struct rsk_verbs *v, struct ibv_context *ctx, int *rc);
struct rsk_vdev *rsk_vdev_of(const struct rsk_verbs *v, const struct ibv_context *ctx);
void rsk_vdev_free_all(struct rsk_verbs *v);
/* No rail is on it any more: it is dead, and nothing of it is held. */
void rsk_vdev_drop(struct rsk_vdev *d);
/* Completions of sends, or errors: their rails are looked at. */
void rsk_vdev_sends(struct rsk_vdev *d);

/* ---- events.c ---- */
/*
 * It has been taken away, or is broken for good: its rails go down with -ENODEV, and nothing of it is held any more,
 * so that the kernel can let it go.
 */
void rsk_vdev_gone(struct rsk_vdev *d);
void rsk_vdev_async(struct rsk_vdev *d);
/* Its uevents are a source; without them somebody has to try again. */
void rsk_verbs_watch_kernel(struct rsk_verbs *v);
/* What the kernel has said of devices so far. */
void rsk_verbs_hear_kernel(struct rsk_verbs *v);

/* ---- device_addrs.c ---- */
uint32_t rsk_verbs_addresses(struct rsk_verbs *v, struct rsk_verbs_device_addr *out, uint32_t most);

#endif
