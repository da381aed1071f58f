/* SPDX-License-Identifier: BSD-2-Clause */
/* knobs.h - what the environment says; of the process, set once at its start. */
#ifndef RSK_KNOBS_H
#define RSK_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "order.h"
#include "policy.h"

struct rsk_knobs {
	bool disabled;
	uint32_t spin_ns;
	bool spin_set; /* by the user: no longer than that */
	uint32_t ring_bytes;
	uint32_t rdma_rails;	     /* of a link, at most: 1 to RSK_RAILS_MOST */
	struct rsk_order_form order; /* of marks that are written where a link has several rails */
	uint32_t rdma_ring_bytes;    /* of streams to other hosts: registered memory */
	bool no_shm; /* what is shared with processes of this host is as with those of others: by rails */
	struct rsk_policy policy;
	const char *stat_file;
	const char *daemon; /* path of rsockd's socket for processes; "": it is not asked */
};
extern struct rsk_knobs rsk_knobs;

void rsk_knobs_read(void);

#endif
