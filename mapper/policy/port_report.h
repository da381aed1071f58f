/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_report.h - what a node's own agent says of a port of its RNICs: how it is attached, what it
 * reaches, whether it is a spare, and for sessions of which priority. A central agent adds it to
 * what its own configuration says (pma_central.c): it can only make a port less suitable. The order
 * of RNICs is not in it: nodes number theirs as they like, and the central agent compares RNICs of
 * several nodes. Pure.
 */
#ifndef RSK_PORT_REPORT_H
#define RSK_PORT_REPORT_H

#include "bus.h"
#include "conf.h"

#define RSK_PORT_REACH_MOST 8

/* All zero: nothing is known. */
struct rsk_port_report {
	struct rsk_bus bus; /* of its RNIC */
	/* None: everything */
	struct rsk_conf_prefix reach[RSK_PORT_REACH_MOST];
	size_t n_reach;
	enum rsk_conf_qos qos; /* sessions that it is for */
	bool spare;
};

/* What the configuration says of that port. More networks than fit count as everything. */
void rsk_port_report_of(const struct rsk_conf *conf, uint32_t port, const struct rsk_bus *bus,
			struct rsk_port_report *out);

bool rsk_port_report_reaches(const struct rsk_port_report *r, uint8_t ipv,
			     const uint8_t ip[static 16]);

bool rsk_port_report_validate(const struct rsk_port_report *r);

#endif
