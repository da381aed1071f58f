/* SPDX-License-Identifier: BSD-2-Clause */
/* report.c - see report.h. */
#include "report.h"

#include <errno.h>
#include <hdr_histogram.h>
#include <stdio.h>

static const struct {
	const char *key;
	double percentile;
	bool text; /* also in the output for people; the others are points of a curve */
} rsk_percentiles[] = {
	{ "p1", 1, false },	  { "p5", 5, false },	  { "p10", 10, false },
	{ "p25", 25, false },	  { "p50", 50, true },	  { "p75", 75, false },
	{ "p90", 90, true },	  { "p95", 95, false },	  { "p99", 99, true },
	{ "p995", 99.5, false },  { "p999", 99.9, true }, { "p9995", 99.95, false },
	{ "p9999", 99.99, true },
};

#define RSK_PERCENTILES (sizeof(rsk_percentiles) / sizeof(rsk_percentiles[0]))

static int rsk_report_flush(void)
{
	return fflush(stdout) ? -errno : 0;
}

static double rsk_per_second(const struct rsk_report *r)
{
	return r->seconds > 0 ? (double)r->times->total_count / r->seconds : 0;
}

static void rsk_json_times(const struct rsk_report *r, const char *key)
{
	const struct hdr_histogram *h = r->times;

	printf(",\"count\":%lld,\"seconds\":%.6f,\"per_s\":%.1f,\"%s\":{\"min\":%lld,\"mean\":%.1f,"
	       "\"stddev\":%.1f",
	       (long long)h->total_count, r->seconds, rsk_per_second(r), key, (long long)hdr_min(h),
	       hdr_mean(h), hdr_stddev(h));
	for (size_t i = 0; i < RSK_PERCENTILES; i++)
		printf(",\"%s\":%lld", rsk_percentiles[i].key,
		       (long long)hdr_value_at_percentile(h, rsk_percentiles[i].percentile));
	printf(",\"max\":%lld}", (long long)hdr_max(h));
}

static double rsk_us(int64_t ns)
{
	return (double)ns / 1e3;
}

static void rsk_text_times(const struct rsk_report *r, const char *what)
{
	const struct hdr_histogram *h = r->times;

	printf("  %lld %s in %.2f s, %.0f a second\n", (long long)h->total_count, what, r->seconds,
	       rsk_per_second(r));
	printf("  us: min %.2f  mean %.2f", rsk_us(hdr_min(h)), hdr_mean(h) / 1e3);
	for (size_t i = 0; i < RSK_PERCENTILES; i++)
		if (rsk_percentiles[i].text)
			printf("  %s %.2f", rsk_percentiles[i].key,
			       rsk_us(hdr_value_at_percentile(h, rsk_percentiles[i].percentile)));
	printf("  max %.2f\n", rsk_us(hdr_max(h)));
}

static void rsk_json_cpu(const struct rsk_report *r)
{
	printf(",\"cpu_user_s\":%.3f,\"cpu_sys_s\":%.3f,\"sleeps\":%llu}\n", r->cpu_user_s,
	       r->cpu_sys_s, (unsigned long long)r->sleeps);
}

static void rsk_text_cpu(const struct rsk_report *r)
{
	printf("  cpu: user %.2f s, system %.2f s, slept %llu times\n", r->cpu_user_s, r->cpu_sys_s,
	       (unsigned long long)r->sleeps);
}

static void rsk_json_way(const struct rsk_report *r, const char *way, uint64_t bytes, double rate)
{
	printf(",\"%s\":{\"bytes\":%llu,\"gbit_per_s\":%.4f,\"messages_per_s\":%.1f}", way,
	       (unsigned long long)bytes, rate * 8 / 1e9, rate / (double)r->opts->size_bytes);
}

static void rsk_text_way(const struct rsk_report *r, const char *way, uint64_t bytes, double rate)
{
	printf("  %s: %llu bytes, %.3f Gbit/s, %.0f messages/s\n", way, (unsigned long long)bytes,
	       rate * 8 / 1e9, rate / (double)r->opts->size_bytes);
}

int rsk_report_client(const struct rsk_report *r)
{
	const struct rsk_opts *o = r->opts;
	bool timed = r->times != NULL;
	void (*way)(const struct rsk_report *, const char *, uint64_t, double) =
		o->json ? rsk_json_way : rsk_text_way;

	if (o->json)
		printf("{\"test\":\"%s\",\"size_bytes\":%llu,\"wait\":\"%s\",\"nonblock\":%s,"
		       "\"conns\":%u,\"threads\":%u,\"flow\":\"%s\"",
		       rsk_test_name(o->test), (unsigned long long)o->size_bytes,
		       rsk_wait_name(o->wait), o->nonblock ? "true" : "false", o->conns, o->threads,
		       rsk_flow_name(o->flow));
	else
		printf("%s: %llu B, wait %s%s, %u connections, %u threads\n",
		       rsk_test_name(o->test), (unsigned long long)o->size_bytes,
		       rsk_wait_name(o->wait), o->nonblock ? " nonblock" : "", o->conns,
		       o->threads);
	if (o->idle)
		printf(o->json ? ",\"idle\":%u,\"idle_s\":%.3f" :
				 "  %u streams at rest, opened and used in %.3f s\n",
		       o->idle, r->idle_s);
	if (timed && o->json)
		rsk_json_times(r, o->test == RSK_TEST_CONN ? "conn_ns" : "rtt_ns");
	else if (timed)
		rsk_text_times(r, o->test == RSK_TEST_CONN ? "connections" : "round trips");
	if (!timed && o->flow != RSK_FLOW_IN)
		way(r, "out", r->out_bytes, r->out_bytes_per_s);
	if (!timed && o->flow != RSK_FLOW_OUT)
		way(r, "in", r->in_bytes, r->in_bytes_per_s);
	if (o->json)
		rsk_json_cpu(r);
	else
		rsk_text_cpu(r);
	return rsk_report_flush();
}

int rsk_report_limit(const struct rsk_report *r)
{
	if (r->opts->json) {
		printf("{\"limit\":\"%s\",\"hash\":%s,\"size_bytes\":%llu",
		       rsk_limit_name(r->opts->limit), r->opts->hash ? "true" : "false",
		       (unsigned long long)r->opts->size_bytes);
		if (r->times)
			rsk_json_times(r, "rtt_ns");
		else
			rsk_json_way(r, "out", r->out_bytes, r->out_bytes_per_s);
		rsk_json_cpu(r);
	} else {
		printf("%s\n", rsk_limit_name(r->opts->limit));
		if (r->times)
			rsk_text_times(r, "round trips");
		else
			rsk_text_way(r, "out", r->out_bytes, r->out_bytes_per_s);
		rsk_text_cpu(r);
	}
	return rsk_report_flush();
}

int rsk_report_calls(const struct rsk_opts *opts, uint64_t calls, double seconds)
{
	double each_ns = seconds * 1e9 / (double)calls;

	if (opts->json)
		printf("{\"calls\":\"%s\",\"count\":%llu,\"seconds\":%.6f,\"ns_per_call\":%.2f}\n",
		       rsk_calls_name(opts->calls), (unsigned long long)calls, seconds, each_ns);
	else
		printf("%s\n  %llu calls in %.2f s, %.1f ns each\n", rsk_calls_name(opts->calls),
		       (unsigned long long)calls, seconds, each_ns);
	return rsk_report_flush();
}
