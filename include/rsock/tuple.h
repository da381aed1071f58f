/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tuple.h - the name of one end of a TCP connection on this host; used by the registry, rsockd and
 * the engine.
 *
 * Canonical form: an IPv4 address is in the first 4 bytes, followed by zeros, even if the socket is
 * an IPv6 one with v4-mapped addresses. So the two ends of a connection mirror each other whichever
 * families the programs chose.
 */
#ifndef RSOCK_TUPLE_H
#define RSOCK_TUPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct rsk_tuple {
	uint64_t netns;	   /* SO_NETNS_COOKIE: differs between network namespaces */
	uint8_t local[16]; /* network order */
	uint8_t peer[16];
	uint16_t local_port; /* host order */
	uint16_t peer_port;
	uint16_t family; /* AF_INET or AF_INET6 (canonical) */
	uint16_t pad;	 /* 0 */
	/* Interface index for link-local addresses, else 0; not part of the name. */
	uint32_t scope;
	uint32_t pad2; /* 0 */
};

_Static_assert(sizeof(struct rsk_tuple) == 56, "no hidden padding: tuples are hashed and stored");

/* The same connection as the other end sees it. */
static inline struct rsk_tuple rsk_tuple_mirror(const struct rsk_tuple *t)
{
	struct rsk_tuple m = *t;

	memcpy(m.local, t->peer, sizeof(m.local));
	memcpy(m.peer, t->local, sizeof(m.peer));
	m.local_port = t->peer_port;
	m.peer_port = t->local_port;
	return m;
}

/* Equal names. The scope is not compared, since the two ends may disagree about it. */
static inline bool rsk_tuple_equal(const struct rsk_tuple *a, const struct rsk_tuple *b)
{
	return a->netns == b->netns && a->family == b->family && a->local_port == b->local_port &&
	       a->peer_port == b->peer_port && memcmp(a->local, b->local, 16) == 0 &&
	       memcmp(a->peer, b->peer, 16) == 0;
}

#endif /* RSOCK_TUPLE_H */
