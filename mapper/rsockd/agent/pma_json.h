/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_json.h - what policy agents say to each other, as JSON: from and to the structs of pma_ask.h and pma_central.h.
 * Strict: what is missing, of another kind, out of bounds or not known is refused, and so is a message with more in it
 * than one may hold. Pure.
 *
 *	all:		{"node": NAME, "boot": 16 hexadecimal digits, ...}
 *	decide:		"questions": [{"id", "side": "cp"|"ap", "cp", "ap", "port", "one", "user"?, "at"?}]
 *			-> "answers": [{"id", "verdict", "rule", "device", "ip"?, "port", "pm_time", "priority", "dscp",
 *			"rate", "bps", "memory_maps", "connections", "redirect"?, "lease_ms"}]
 *	release, confirm: "ids": [...] -> {}
 *	report:		"resume", "part", "last", "load", "devices": [{"name", "ip", "state", "sessions",
 *			"sessions_max", "bps", "bps_max", "others_bps"}], "held": [a question and "ip", "bps",
 *			"memory_maps", "connections", "used"]
 *			-> {"hold_ms"}
 */
#ifndef RSK_PMA_JSON_H
#define RSK_PMA_JSON_H

#include <jansson.h>

#include "pma_ask.h"
#include "pma_central.h"

#define RSK_PMA_JSON_MOST (1u << 20) /* bytes of a message */

/* Who speaks. Borrowed from the JSON. */
struct rsk_pma_speaker {
	const char *node;
	uint64_t boot;
};

/* Bytes to JSON; NULL: it is none, or too much. The caller's to free. */
json_t *rsk_pma_json_read(const void *bytes, size_t n);

/* ---- what a local agent says: takes and returns references of the caller ---- */
json_t *rsk_pma_json_questions(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			       size_t n);
json_t *rsk_pma_json_ids(const struct rsk_pma_speaker *who, const struct rsk_ask_item *items,
			 size_t n);
json_t *rsk_pma_json_report(const struct rsk_pma_speaker *who, bool resume, uint32_t part,
			    bool last, double load, const struct rsk_central_device *devices,
			    size_t n_devices, const struct rsk_ask_item *held, size_t n_held);

/* and hears. Number of them, or -EBADMSG. */
int rsk_pma_json_take_answers(json_t *body, uint64_t ids[static RSK_ASK_BATCH],
			      struct rsk_ask_answer answers[static RSK_ASK_BATCH]);
int rsk_pma_json_take_hold(json_t *body, uint64_t *hold_ns);

/* ---- what the central one hears: number of them, or -EBADMSG ---- */
int rsk_pma_json_take_questions(json_t *body, struct rsk_pma_speaker *who,
				struct rsk_ask_item items[static RSK_ASK_BATCH]);
int rsk_pma_json_take_ids(json_t *body, struct rsk_pma_speaker *who,
			  uint64_t ids[static RSK_ASK_IDS]);
struct rsk_pma_report {
	bool resume, last;
	uint32_t part;
	double load;
	struct rsk_central_device *devices; /* allocated; the caller's */
	size_t n_devices;
	struct rsk_ask_item held[RSK_ASK_BATCH];
};
/* Number of what is held. */
int rsk_pma_json_take_report(json_t *body, struct rsk_pma_speaker *who, struct rsk_pma_report *out);

/* and says */
json_t *rsk_pma_json_answers(const struct rsk_ask_item *items, size_t n);

#endif
