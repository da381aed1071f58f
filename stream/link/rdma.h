/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma.h - the RDMA of this process: the verbs module, which the progress thread loads where there
 * is a device, the port at which rails and control connections are accepted, and the handling of
 * completions. remote/ and the waits call it.
 */
#ifndef RSK_RDMA_H
#define RSK_RDMA_H

#include "link.h"
#include "verbs.h"

/* Whether this host has an RDMA device. Reads sysfs; any thread may call it. */
bool rsk_rdma_device(void);

/* Progress thread: loads and opens the module; its events go to remote.c. 0 or -errno. */
int rsk_rdma_open(const struct rsk_verbs_host *host);
void rsk_rdma_forked(void); /* in the child: closes what it inherited */

/* NULL until it is open. */
extern const struct rsk_verbs_module *rsk_rdma_module;
extern struct rsk_verbs *rsk_rdma;

/*
 * Progress thread: accepts rails at this port, and makes a listening socket at the same number for
 * control connections. 0 or -errno. The caller owns *control.
 */
int rsk_rdma_listen(uint16_t *port, int *control);

/*
 * Takes completions, sets ready bits, and wakes the threads that they are for. Any thread may call
 * it, in a signal-deferred section. @events: the caller has slept where the news could have come;
 * without it the call is a cheap check. Returns how many completions it took.
 */
int rsk_rdma_poll(bool events);

/* To sleep on, in addition to a link's own doorbells. */
int rsk_rdma_news_fd(void);

/* verbs.h: news(). */
void rsk_rdma_news(void *ctx, void *link, uint32_t sid, uint32_t what);

#endif
