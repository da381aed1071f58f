// SPDX-License-Identifier: BSD-2-Clause
/*
 * machine.c - measures the port mapper's state machines alone, on one core: PMReq to PMAccept to
 * PMAck with many live mappings, their memory, and a look-up in the PM client's cache. Prints JSON.
 * Run by mapper.py.
 *
 * 	pmmachine LIVE SECONDS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rsock/clock.h>

#include "pm_client.h"
#include "pmsp.h"

#define CACHED 4096
#define LOOKS_AT_ONCE 100000

static uint64_t used_ns(void)
{
	return rsk_time_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	char line[128] = "", *second = NULL;

	/* Skips the total pages; reads the resident ones. */
	if (!f || !fgets(line, sizeof(line), f))
		perror("/proc/self/statm");
	if (f)
		fclose(f);
	strtoul(line, &second, 10);
	return strtoul(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- a PMSP whose answers are only used for the next PMAck ---- */

static struct {
	uint64_t grants, accepts;
	struct rsk_pm_msg accept;
} ap;

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	if (!grant->id)
		grant->id = ++ap.grants;
	memcpy(grant->ip, req->ap_ip, 16);
	grant->port = (uint16_t)(req->ap_port + 1);
	grant->pm_time_s = 254;
	return RSK_PMSP_ACCEPT;
}

static void used(void *ctx, const struct rsk_pmsp_grant *grant)
{
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
}

static void take_answer(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	if (rsk_pm_msg_decode(datagram, bytes, &ap.accept) == 0 && ap.accept.op == RSK_PM_ACCEPT)
		ap.accepts++;
}

static const struct rsk_pmsp_ops ops = { .decide = decide,
					 .used = used,
					 .release = release,
					 .send = take_answer };

#define BATCH 64 /* datagrams at a time, as the daemon takes them from its socket */

static struct {
	struct rsk_pm_addr from[BATCH];
	uint8_t wire[BATCH][RSK_PM_WIRE_MAPPED_BYTES];
	struct rsk_pmsp_coming coming[BATCH];
	size_t n;
} batch;

/* The PMReq of connection @n of many: each has another CP address or port. */
static void request(uint64_t n, uint64_t handle)
{
	struct rsk_pm_addr from = { .ip = { 10, (uint8_t)(n >> 30), (uint8_t)(n >> 22),
					    (uint8_t)(n >> 14) },
				    .port = 3935,
				    .ipv = RSK_PM_IPV4 };
	struct rsk_pm_msg m = { .op = RSK_PM_REQ,
				.ipv = RSK_PM_IPV4,
				.ap_port = 5201,
				.cp_port = (uint16_t)(1024 + n % (1u << 14)),
				.assoc_handle = handle * 0x9e3779b97f4a7c15u | 1,
				.ap_ip = { 10, 0, 0, 2 } };
	uint8_t *wire = batch.wire[batch.n];

	memcpy(m.cp_ip, from.ip, 16);
	batch.from[batch.n] = from;
	batch.coming[batch.n] = (struct rsk_pmsp_coming){
		wire, (size_t)rsk_pm_msg_encode(&m, wire, sizeof(batch.wire[0]))
	};
	batch.n++;
}

/* Handles the batch, and sends a PMAck for each PMAccept. */
static void serve(struct rsk_pmsp *p, uint64_t at_ns)
{
	uint8_t wire[RSK_PM_WIRE_MAPPED_BYTES];
	struct rsk_pm_msg ack;
	ssize_t bytes;

	rsk_pmsp_prepare(p, batch.coming, batch.n);
	for (size_t i = 0; i < batch.n; i++) {
		rsk_pmsp_receive(p, &batch.from[i], batch.wire[i], batch.coming[i].bytes, at_ns);
		if (rsk_pm_msg_ack(&ap.accept, &ack) < 0)
			continue;
		bytes = rsk_pm_msg_encode(&ack, wire, sizeof(wire));
		rsk_pmsp_receive(p, &batch.from[i], wire, (size_t)bytes, at_ns);
	}
	batch.n = 0;
}

static int measure_pmsp(uint64_t live, double seconds)
{
	struct rsk_pmsp_config config = RSK_PMSP_DEFAULT;
	uint64_t before = resident_bytes(), after, began, done = 0, until;
	struct rsk_pmsp p;

	config.max_open = live;
	config.rate_per_s = 0;
	config.seed = 1;
	if (rsk_pmsp_init(&p, &config, &ops, NULL) < 0)
		return -ENOMEM;
	for (uint64_t n = 0; n < live; n++) {
		request(n, n + 1);
		if (batch.n == BATCH || n + 1 == live)
			serve(&p, rsk_monotonic_ns());
	}
	after = resident_bytes();
	if (p.table.n != live || ap.accepts != live)
		return -EIO;
	/*
	 * Each request replaces an older one of the same connection, so the number of mappings is
	 * constant.
	 */
	began = used_ns();
	until = rsk_monotonic_ns() + (uint64_t)(seconds * 1e9);
	while (rsk_monotonic_ns() < until) {
		uint64_t at = rsk_monotonic_ns();

		for (int i = 0; i < BATCH; i++, done++)
			request(done * 7919 % live, live + done + 1);
		serve(&p, at);
		rsk_pmsp_tick(&p, at);
	}
	if (p.table.n != live || ap.accepts != live + done)
		return -EIO;
	printf("\"live\": %lu, \"transactions_per_s\": %.0f, \"bytes_each\": %.1f, ",
	       (unsigned long)live, (double)done * 1e9 / (double)(used_ns() - began),
	       (double)(after - before) / (double)live);
	rsk_pmsp_fini(&p);
	return 0;
}

/* ---- the PM client's cache ---- */

static struct rsk_pm_msg service(uint64_t n)
{
	return (struct rsk_pm_msg){ .op = RSK_PM_REQ,
				    .ipv = RSK_PM_IPV4,
				    .ap_port = (uint16_t)(1 + n % 60000),
				    .cp_ip = { 10, 0, 0, 1 },
				    .ap_ip = { 10, 0, (uint8_t)(n >> 8), (uint8_t)n } };
}

static int measure_lookup(double seconds)
{
	const struct rsk_pm_cache_config config = RSK_PM_CACHE_DEFAULT;
	const struct rsk_pm_mapping mapping = { .rdma = { .port = 1, .ipv = RSK_PM_IPV4 },
						.until_ns = UINT64_MAX };
	uint64_t began, looks = 0, found = 0, until;
	struct rsk_pm_mapping out;
	struct rsk_pm_cache c;

	rsk_pm_cache_init(&c, &config);
	for (uint64_t n = 0; n < CACHED; n++) {
		struct rsk_pm_msg req = service(n);

		if (rsk_pm_cache_mapped(&c, &req, &mapping, 1) < 0)
			return -ENOMEM;
	}
	began = used_ns();
	until = rsk_monotonic_ns() + (uint64_t)(seconds * 1e9);
	while (rsk_monotonic_ns() < until)
		for (int i = 0; i < LOOKS_AT_ONCE; i++, looks++) {
			struct rsk_pm_msg req = service(looks * 7919 % CACHED);

			found += rsk_pm_cache_find(&c, &req, 2, &out) == RSK_PM_MAPPED;
		}
	if (found != looks)
		return -EIO;
	printf("\"lookup_ns\": %.1f", (double)(used_ns() - began) / (double)looks);
	rsk_pm_cache_fini(&c);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t live = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	double seconds = argc == 3 ? strtod(argv[2], NULL) : 0;
	int rc;

	if (!live || seconds <= 0) {
		fputs("usage: pmmachine LIVE SECONDS\n", stderr);
		return 2;
	}
	printf("{");
	rc = measure_pmsp(live, seconds);
	if (rc == 0)
		rc = measure_lookup(seconds);
	printf("}\n");
	if (rc < 0)
		fprintf(stderr, "pmmachine: %s\n", strerror(-rc));
	return rc < 0;
}
