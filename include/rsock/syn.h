/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn.h - what names a TCP connection to both of its ends, and to nobody else, across network
 * namespaces and address translation: two fields of its first segment (the SYN) that the kernel
 * chooses. How each end finds them out, and who else might: docs/adr/containers.md.
 */
#ifndef RSOCK_SYN_H
#define RSOCK_SYN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct rsk_syn {
	uint32_t seq; /* the initial sequence number of the connecting end */
	/*
	 * IPv4: the identification of the packet; IPv6: the low 16 bits of its flow label. Random.
	 * The first of @n values that it may have, modulo 2^16; the connecting end may have sent
	 * more segments than it knows of when it counts back to the first.
	 */
	uint16_t mark;
	uint16_t n; /* 0: unknown */
};

_Static_assert(sizeof(struct rsk_syn) == sizeof(uint64_t), "a field of a message");

/* Of the connecting end. The accepting end knows the one value. */
#define RSK_SYN_MARKS_MOST 4u

static inline bool rsk_syn_known(const struct rsk_syn *s, bool connecting)
{
	return s->n && s->n <= (connecting ? RSK_SYN_MARKS_MOST : 1);
}

/* Whether the two may be of one segment; both are known. */
static inline bool rsk_syn_match(const struct rsk_syn *a, const struct rsk_syn *b)
{
	return a->seq == b->seq &&
	       ((uint16_t)(a->mark - b->mark) < b->n || (uint16_t)(b->mark - a->mark) < a->n);
}

static inline uint64_t rsk_syn_pack(struct rsk_syn s)
{
	uint64_t word;

	memcpy(&word, &s, sizeof(word));
	return word;
}

static inline struct rsk_syn rsk_syn_unpack(uint64_t word)
{
	struct rsk_syn s;

	memcpy(&s, &word, sizeof(s));
	return s;
}

#endif
