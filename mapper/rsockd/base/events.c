// SPDX-License-Identifier: BSD-2-Clause
/* events.c - see events.h. */
#include "events.h"

#include <inttypes.h>

#include "say.h"

static const struct {
	const char *name, *words;
} events[RSK_PMA_EVENTS] = {
	[RSK_PMA_DEVICE_UP] = { "device-up", "takes new sessions" },
	[RSK_PMA_DEVICE_DOWN] = { "device-down", "is down" },
	[RSK_PMA_DEVICE_DRAINING] = { "device-draining", "is drained: no new sessions" },
	[RSK_PMA_DEVICE_OVERLOAD] = { "device-overload", "has too much to do" },
	[RSK_PMA_DEVICE_RELIEF] = { "device-relief", "has less to do again" },
	[RSK_PMA_NODE_OVERLOAD] = { "node-overload", "has too much to do" },
	[RSK_PMA_NODE_RELIEF] = { "node-relief", "has less to do again" },
	[RSK_PMA_SERVICE_BELOW] = { "service-below", "carries fewer transactions than wanted" },
	[RSK_PMA_SERVICE_RELIEF] = { "service-relief", "carries what is wanted, or is idle" },
};

const char *rsk_absence_words(enum rsk_pma_absence absence)
{
	static const char *const words[RSK_PMA_ABSENCES] = {
		[RSK_PMA_NO_RDMA] = "there is no RDMA device on the link of its address",
		[RSK_PMA_NO_LINK] = "no link that works has its address",
	};

	return absence < RSK_PMA_ABSENCES ? words[absence] : NULL;
}

static void happened(void *pma, enum rsk_pma_event event, const char *name)
{
	const char *why = NULL;

	if (event == RSK_PMA_DEVICE_DOWN)
		why = rsk_absence_words(rsk_pma_absent(pma, name));
	rsk_say("%s %s%s%s", name ? name : "this node", events[event].words, why ? ": " : "",
		why ? why : "");
}

void rsk_events_open(struct rsk_pma *pma)
{
	rsk_pma_listen(pma, happened, pma);
}

void rsk_events_write(const struct rsk_pma *pma, struct evbuffer *out)
{
	evbuffer_add_printf(
		out,
		"# TYPE rsockd_policy_events counter\n"
		"# HELP rsockd_policy_events state changes of devices, services and the node\n");
	for (int e = 0; e < RSK_PMA_EVENTS; e++)
		evbuffer_add_printf(out, "rsockd_policy_events_total{event=\"%s\"} %" PRIu64 "\n",
				    events[e].name,
				    rsk_pma_event_count(pma, (enum rsk_pma_event)e));
	evbuffer_add_printf(out,
			    "# TYPE rsockd_node_overloaded gauge\n"
			    "# HELP rsockd_node_overloaded 1: the node is overloaded\n"
			    "rsockd_node_overloaded %d\n",
			    rsk_pma_overloaded(pma));
}
