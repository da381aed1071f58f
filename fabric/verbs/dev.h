/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dev.h - devices: their descriptors, what all rails of a device share, what each rail owns there,
 * and the events that devices report. Called by the other files of librsock-verbs.so.
 */
#ifndef RSK_VERBS_DEV_H
#define RSK_VERBS_DEV_H

#include "inner.h"

/* ---- contexts.c ---- */
/*
 * Moves *fd, a field of one of libibverbs' structs, away from the application's descriptors and
 * makes it non-blocking. Returns 0, or -errno and *fd is -1.
 */
int rsk_verbs_move_fd(struct rsk_verbs *v, int *fd);
/*
 * Does the same with @fd, which is a new descriptor (ownership passes) or -errno, and stores it in
 * *to.
 */
int rsk_verbs_own_fd(struct rsk_verbs *v, int fd, int *to);
int rsk_verbs_watch(struct rsk_verbs *v, int fd, struct rsk_source *source);
/* Moves the descriptors of @ctx. Returns 0 or -errno; 0 also if they were moved before. */
int rsk_context_own(struct rsk_verbs *v, struct ibv_context *ctx);
/*
 * Closes the descriptors of @ctx. The kernel does not release a device while it is open (rxe), and
 * librdmacm closes it only when it looks for another device; it then finds that nothing is left to
 * close.
 */
void rsk_context_leave(struct rsk_verbs *v, struct ibv_context *ctx);
/* Does the same for the devices of that name */
void rsk_contexts_removed(struct rsk_verbs *v, const char *name);
void rsk_contexts_forked(void);

/*
 * In the child of a fork: closes the descriptor and sets it to -1, so that no destructor of
 * librdmacm closes another descriptor that has the number by then.
 */
static inline void rsk_drop_fd(int *fd)
{
	if (*fd >= 0)
		rsk_sys_close(*fd);
	*fd = -1;
}

/* ---- poll.c ---- */
/* Called with dev->lock held, or before any other thread can see @r. Returns 0 or -EIO. */
int rsk_recvs_post(struct rsk_verbs_rail *r, uint32_t n);
void rsk_vdev_add(struct rsk_vdev *d, struct rsk_verbs_rail *r);
/*
 * When it returns, no thread holds a completion of @r, no more completions will come, and the data
 * of earlier ones has been moved to its place.
 */
void rsk_vdev_remove(struct rsk_vdev *d, struct rsk_verbs_rail *r);
int rsk_vdev_poll(struct rsk_vdev *d, bool events);
/* Takes all completions that are in the queues now. */
void rsk_vdev_drain(struct rsk_vdev *d);
int rsk_verbs_poll(struct rsk_verbs *v, bool events);
/*
 * Progress thread: passes one control message that has come to the host. Returns false if there is
 * none or if the quota of this turn is used up. @r may be freed on return.
 */
bool rsk_rail_hear(struct rsk_verbs_rail *r);

/* ---- domain.c ---- */
/*
 * Allocates a protection domain on r->dev for this rail unless it has one there. Returns 0, or
 * -errno and nothing is registered.
 */
int rsk_domain_open(struct rsk_verbs_rail *r);
/* Called when nothing in the domain is registered any more. */
void rsk_domain_close(struct rsk_verbs_rail *r);
/*
 * Creates the receive queue of the rail's next queue pair and reserves space for its completions.
 * Returns 0, or -errno and there is no receive queue.
 */
int rsk_recvs_open(struct rsk_verbs_rail *r);
/* Called when that queue pair no longer exists */
void rsk_recvs_close(struct rsk_verbs_rail *r);
/* Called when the device reports that the receive queue is low */
void rsk_recvs_low(struct rsk_verbs_rail *r);
/* Called when no rail is on the device */
void rsk_recvs_drop_cqs(struct rsk_vdev *d);

/* ---- dev.c ---- */
struct rsk_vdev *rsk_vdev_get(struct rsk_verbs *v, struct ibv_context *ctx, int *rc);
struct rsk_vdev *rsk_vdev_of(const struct rsk_verbs *v, const struct ibv_context *ctx);
void rsk_vdev_free_all(struct rsk_verbs *v);
/* Marks the device dead and destroys its objects. No rail is on it any more. */
void rsk_vdev_drop(struct rsk_vdev *d);
/* Handles completions of sends and errors: checks the rails concerned. */
void rsk_vdev_sends(struct rsk_vdev *d);

/* ---- events.c ---- */
/*
 * The device was removed or has failed for good. Its rails go down with -ENODEV, and the module
 * releases everything it holds of the device, so that the kernel can release it too.
 */
void rsk_vdev_gone(struct rsk_vdev *d);
void rsk_vdev_async(struct rsk_vdev *d);
/*
 * Adds the kernel's uevents as an event source. Without them the caller has to try again by itself.
 */
void rsk_verbs_watch_kernel(struct rsk_verbs *v);
/* Handles all uevents about devices that the kernel has sent so far. */
void rsk_verbs_hear_kernel(struct rsk_verbs *v);

/* ---- device_addrs.c ---- */
uint32_t rsk_verbs_addresses(struct rsk_verbs *v, struct rsk_verbs_device_addr *out, uint32_t most);

#endif
