/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hotplug.h - hot-plug: tracks by rtnetlink which ports of this node's RNICs are present. A port is
 * present while one of its addresses is on this host, on a link that is up and running (IFF_UP and
 * IFF_RUNNING). Changes are reported as they happen, without polling; after an overrun everything
 * is dumped again. daemon_open.c opens it, and the policy agent asks it about addresses. One
 * thread.
 */
#ifndef RSK_HOTPLUG_H
#define RSK_HOTPLUG_H

#include <event2/event.h>

#include "ifaces.h"

#define RSK_HOTPLUG_COUNTERS(X)                                                                    \
	X(changes, "changes of this host's links and addresses")                                   \
	X(dumps, "times that all links and addresses were read")                                   \
	X(overruns, "times that messages of the kernel were lost: too many at once")               \
	X(malformed, "messages of the kernel that could not be parsed")

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
	int asked;  /* what is being dumped: RTM_GETLINK, then RTM_GETADDR; 0: nothing */
	bool whole; /* a dump has been completed at least once */
	void (*changed)(void *ctx);
	void *ctx;
	struct rsk_hotplug_counters count;
};

/*
 * Opens the socket and reads all links and addresses; they are known when it returns, unless they
 * change at that moment. In that case, and at each later change, the event loop calls changed().
 * Returns 0 or -errno. After an error @p is closed, and every address counts as present.
 */
int rsk_hotplug_open(struct rsk_hotplug *p, struct event_base *base, void (*changed)(void *ctx),
		     void *ctx);
void rsk_hotplug_close(struct rsk_hotplug *p);

/*
 * True if address @ip is on this host, on a link that works, or if nothing is known. @plug is a
 * struct rsk_hotplug.
 */
bool rsk_hotplug_carries(void *plug, const struct rsk_pm_addr *ip);

#endif
