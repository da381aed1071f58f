/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hotplug.h - hot-plug: which ports of this node's RNICs are there, as the kernel says (rtnetlink). A port is there while
 * one of its addresses is on this host, on a link that is up and has a path. Told as it changes, with no waiting and
 * no polling; what was missed is asked for again. One thread.
 */
#ifndef RSK_HOTPLUG_H
#define RSK_HOTPLUG_H

#include <event2/event.h>

#include "ifaces.h"

#define RSK_HOTPLUG_COUNTERS(X)                                                                    \
	X(changes, "changes of this host's links and addresses")                                   \
	X(dumps, "times that all links and addresses were asked for")                              \
	X(overruns, "times that the kernel had more to say than was heard")                        \
	X(malformed, "messages of the kernel that were not understood")

struct rsk_hotplug_counters {
#define RSK_HOTPLUG_FIELD(name, text) uint64_t name;
	RSK_HOTPLUG_COUNTERS(RSK_HOTPLUG_FIELD)
#undef RSK_HOTPLUG_FIELD
};

/* Owns its socket and events. */
struct rsk_hotplug {
	struct mnl_socket *socket; /* NULL: not open */
	struct event *readable, *again;
	struct rsk_ifaces links;
	uint32_t seq;
	int asked;  /* RTM_GETLINK, then RTM_GETADDR; 0: nothing */
	bool whole; /* all was told at least once */
	void (*changed)(void *ctx);
	void *ctx;
	struct rsk_hotplug_counters count;
};

/*
 * All links and addresses are known when it returns, unless they change just then: changed() is called from the loop.
 * 0, or -errno: it is not open, and every address counts as here.
 */
int rsk_hotplug_open(struct rsk_hotplug *p, struct event_base *base, void (*changed)(void *ctx),
		     void *ctx);
void rsk_hotplug_close(struct rsk_hotplug *p);

/* Is that address on this host, on a link that works? True if nothing is known. */
bool rsk_hotplug_carries(void *plug, const struct rsk_pm_addr *ip);

#endif
