// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_state.c - tests the state that outlives the daemon: encoding and decoding, clocks that
 * jump, and damaged bytes.
 */
#include "pm_state.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "pm_hash.h"
#include "pm_msg.h"

#define S 1000000000ull

static const struct rsk_pm_cache_config config = RSK_PM_CACHE_DEFAULT;
static const struct rsk_state_clock then = { .boot_id = { 1, 2 },
					     .boottime_ns = 1000 * S,
					     .now_ns = 50 * S };

static struct rsk_pm_msg request(uint16_t port)
{
	struct rsk_pm_msg m = { .op = RSK_PM_REQ, .ipv = port % 2 ? 6 : 4, .ap_port = port };

	m.cp_ip[0] = m.ap_ip[0] = 10;
	m.ap_ip[3] = 2;
	return m;
}

static void remember(struct rsk_pm_cache *c, uint16_t port, uint64_t until_ns)
{
	struct rsk_pm_msg m = request(port);
	struct rsk_pm_mapping mapping = { .rdma = { .ip = { 10, 9 }, .port = 7, .ipv = 4 },
					  .until_ns = until_ns };

	cr_assert_eq(rsk_pm_cache_mapped(c, &m, &mapping, then.now_ns), 0);
}

/* Fills the cache: a lasting mapping, one for 100 s, one for 3 s, and a refusal. */
static void fill(struct rsk_pm_cache *c, struct rsk_state_device **devices)
{
	struct rsk_pm_msg m = request(4);

	rsk_pm_cache_init(c, &config);
	remember(c, 1, UINT64_MAX);
	remember(c, 2, then.now_ns + 100 * S);
	remember(c, 3, then.now_ns + 3 * S);
	rsk_pm_cache_refused(c, &m, then.now_ns);
	*devices = NULL;
	cr_assert_eq(rsk_state_device_set(devices, "mlx0", true), 0);
	cr_assert_eq(rsk_state_device_set(devices, "mlx1/2", true), 0);
	cr_assert_eq(rsk_state_device_set(devices, "mlx0", true), 0);
}

static size_t written(uint8_t **bytes)
{
	struct rsk_state_device *devices;
	struct rsk_pm_cache c;
	size_t n;

	fill(&c, &devices);
	cr_assert_eq(rsk_state_encode(&c, devices, &then, bytes, &n), 0);
	rsk_state_devices_free(&devices);
	rsk_pm_cache_fini(&c);
	return n;
}

/*
 * Decodes @bytes at @now. Returns the entries that are still there, as bits, and in @until_ns when
 * the last one ends.
 */
static unsigned int taken(const uint8_t *bytes, size_t n, const struct rsk_state_clock *now,
			  uint64_t *until_ns)
{
	struct rsk_state_device *devices = NULL;
	struct rsk_pm_mapping m;
	struct rsk_pm_cache c;
	unsigned int got = 0;
	const char *why;

	rsk_pm_cache_init(&c, &config);
	cr_assert_eq(rsk_state_decode(bytes, n, now, &c, &devices, &why), 0, "%s", why);
	cr_assert(rsk_pm_cache_validate(&c));
	for (uint16_t port = 1; port <= 4; port++) {
		struct rsk_pm_msg req = request(port);

		if (rsk_pm_cache_find(&c, &req, now->now_ns, &m) != RSK_PM_MAPPED)
			continue;
		got |= 1u << port;
		cr_assert(m.rdma.port == 7 && m.rdma.ip[1] == 9 && m.rdma.ipv == 4);
		if (until_ns && port == 2)
			*until_ns = m.until_ns;
	}
	cr_assert(devices && devices->next && !devices->next->next);
	cr_assert_str_eq(devices->name, "mlx0");
	cr_assert_str_eq(devices->next->name, "mlx1/2");
	rsk_state_devices_free(&devices);
	rsk_pm_cache_fini(&c);
	return got;
}

Test(pm_state, there_and_back)
{
	uint64_t until;
	uint8_t *bytes;
	size_t n = written(&bytes);
	struct rsk_state_clock now = then;

	cr_assert_eq(taken(bytes, n, &now, &until), 0xe, "all but the refusal");
	cr_assert_eq(until, then.now_ns + 100 * S);
	free(bytes);
}

Test(pm_state, its_time_is_never_longer)
{
	struct rsk_state_clock now = then;
	uint64_t until;
	uint8_t *bytes;
	size_t n = written(&bytes);

	/* The daemon's own clock may have any value. */
	now.boottime_ns += 2 * S;
	now.now_ns = 7 * S;
	cr_assert_eq(taken(bytes, n, &now, &until), 0xe);
	cr_assert_eq(until, 105 * S, "98 are left");
	now.boottime_ns += 1 * S;
	cr_assert_eq(taken(bytes, n, &now, NULL), 0x6, "3 s are over");
	now.boottime_ns = then.boottime_ns + 100 * S - 1;
	cr_assert_eq(taken(bytes, n, &now, NULL), 0x2, "what has begun counts as gone");
	now.boottime_ns = UINT64_MAX;
	cr_assert_eq(taken(bytes, n, &now, NULL), 0x2);
	/* Another boot of the machine, a clock that went back, or an unknown boot. */
	now = then;
	now.boot_id[15] = 1;
	cr_assert_eq(taken(bytes, n, &now, NULL), 0x2);
	now = then;
	now.boottime_ns--;
	cr_assert_eq(taken(bytes, n, &now, NULL), 0x2);
	free(bytes);
}

/* Puts a right hash into the bytes. */
static void sign(uint8_t *bytes, size_t n)
{
	uint64_t hash;

	memset(bytes + 48, 0, 8);
	hash = XXH3_64bits(bytes, n);
	memcpy(bytes + 48, &hash, 8);
}

static const char *refused(const uint8_t *bytes, size_t n)
{
	struct rsk_state_device *devices = NULL;
	struct rsk_pm_cache c;
	const char *why = NULL;

	rsk_pm_cache_init(&c, &config);
	cr_assert_eq(rsk_state_decode(bytes, n, &then, &c, &devices, &why), -EBADMSG);
	cr_assert(!c.services && !devices && why, "nothing is taken");
	return why;
}

Test(pm_state, any_damage_is_noticed)
{
	uint8_t *bytes, *copy;
	size_t n = written(&bytes);

	copy = malloc(n + 1);
	for (size_t i = 0; i < n; i++) {
		memcpy(copy, bytes, n);
		for (int bit = 0; bit < 8; bit++) {
			copy[i] = (uint8_t)(bytes[i] ^ 1u << bit);
			refused(copy, n);
		}
		refused(bytes, i);
	}
	memcpy(copy, bytes, n);
	copy[n] = 0;
	refused(copy, n + 1);
	free(copy);
	free(bytes);
}

Test(pm_state, what_is_signed_has_to_make_sense_as_well)
{
	/* The offset and the new value of the changed byte, and the resulting message. */
	static const struct {
		size_t at;
		uint8_t to;
		const char *why;
	} table[] = {
		{ 8, 2, "version" },	   { 12, 4, "bounds" },	      { 12, 200, "bounds" },
		{ 14, 255, "bounds" },	   { 16, 1, "more" },	      { 16, 3, "early" },
		{ 18, 1, "bounds" },	   { 20, 1, "bounds" },	      { 56, 1, "bounds" },
		{ 64 + 48, 0, "mapping" }, { 64 + 50, 0, "mapping" }, { 64 + 52, 5, "mapping" },
		{ 64 + 53, 0, "mapping" }, { 64 + 54, 1, "mapping" }, { 64 + 63, 0, "mapping" },
		{ 64 + 37, 1, "mapping" }, { 256, 0, "name" },	      { 257, 255, "name" },
		{ 258, 0, "name" },
	};
	uint8_t *bytes, *copy;
	size_t n = written(&bytes);
	const char *why;

	cr_assert_eq(n, 64 + 3 * 64 + 2 + 4 + 2 + 6);
	copy = malloc(n);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		memcpy(copy, bytes, n);
		copy[table[i].at] = table[i].to;
		sign(copy, n);
		why = refused(copy, n);
		cr_expect(strstr(why, table[i].why), "%zu: %s", table[i].at, why);
	}
	free(copy);
	free(bytes);
}

Test(pm_state, so_many_at_the_most)
{
	struct rsk_pm_cache_config large = config;
	struct rsk_state_device *devices = NULL;
	struct rsk_pm_cache c, back;
	char name[RSK_STATE_NAME + 1];
	struct rsk_pm_msg m;
	struct rsk_pm_mapping mapping;
	const char *why;
	uint8_t *bytes;
	size_t n;

	large.max_services = 2 * RSK_STATE_SERVICES;
	rsk_pm_cache_init(&c, &large);
	for (uint32_t i = 0; i < RSK_STATE_SERVICES + 10; i++) {
		struct rsk_pm_mapping lasting = { .rdma = { .port = 1, .ipv = 4 },
						  .until_ns = UINT64_MAX };

		m = request(2);
		memcpy(m.cp_ip, &i, 4);
		cr_assert_eq(rsk_pm_cache_mapped(&c, &m, &lasting, 0), 0);
	}
	memset(name, 'x', sizeof(name));
	name[RSK_STATE_NAME] = 0;
	cr_assert_eq(rsk_state_device_set(&devices, name, true), -ENAMETOOLONG);
	cr_assert_eq(rsk_state_encode(&c, devices, &then, &bytes, &n), 0);
	cr_assert_eq(n, 64 + 64 * RSK_STATE_SERVICES);
	rsk_pm_cache_init(&back, &config); /* which holds fewer: the newest */
	cr_assert_eq(rsk_state_decode(bytes, n, &then, &back, &devices, &why), 0);
	cr_assert_eq(rsk_pm_cache_kept(&back, then.now_ns, NULL, SIZE_MAX), config.max_services);
	for (uint32_t i = 0; i < RSK_STATE_SERVICES + 10; i += RSK_STATE_SERVICES + 9) {
		memcpy(m.cp_ip, &i, 4);
		cr_assert_eq(rsk_pm_cache_find(&back, &m, then.now_ns, &mapping),
			     i ? RSK_PM_MAPPED : RSK_PM_PENDING);
	}
	free(bytes);
	rsk_pm_cache_fini(&c);
	rsk_pm_cache_fini(&back);
}
