// SPDX-License-Identifier: BSD-2-Clause
/* remote_addr_cache.c - see remote_addr_cache.h. */
#include "remote_addr_cache.h"

#include <string.h>

/* direct-mapped by address: a new entry replaces the one in its place */
#define PLACES 64

static struct {
	uint8_t ip[16];
	uint8_t family; /* 0: empty */
} places[PLACES];

static uint32_t place_of(const struct rsk_tuple *t)
{
	uint32_t h = t->family;

	for (int i = 0; i < 16; i++)
		h = h * 31 + t->peer[i];
	return h % PLACES;
}

void rsk_remote_addr_cache_add(const struct rsk_tuple *t)
{
	uint32_t at = place_of(t);

	memcpy(places[at].ip, t->peer, 16);
	places[at].family = (uint8_t)t->family;
}

bool rsk_remote_addr_cache_has(const struct rsk_tuple *t)
{
	uint32_t at = place_of(t);

	return places[at].family == (uint8_t)t->family && !memcmp(places[at].ip, t->peer, 16);
}
