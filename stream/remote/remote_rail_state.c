// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_rail_state.c - ends a rail, or sets the time of its next attempt; names the devices of a
 * link for its record. Only the progress thread runs this.
 */
#include <stdio.h>
#include <string.h>

#include "pairing.h"
#include "recovery.h"
#include "remote_parts.h"
#include "stream.h"

#define AGAIN_NS 100000000ull /* after a break; doubles */
#define AGAIN_MOST 6	      /* times */

void rsk_remote_rail_idle(struct rsk_remote_rail *rail)
{
	uint32_t shift = rail->tries < AGAIN_MOST ? rail->tries : AGAIN_MOST;

	rail->state = RSK_REMOTE_RAIL_IDLE;
	rsk_reservations_give(&rail->reservation);
	rail->established = rail->heard = false;
	rail->tries++;
	rail->due_ns = rail->r->initiator && rail->to.family ? rsk_now_ns() + (AGAIN_NS << shift) :
							       UINT64_MAX;
}

void rsk_remote_rail_end(struct rsk_remote_rail *rail)
{
	if (rail->rail)
		rsk_rdma_module->rail_break(rail->rail);
	rail->established = rail->heard = false;
}

/* Sets the name to "verbs" and the devices of the rails that are up, as far as there is room. */
void rsk_remote_name_fabric(struct rsk_remote *r)
{
	char name[sizeof(r->l->fabric)] = "verbs";
	uint32_t mtu;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		size_t len = strlen(name);

		if (r->rail[i].state == RSK_REMOTE_RAIL_UP)
			snprintf(name + len, sizeof(name) - len, " %s",
				 rsk_rdma_module->rail_device(r->rail[i].rail, &mtu));
	}
	rsk_pairing_take();
	memcpy(r->l->fabric, name, sizeof(name));
	rsk_pairing_give();
	rsk_recovery_fabric(r->l);
}
