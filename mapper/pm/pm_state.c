// SPDX-License-Identifier: BSD-2-Clause
/* pm_state.c - see pm_state.h. */
#include "pm_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "pm_hash.h"

#define VERSION 1u
#define LASTING UINT64_MAX
#define LONGEST_MS 254000u /* PmTime has one byte */

struct head {
	char magic[8];
	uint32_t version, services, devices, spare;
	uint64_t boottime_ns;
	uint8_t boot_id[16];
	uint64_t hash;
	uint64_t spare2;
};
_Static_assert(sizeof(struct head) == 64, "no hidden padding");

struct service {
	uint8_t cp_ip[16], ap_ip[16], rdma_ip[16];
	uint16_t ap_port, rdma_port;
	uint8_t ipv, rdma_ipv, spare[2];
	uint64_t left_ms;
};
_Static_assert(sizeof(struct service) == 64, "no hidden padding");

static const char magic[8] = { 'R', 'S', 'K', 'S', 'T', 'A', 'T', 'E' };

/* ---- encoding ---- */

static struct service service_of(const struct rsk_pm_kept *k, uint64_t now_ns)
{
	struct service s = { .ap_port = k->ap_port,
			     .rdma_port = k->mapping.rdma.port,
			     .ipv = k->ipv,
			     .rdma_ipv = k->mapping.rdma.ipv,
			     .left_ms = LASTING };

	memcpy(s.cp_ip, k->cp_ip, 16);
	memcpy(s.ap_ip, k->ap_ip, 16);
	memcpy(s.rdma_ip, k->mapping.rdma.ip, 16);
	if (k->mapping.until_ns != UINT64_MAX)
		s.left_ms = (k->mapping.until_ns - now_ns) / 1000000;
	return s;
}

int rsk_state_encode(const struct rsk_pm_cache *cache, const struct rsk_state_device *devices,
		     const struct rsk_state_clock *clock, uint8_t **out, size_t *n)
{
	struct head h = { .version = VERSION, .boottime_ns = clock->boottime_ns };
	size_t room = rsk_pm_cache_kept(cache, clock->now_ns, NULL, RSK_STATE_SERVICES), bytes;
	struct rsk_pm_kept *kept = calloc(room + 1, sizeof(*kept));
	const struct rsk_state_device *d;
	uint8_t *p;

	LL_FOREACH(devices, d)
		h.devices++;
	bytes = sizeof(h) + room * sizeof(struct service) + h.devices * (2u + RSK_STATE_NAME);
	*out = p = calloc(1, bytes);
	if (!kept || !p) {
		free(kept);
		free(p);
		return -ENOMEM;
	}
	h.services = (uint32_t)rsk_pm_cache_kept(cache, clock->now_ns, kept, room);
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.boot_id, clock->boot_id, 16);
	p += sizeof(h);
	for (uint32_t i = 0; i < h.services; i++, p += sizeof(struct service)) {
		const struct service s = service_of(&kept[i], clock->now_ns);

		memcpy(p, &s, sizeof(s));
	}
	LL_FOREACH(devices, d) {
		uint16_t length = (uint16_t)strlen(d->name);

		memcpy(p, &length, sizeof(length));
		memcpy(p + sizeof(length), d->name, length);
		p += sizeof(length) + length;
	}
	*n = (size_t)(p - *out);
	memcpy(*out, &h, sizeof(h));
	h.hash = XXH3_64bits(*out, *n);
	memcpy(*out, &h, sizeof(h));
	free(kept);
	return 0;
}

/* ---- decoding ---- */

static bool is_ip(const uint8_t ip[static 16], uint8_t ipv)
{
	static const uint8_t none[12];

	return ipv == RSK_PM_IPV6 || (ipv == RSK_PM_IPV4 && memcmp(ip + 4, none, 12) == 0);
}

static bool is_service(const struct service *s)
{
	return s->ap_port && s->rdma_port && is_ip(s->cp_ip, s->ipv) && is_ip(s->ap_ip, s->ipv) &&
	       is_ip(s->rdma_ip, s->rdma_ipv) && !s->spare[0] && !s->spare[1] &&
	       (s->left_ms == LASTING || s->left_ms <= LONGEST_MS);
}

/* Checks the whole file before anything is taken. */
static const char *wrong(const uint8_t *bytes, size_t n, struct head *h)
{
	const uint8_t *p = bytes + sizeof(*h), *end = bytes + n;
	struct service s;
	uint16_t length;
	XXH3_state_t x;
	struct head no_hash;

	if (n < sizeof(*h))
		return "it is too short";
	memcpy(h, bytes, sizeof(*h));
	if (memcmp(h->magic, magic, sizeof(magic)) != 0)
		return "it is no file of this kind";
	if (h->version != VERSION)
		return "it is of another version";
	no_hash = *h;
	no_hash.hash = 0;
	XXH3_INITSTATE(&x);
	XXH3_64bits_reset(&x);
	XXH3_64bits_update(&x, &no_hash, sizeof(no_hash));
	XXH3_64bits_update(&x, p, (size_t)(end - p));
	if (XXH3_64bits_digest(&x) != h->hash)
		return "its hash is not right";
	if (h->services > RSK_STATE_SERVICES || h->devices > RSK_STATE_DEVICES || h->spare ||
	    h->spare2 || (size_t)(end - p) / sizeof(s) < h->services)
		return "its numbers are out of bounds";
	for (uint32_t i = 0; i < h->services; i++, p += sizeof(s)) {
		memcpy(&s, p, sizeof(s));
		if (!is_service(&s))
			return "a mapping in it is none";
	}
	for (uint32_t i = 0; i < h->devices; i++, p += length) {
		if ((size_t)(end - p) < sizeof(length))
			return "it ends too early";
		memcpy(&length, p, sizeof(length));
		p += sizeof(length);
		if (!length || length >= RSK_STATE_NAME || (size_t)(end - p) < length ||
		    memchr(p, 0, length))
			return "a device's name in it is none";
	}
	return p == end ? NULL : "there is more than there should be";
}

static int take_service(struct rsk_pm_cache *cache, const struct service *s, bool same_start,
			uint64_t gone_ms, uint64_t now_ns)
{
	struct rsk_pm_kept k = { .ap_port = s->ap_port,
				 .ipv = s->ipv,
				 .mapping = { .rdma = { .port = s->rdma_port, .ipv = s->rdma_ipv },
					      .until_ns = UINT64_MAX } };

	if (s->left_ms != LASTING) {
		if (!same_start || gone_ms >= s->left_ms)
			return 0;
		k.mapping.until_ns = now_ns + (s->left_ms - gone_ms) * 1000000u;
	}
	memcpy(k.cp_ip, s->cp_ip, 16);
	memcpy(k.ap_ip, s->ap_ip, 16);
	memcpy(k.mapping.rdma.ip, s->rdma_ip, 16);
	return rsk_pm_cache_keep(cache, &k, now_ns);
}

int rsk_state_decode(const uint8_t *bytes, size_t n, const struct rsk_state_clock *clock,
		     struct rsk_pm_cache *cache, struct rsk_state_device **devices,
		     const char **why)
{
	static const uint8_t not_known[16];
	const uint8_t *p = bytes + sizeof(struct head);
	char name[RSK_STATE_NAME];
	uint64_t gone_ms = 0;
	struct service s;
	uint16_t length;
	bool same_start;
	struct head h;
	int rc = 0;

	*why = wrong(bytes, n, &h);
	if (*why)
		return -EBADMSG;
	same_start = memcmp(clock->boot_id, not_known, 16) != 0 &&
		     memcmp(h.boot_id, clock->boot_id, 16) == 0 &&
		     clock->boottime_ns >= h.boottime_ns;
	if (same_start) /* rounded up */
		gone_ms = (clock->boottime_ns - h.boottime_ns + 999999) / 1000000;
	for (uint32_t i = 0; rc == 0 && i < h.services; i++, p += sizeof(s)) {
		memcpy(&s, p, sizeof(s));
		rc = take_service(cache, &s, same_start, gone_ms, clock->now_ns);
	}
	for (uint32_t i = 0; rc == 0 && i < h.devices; i++, p += length) {
		memcpy(&length, p, sizeof(length));
		p += sizeof(length);
		memcpy(name, p, length);
		name[length] = 0;
		rc = rsk_state_device_set(devices, name, true);
	}
	return rc;
}

/* ---- devices ---- */

int rsk_state_device_set(struct rsk_state_device **devices, const char *name, bool in)
{
	struct rsk_state_device *d;
	size_t n = 0;

	LL_FOREACH(*devices, d) {
		if (strcmp(d->name, name) == 0)
			break;
		n++;
	}
	if (d && !in) {
		LL_DELETE(*devices, d);
		free(d);
	}
	if (d || !in)
		return 0;
	if (strlen(name) >= RSK_STATE_NAME)
		return -ENAMETOOLONG;
	if (n >= RSK_STATE_DEVICES)
		return -ENOSPC;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	memcpy(d->name, name, strlen(name));
	LL_APPEND(*devices, d);
	return 0;
}

void rsk_state_devices_free(struct rsk_state_device **devices)
{
	struct rsk_state_device *d, *next;

	LL_FOREACH_SAFE(*devices, d, next)
		free(d);
	*devices = NULL;
}
