// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_document_file.c - tests the file in which the cluster's document is kept: what is written is
 * read again, its age over clocks that jump, and files that are damaged or of another cluster.
 */
#include "document_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

#define S 1000000000ull
#define CLUSTER "/rsock\nhttp://10.0.0.1:1\nhttp://10.0.0.2:1\n"
#define TEXT "services: []\n"

static const struct rsk_document_clock then = { .boot_id = { 1, 2 },
						.boottime_ns = 1000 * S,
						.time_ns = 1000000 * S };

static uint8_t *written(const char *text, uint64_t revision, uint64_t age_ns, size_t *n)
{
	const struct rsk_document_file f = { .cluster = CLUSTER,
					     .cluster_bytes = strlen(CLUSTER),
					     .revision = revision,
					     .age_ns = age_ns,
					     .text = text,
					     .bytes = strlen(text) };
	uint8_t *bytes;

	cr_assert_eq(rsk_document_file_encode(&f, &then, &bytes, n), 0);
	return bytes;
}

static int read_as(const char *cluster, const uint8_t *bytes, size_t n,
		   const struct rsk_document_clock *now, struct rsk_document_file *f,
		   const char **why)
{
	*f = (struct rsk_document_file){ .cluster = cluster, .cluster_bytes = strlen(cluster) };
	return rsk_document_file_decode(bytes, n, now, f, why);
}

/* The age of a file that was written at @then, with an age of 5 s, and is read at @now. */
static uint64_t age_at(const struct rsk_document_clock *now)
{
	struct rsk_document_file f;
	const char *why;
	size_t n;
	uint8_t *bytes = written(TEXT, 7, 5 * S, &n);

	cr_assert_eq(read_as(CLUSTER, bytes, n, now, &f, &why), 0);
	free(bytes);
	return f.age_ns;
}

Test(document_file, written_and_read)
{
	struct rsk_document_file f;
	const char *why;
	size_t n;
	uint8_t *bytes = written(TEXT, 7, 5 * S, &n);

	cr_assert_eq(read_as(CLUSTER, bytes, n, &then, &f, &why), 0);
	cr_assert(!why && f.revision == 7 && f.age_ns == 5 * S && f.bytes == strlen(TEXT));
	cr_assert_eq(memcmp(f.text, TEXT, f.bytes), 0);
	free(bytes);
	bytes = written("", 0, 0, &n);
	cr_assert_eq(read_as(CLUSTER, bytes, n, &then, &f, &why), 0);
	cr_assert(!f.revision && !f.bytes, "that there is no document");
	free(bytes);
}

Test(document_file, age_over_clocks)
{
	struct rsk_document_clock now = then;

	/* The same boot: the time of day does not matter. */
	now.boottime_ns += 3 * S;
	for (int i = 0; i < 3; i++) {
		now.time_ns = i * then.time_ns;
		cr_assert_eq(age_at(&now), 8 * S);
	}
	now.boottime_ns = then.boottime_ns - 1;
	now.time_ns = 2 * then.time_ns;
	cr_assert_eq(age_at(&now), RSK_DOCUMENT_AGE_UNKNOWN, "a clock that cannot go back");
	/* Another one. */
	now = (struct rsk_document_clock){ .boot_id = { 3 }, .time_ns = then.time_ns + 60 * S };
	cr_assert_eq(age_at(&now), 65 * S);
	now.time_ns = then.time_ns;
	cr_assert_eq(age_at(&now), 5 * S);
	now.time_ns = then.time_ns - 1;
	cr_assert_eq(age_at(&now), RSK_DOCUMENT_AGE_UNKNOWN, "the time of day was set back");
	now.time_ns = S;
	cr_assert_eq(age_at(&now), RSK_DOCUMENT_AGE_UNKNOWN, "it begins in 1970");
	/* A boot that is not known is no boot. */
	now = (struct rsk_document_clock){ .boottime_ns = UINT64_MAX, .time_ns = then.time_ns + S };
	cr_assert_eq(age_at(&now), 6 * S);
}

Test(document_file, an_age_that_is_not_known_stays_so)
{
	struct rsk_document_clock now = then;
	struct rsk_document_file f;
	const char *why;
	size_t n;
	uint8_t *bytes = written(TEXT, 7, RSK_DOCUMENT_AGE_UNKNOWN, &n);

	for (int i = 0; i < 2; i++) {
		now.boottime_ns += (uint64_t)i * S;
		cr_assert_eq(read_as(CLUSTER, bytes, n, &now, &f, &why), 0);
		cr_assert_eq(f.age_ns, RSK_DOCUMENT_AGE_UNKNOWN);
	}
	free(bytes);
}

static const char *wrong(const uint8_t *bytes, size_t n)
{
	struct rsk_document_file f;
	const char *why = NULL;
	int rc = read_as(CLUSTER, bytes, n, &then, &f, &why);

	cr_assert_eq(rc, rc ? -EBADMSG : 0);
	cr_assert(!rc == !why);
	cr_assert(rc == 0 || (!f.text && !f.revision), "nothing is taken");
	return why ? why : "nothing";
}

Test(document_file, damaged)
{
	size_t n;
	uint8_t *bytes = written(TEXT, 7, 5 * S, &n);

	for (size_t i = 0; i < n; i++) {
		cr_expect_str_neq(wrong(bytes, i), "nothing", "%zu bytes of it", i);
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			cr_expect_str_neq(wrong(bytes, n), "nothing", "bit %d of %zu", bit, i);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
	bytes = realloc(bytes, n + 1);
	bytes[n] = 0;
	cr_expect_str_eq(wrong(bytes, n + 1), "its hash is not right");
	cr_expect_str_eq(wrong(bytes, n), "nothing");
	free(bytes);
}

/* Sets a number of the head, of @size bytes at @at, and the hash that is right then. */
static const char *with(size_t at, size_t size, uint64_t value)
{
	size_t n;
	uint8_t *bytes = written(TEXT, 7, 5 * S, &n);
	const char *why;
	uint64_t hash;

	memcpy(bytes + at, &value, size); /* little endian */
	memset(bytes + 72, 0, 8);
	hash = XXH3_64bits(bytes, n);
	memcpy(bytes + 72, &hash, 8);
	why = wrong(bytes, n);
	free(bytes);
	return why;
}

Test(document_file, numbers_that_are_wrong)
{
	const uint32_t cluster = strlen(CLUSTER), text = strlen(TEXT);

	cr_assert_str_eq(with(24, 8, 8), "nothing", "another revision");
	cr_assert_str_eq(with(0, 1, 'x'), "it is no file of this kind");
	cr_assert_str_eq(with(8, 4, 2), "it is of another version");
	cr_assert_str_eq(with(12, 4, cluster + 1), "its numbers are out of bounds");
	cr_assert_str_eq(with(12, 4, UINT32_MAX), "its numbers are out of bounds");
	cr_assert_str_eq(with(16, 4, text - 1), "its numbers are out of bounds");
	cr_assert_str_eq(with(16, 4, UINT32_MAX), "its numbers are out of bounds");
	/* Each is wrong, and their sum is right. */
	cr_assert_str_eq(with(12, 8, (uint64_t)(text + 30) << 32 | (cluster - 30)),
			 "it is of another cluster");
	cr_assert_str_eq(with(20, 4, 1), "its numbers are out of bounds");
	cr_assert_str_eq(with(24, 8, 0), "its numbers are out of bounds",
			 "a text, and no document");
	cr_assert_str_eq(with(24, 8, UINT64_MAX), "its numbers are out of bounds");
}

Test(document_file, of_another_cluster)
{
	static const struct {
		const char *cluster;
		bool is_ours;
	} others[] = {
		{ CLUSTER, true },
		{ "/rsock\nhttp://10.0.0.2:1\n", true },
		{ "/rsock\nhttp://10.0.0.9:1\nhttp://10.0.0.1:1\n", true },
		{ "/rsock\nhttp://10.0.0.9:1\n", false },
		{ "/rsock\nhttp://10.0.0.1:11\n", false },
		{ "/rsock\nhttp://10.0.0.1:\n", false },
		{ "/rsock\nhttp://10.0.0.1:1", false }, /* not a whole line */
		{ "/rsoc\nhttp://10.0.0.1:1\n", false },
		{ "/rsock2\nhttp://10.0.0.1:1\n", false },
		{ "http://10.0.0.1:1\n/rsock\n", false },
		{ "/rsock\n", false },
		{ "", false },
	};
	struct rsk_document_file f;
	const char *why;
	size_t n;
	uint8_t *bytes = written(TEXT, 7, 0, &n);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_expect_eq(read_as(others[i].cluster, bytes, n, &then, &f, &why),
			     others[i].is_ours ? 0 : -EBADMSG, "%s", others[i].cluster);
		cr_expect(others[i].is_ours || strcmp(why, "it is of another cluster") == 0);
	}
	free(bytes);
}

Test(document_file, sizes)
{
	struct rsk_document_file f = { .cluster = CLUSTER,
				       .cluster_bytes = strlen(CLUSTER),
				       .revision = 1,
				       .bytes = RSK_CONF_DOCUMENT_MOST };
	char *text = calloc(1, RSK_CONF_DOCUMENT_MOST + 1);
	const char *why;
	uint8_t *bytes;
	size_t n;

	f.text = text;
	cr_assert_eq(rsk_document_file_encode(&f, &then, &bytes, &n), 0);
	cr_assert_leq(n, RSK_DOCUMENT_FILE_MOST);
	cr_assert_eq(read_as(CLUSTER, bytes, n, &then, &f, &why), 0);
	cr_assert_eq(f.bytes, RSK_CONF_DOCUMENT_MOST);
	f.bytes++;
	free(bytes);
	f.cluster = CLUSTER;
	f.text = text;
	cr_assert_eq(rsk_document_file_encode(&f, &then, &bytes, &n), -EFBIG);
	f.bytes = 0;
	f.cluster_bytes = RSK_DOCUMENT_FILE_CLUSTER + 1;
	cr_assert_eq(rsk_document_file_encode(&f, &then, &bytes, &n), -EFBIG);
	free(text);
}
