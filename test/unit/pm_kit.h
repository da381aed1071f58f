/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_kit.h - for tests of one machine of the port mapper: a CP at 10.0.0.1 that asks for services
 * of 10.0.0.2, which has another RDMA address; messages as bytes; time.
 */
#ifndef PM_KIT_H
#define PM_KIT_H

#include <criterion/criterion.h>
#include <string.h>

#include "deadline.h"
#include "pm_addr.h"
#include "pm_msg.h"

#define SECOND 1000000000ull
#define TICK RSK_DEADLINE_TICK_NS /* a deadline expires at most this much late */

static const struct rsk_pm_addr pm_rdma = { .ip = { 10, 9, 0, 2 }, .port = 4000, .ipv = 4 };

/* @handle 0: the PM client chooses it. @cp_port 0: a service mapping. */
static inline struct rsk_pm_msg pm_request(uint16_t service, uint16_t cp_port, uint64_t handle)
{
	return (struct rsk_pm_msg){ .op = RSK_PM_REQ,
				    .ipv = 4,
				    .ap_port = service,
				    .cp_port = cp_port,
				    .assoc_handle = handle,
				    .cp_ip = { 10, 0, 0, 1 },
				    .ap_ip = { 10, 0, 0, 2 } };
}

/* Encodes @m into @wire. Returns the length. */
static inline size_t pm_wire(const struct rsk_pm_msg *m,
			     uint8_t wire[static RSK_PM_WIRE_MAPPED_BYTES])
{
	ssize_t n = rsk_pm_msg_encode(m, wire, RSK_PM_WIRE_MAPPED_BYTES);

	cr_assert_gt(n, 0);
	return (size_t)n;
}

#endif
