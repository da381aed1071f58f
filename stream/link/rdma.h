/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma.h - this process's RDMA: the verbs module, loaded by the keeper where there is a device, the port at which rails
 * and control connections are accepted, and what its completions tell.
 */
#ifndef RSK_RDMA_H
#define RSK_RDMA_H

#include "link.h"
#include "verbs.h"

/* Has this host an RDMA device? A look at sysfs; any thread. */
bool rsk_rdma_device(void);

/* Keeper: load, open, listen; what comes in goes to remote.c. 0 or -errno. */
int rsk_rdma_open(const struct rsk_verbs_host *host);
void rsk_rdma_forked(void); /* in the child: closes what it inherited */

/* NULL until it is open. */
extern const struct rsk_verbs_module *rsk_rdma_module;
extern struct rsk_verbs *rsk_rdma;

/* Keeper: rails are accepted at this port; a listening socket at the same one, for control connections. 0 or -errno. */
int rsk_rdma_listen(uint16_t *port, int *control);

/*
 * Any thread, in a guarded section: takes completions, marks and wakes who they are for. With @events after a sleep in
 * which the news could have come; without it is a cheap look. How many it took.
 */
int rsk_rdma_poll(bool events);

/* To sleep on, besides a link's own bells. */
int rsk_rdma_news_fd(void);

/* verbs.h: news(). */
void rsk_rdma_news(void *ctx, void *link, uint32_t sid, uint32_t what);

#endif
