/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_json.h - converts the messages between policy agents: JSON to and from the structs of
 * pma_ask.h and pma_central.h. Parsing is strict, at both ends: a message with a missing,
 * out-of-range, wrongly typed or unknown field is refused, and so is one with more elements than
 * allowed. Messages with other fields need another version in the path. Pure. pma_link.c and
 * pma_serve.c call it.
 *
 *	all:		{"node": NAME, "boot": 16 hexadecimal digits, "role"?, ...}; "role": the
 *			revision of the role in etcd by which the node has found the agent
 *	decide:		"questions": [{"id", "side": "cp"|"ap", "cp", "ap", "port", "one", "user"?,
 *			"at"?}]
 *			-> "answers": [{"id", "verdict", "rule", "device", "ip"?, "port", "pm_time",
 *			"priority", "dscp", "rate", "bps", "memory_maps", "connections",
 *			"redirect"?, "lease_ms"}]
 *	release, confirm: "ids": [...] -> {}
 *	report:		"resume", "part", "last", "load", "devices": [{"name", "ip", "state",
 *			"sessions", "sessions_max", "bps", "bps_max", "others_bps", and fields of
 *			port_json.h}],
 *			"held": [a question and "ip", "bps", "memory_maps", "connections", "used"]
 *			-> {"hold_ms"}
 */
#ifndef RSK_PMA_JSON_H
#define RSK_PMA_JSON_H

#include <jansson.h>

#include "pma_ask.h"
#include "pma_central.h"

#define RSK_PMA_JSON_MOST (1u << 20) /* bytes of a message */

/* The sender of a message. Borrowed from the JSON. */
struct rsk_pma_speaker {
	const char *node;
	uint64_t boot;
	uint64_t role; /* 0: it asks at an address that its configuration names */
};

/* Parses @n bytes. NULL: not JSON, or too long. The caller frees the result. */
json_t *rsk_pma_json_read(const void *bytes, size_t n);

/* ---- local agent: makes messages; they take and return references of the caller ---- */
json_t *rsk_pma_json_questions(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			       size_t n);
json_t *rsk_pma_json_ids(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			 size_t n);
json_t *rsk_pma_json_report(const struct rsk_pma_speaker *who, bool resume, uint32_t part,
			    bool last, double load, const struct rsk_central_device *devices,
			    size_t n_devices, const struct rsk_ask_item *held, size_t n_held);

/* ---- local agent: parses answers. Returns the number of elements, or -EBADMSG ---- */
int rsk_pma_json_take_answers(json_t *body, uint64_t ids[static RSK_ASK_BATCH],
			      struct rsk_ask_answer answers[static RSK_ASK_BATCH]);
int rsk_pma_json_take_hold(json_t *body, uint64_t *hold_ns);

/* ---- central agent: parses messages. Returns the number of elements, or -EBADMSG ---- */
int rsk_pma_json_take_questions(json_t *body, struct rsk_pma_speaker *who,
				struct rsk_ask_item items[static RSK_ASK_BATCH]);
int rsk_pma_json_take_ids(json_t *body, struct rsk_pma_speaker *who,
			  uint64_t ids[static RSK_ASK_IDS]);
struct rsk_pma_report {
	bool resume, last;
	uint32_t part;
	double load;
	struct rsk_central_device *devices; /* allocated; the caller frees it */
	size_t n_devices;
	struct rsk_ask_item held[RSK_ASK_BATCH];
};
/* Returns the number of elements in held, -EBADMSG, or -ENOMEM. */
int rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who, struct rsk_pma_report *out);

/* ---- central agent: makes answers ---- */
json_t *rsk_pma_json_answers(const struct rsk_ask_item *items, size_t n);

#endif
