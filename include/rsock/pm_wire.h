/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_wire.h - the port mapper's message on the wire; mapper/pm encodes and decodes it.
 *
 * One layout for all four messages, big-endian, 48 bytes. A PMReq may have 64 bytes, if the link
 * will come from another address than the TCP connection. Source: the deployed protocol of iwpmd
 * (UDP port 3935, sdp-portmapper).
 */
#ifndef RSOCK_PM_WIRE_H
#define RSOCK_PM_WIRE_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_PM_UDP_PORT 3935
#define RSK_PM_WIRE_BYTES 48
#define RSK_PM_WIRE_MAPPED_BYTES 64

#define RSK_PM_VERSION 0
#define RSK_PM_IPV4 4
#define RSK_PM_IPV6 6

/* bits 5-4 of the first byte */
enum rsk_pm_op {
	RSK_PM_REQ = 0,
	RSK_PM_ACCEPT = 1,
	RSK_PM_ACK = 2,
	RSK_PM_DENY = 3,
};

struct rsk_pm_wire {
	uint8_t magic;		  /* version 7-6, OP 5-4, IPV 3-0 */
	uint8_t pm_time_s;	  /* PmTime: validity in seconds, counted from the response */
	__be16 mapped_cp_port;	  /* 64-byte PMReq only, else reserved: 0 */
	__be16 ap_port;		  /* ApPort */
	__be16 cp_port;		  /* CpPort */
	__be64 assoc_handle;	  /* AssocHandle */
	uint8_t cp_ip[16];	  /* CpIPaddr; IPv4: the first 4 bytes, rest 0 */
	uint8_t ap_ip[16];	  /* ApIPaddr */
	uint8_t mapped_cp_ip[16]; /* 64-byte PMReq only */
};

_Static_assert(sizeof(struct rsk_pm_wire) == RSK_PM_WIRE_MAPPED_BYTES, "64-byte form");
_Static_assert(offsetof(struct rsk_pm_wire, pm_time_s) == 1, "PmTime");
_Static_assert(offsetof(struct rsk_pm_wire, mapped_cp_port) == 2, "reserved / mapped CpPort");
_Static_assert(offsetof(struct rsk_pm_wire, ap_port) == 4, "ApPort");
_Static_assert(offsetof(struct rsk_pm_wire, cp_port) == 6, "CpPort");
_Static_assert(offsetof(struct rsk_pm_wire, assoc_handle) == 8, "AssocHandle");
_Static_assert(offsetof(struct rsk_pm_wire, cp_ip) == 16, "CpIPaddr");
_Static_assert(offsetof(struct rsk_pm_wire, ap_ip) == 32, "ApIPaddr");
_Static_assert(offsetof(struct rsk_pm_wire, mapped_cp_ip) == RSK_PM_WIRE_BYTES, "48-byte form");

#endif /* RSOCK_PM_WIRE_H */
