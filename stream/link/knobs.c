// SPDX-License-Identifier: BSD-2-Clause
/* knobs.c - reads the environment's RSOCK_* variables; see knobs.h. engine.c calls it. */
#include "knobs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <rsock/local.h>

#include "link.h"
#include "log.h"
#include "rails.h"

struct rsk_knobs rsk_knobs;

static uint64_t knob(const char *name, uint64_t def, uint64_t min, uint64_t max)
{
	const char *s = getenv(name);
	char *end;
	unsigned long long v;

	if (!s || !*s)
		return def;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || *s == '-' || v < min || v > max) {
		rsk_log(RSK_LOG_ERROR, "%s=%s: not a number from %llu to %llu, %llu is used", name,
			s, (unsigned long long)min, (unsigned long long)max,
			(unsigned long long)def);
		return def;
	}
	return v;
}

/*
 * A copy of the path in *@at: a program may overwrite the environment that it was started with, as
 * nginx and PostgreSQL do to show what they are. NULL: there is none.
 */
static const char *path_knob(const char *name, char at[static PATH_MAX])
{
	const char *s = getenv(name);

	if (!s)
		return NULL;
	if (strlen(s) >= PATH_MAX) {
		rsk_log(RSK_LOG_ERROR, "%s: longer than a path", name);
		s = "";
	}
	return memcpy(at, s, strlen(s) + 1);
}

static struct rsk_order_form order_knob(const char *s)
{
	struct rsk_order_form form = { 0 };
	const char *why;

	if (s && *s && rsk_order_parse(&form, s, &why) < 0)
		rsk_log(RSK_LOG_ERROR, "RSOCK_RDMA_ORDER=%s: %s; %s is used", s, why,
			RSK_ORDER_DEFAULT);
	if (!form.bits)
		rsk_order_parse(&form, RSK_ORDER_DEFAULT, &why);
	return form;
}

static uint32_t power_of_two(uint64_t v)
{
	uint32_t p = RSK_SEG_MIN_RING;

	while (p < v && p < RSK_SEG_MAX_RING)
		p <<= 1;
	return p;
}

void rsk_knobs_read(void)
{
	static char stat_file[PATH_MAX], daemon[PATH_MAX];
	struct rsk_policy policy = RSK_POLICY_DEFAULT;

	rsk_knobs.disabled = knob("RSOCK_DISABLE", 0, 0, 1);
	rsk_knobs.spin_set = getenv("RSOCK_SPIN_US");
	rsk_knobs.spin_ns = (uint32_t)knob("RSOCK_SPIN_US", 50, 0, 1000000) * 1000u;
	rsk_knobs.ring_bytes =
		power_of_two(knob("RSOCK_RING_KB", 512, 16, RSK_SEG_MAX_RING >> 10) << 10);
	rsk_knobs.rdma_ring_bytes =
		power_of_two(knob("RSOCK_RDMA_RING_KB", 2048, 16, RSK_SEG_MAX_RING >> 10) << 10);
	rsk_knobs.rdma_rails =
		(uint32_t)knob("RSOCK_RDMA_RAILS", RSK_RAILS_MOST, 1, RSK_RAILS_MOST);
	rsk_knobs.order = order_knob(getenv("RSOCK_RDMA_ORDER"));
	rsk_knobs.no_shm = !knob("RSOCK_SHM", 1, 0, 1);
	policy.earn_calls = (uint32_t)knob("RSOCK_EARN_CALLS", policy.earn_calls, 0, UINT32_MAX);
	policy.earn_bytes = knob("RSOCK_EARN_BYTES", policy.earn_bytes, 0, UINT64_MAX);
	rsk_knobs.policy = policy;
	rsk_knobs.stat_file = path_knob("RSOCK_STAT_FILE", stat_file);
	rsk_knobs.daemon = path_knob("RSOCK_DAEMON", daemon);
	if (!rsk_knobs.daemon)
		rsk_knobs.daemon = RSK_LOCAL_PATH;
}
