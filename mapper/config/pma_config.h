/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_config.h - settings of the exchange between policy agents: pma_ask.h, pma_central.h. */
#ifndef RSK_PMA_CONFIG_H
#define RSK_PMA_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#define RSK_ASK_NAME 64 /* bytes of a stored name, including its end */

struct rsk_ask_config {
	uint64_t timeout_ns; /* of a question, and of a message */
	uint64_t report_ns;  /* interval of reports, also after a failure */
	uint32_t max_questions, max_idle;
	uint64_t boot; /* random: identifies this incarnation of the daemon */
};

#define RSK_ASK_DEFAULT                                                                            \
	{                                                                                          \
		.timeout_ns = 500000000, .report_ns = 1000000000, .max_questions = 1024,           \
		.max_idle = 4096,                                                                  \
	}

struct rsk_central_config {
	uint64_t lost_ns;	      /* silence after which a node is lost */
	uint64_t lease_ns;	      /* how long an answer may be kept */
	size_t max_nodes, max_leases; /* leases of all nodes together */
};

#define RSK_CENTRAL_DEFAULT                                                                        \
	{                                                                                          \
		.lost_ns = 3000000000, .lease_ns = 10000000000, .max_nodes = 4096,                 \
		.max_leases = 4194304,                                                             \
	}

#endif
