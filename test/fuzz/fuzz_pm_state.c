// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_pm_state.c - fuzzes the file of the state that outlives the daemon with any bytes, as they
 * are and with a right hash: what is accepted is valid, lasts no longer than PmTime can express,
 * and stays the same when written and read again.
 */
#include "pm_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rsk_state_clock now = { .boot_id = "machine",
					    .boottime_ns = 5000,
					    .now_ns = 77 };

static void require(bool what)
{
	if (!what)
		abort();
}

static bool take(const uint8_t *bytes, size_t n, struct rsk_pm_cache *c,
		 struct rsk_state_device **devices)
{
	static const struct rsk_pm_cache_config config = RSK_PM_CACHE_DEFAULT;
	const char *why = NULL;
	int rc;

	rsk_pm_cache_init(c, &config);
	*devices = NULL;
	rc = rsk_state_decode(bytes, n, &now, c, devices, &why);
	require(rsk_pm_cache_validate(c));
	require(rc == 0 || (rc == -EBADMSG && why && !c->services && !*devices));
	return rc == 0;
}

static void look(const uint8_t *bytes, size_t n)
{
	struct rsk_state_device *devices, *again;
	struct rsk_pm_cache c, d;
	struct rsk_pm_kept kept[64];
	uint8_t *out;
	size_t length, count;

	if (take(bytes, n, &c, &devices)) {
		count = rsk_pm_cache_kept(&c, now.now_ns, kept, 64);
		for (size_t i = 0; i < count; i++)
			require(kept[i].mapping.until_ns == UINT64_MAX ||
				kept[i].mapping.until_ns <= now.now_ns + 254000000000u);
		require(rsk_state_encode(&c, devices, &now, &out, &length) == 0);
		require(take(out, length, &d, &again));
		require(rsk_pm_cache_kept(&d, now.now_ns, NULL, SIZE_MAX) <=
			rsk_pm_cache_kept(&c, now.now_ns, NULL, SIZE_MAX));
		rsk_state_devices_free(&again);
		rsk_pm_cache_fini(&d);
		free(out);
	}
	rsk_state_devices_free(&devices);
	rsk_pm_cache_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;
	uint64_t hash;

	look(data, size);
	if (size < 64)
		return 0;
	copy = malloc(size);
	require(copy != NULL);
	memcpy(copy, data, size);
	memset(copy + 48, 0, 8);
	hash = XXH3_64bits(copy, size);
	memcpy(copy + 48, &hash, 8);
	look(copy, size);
	free(copy);
	return 0;
}
