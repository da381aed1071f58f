/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qos.h - differentiated service of a connection, as the policy of its host has decided. rsockd
 * tells the process that holds the connection (local.h), and librsock applies it to what that end
 * sends. All zero: nothing is decided, and nothing is changed.
 */
#ifndef RSOCK_QOS_H
#define RSOCK_QOS_H

#include <stdbool.h>
#include <stdint.h>

#define RSK_QOS_DSCP_MOST 63u
#define RSK_QOS_PRIORITY_MOST 7u

struct rsk_qos {
	uint64_t rate_bps; /* bits per second that this end may send; 0: any number */
	uint8_t dscp;	   /* 0: the program's own */
	uint8_t priority;  /* the scheduling ring: 0 is the lowest */
	uint8_t spare[6];  /* 0 */
};

static inline bool rsk_qos_same(const struct rsk_qos *a, const struct rsk_qos *b)
{
	return a->rate_bps == b->rate_bps && a->dscp == b->dscp && a->priority == b->priority;
}

#endif
