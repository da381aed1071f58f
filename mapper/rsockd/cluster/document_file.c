// SPDX-License-Identifier: BSD-2-Clause
/* document_file.c - see document_file.h. */
#include "document_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

#define VERSION 1u

struct head {
	char magic[8];
	uint32_t version, cluster_bytes, document_bytes, spare;
	uint64_t revision, age_ns, time_ns, boottime_ns;
	uint8_t boot_id[16];
	uint64_t hash;
};
_Static_assert(sizeof(struct head) == RSK_DOCUMENT_FILE_HEAD, "no hidden padding");

static const char magic[8] = { 'R', 'S', 'K', 'D', 'O', 'C', 'U', 'M' };

int rsk_document_file_encode(const struct rsk_document_file *f,
			     const struct rsk_document_clock *clock, uint8_t **out, size_t *n)
{
	struct head h = { .version = VERSION,
			  .cluster_bytes = (uint32_t)f->cluster_bytes,
			  .document_bytes = (uint32_t)f->bytes,
			  .revision = f->revision,
			  .age_ns = f->age_ns,
			  .time_ns = clock->time_ns,
			  .boottime_ns = clock->boottime_ns };

	if (f->cluster_bytes > RSK_DOCUMENT_FILE_CLUSTER || f->bytes > RSK_CONF_DOCUMENT_MOST)
		return -EFBIG;
	*n = sizeof(h) + f->cluster_bytes + f->bytes;
	*out = malloc(*n);
	if (!*out)
		return -ENOMEM;
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.boot_id, clock->boot_id, 16);
	memcpy(*out, &h, sizeof(h));
	memcpy(*out + sizeof(h), f->cluster, f->cluster_bytes);
	if (f->bytes)
		memcpy(*out + sizeof(h) + f->cluster_bytes, f->text, f->bytes);
	h.hash = XXH3_64bits(*out, *n);
	memcpy(*out, &h, sizeof(h));
	return 0;
}

/* ---- decoding ---- */

static uint64_t hash_of(const uint8_t *bytes, size_t n, const struct head *h)
{
	struct head no_hash = *h;
	XXH3_state_t x;

	no_hash.hash = 0;
	XXH3_INITSTATE(&x);
	XXH3_64bits_reset(&x);
	XXH3_64bits_update(&x, &no_hash, sizeof(no_hash));
	XXH3_64bits_update(&x, bytes + sizeof(*h), n - sizeof(*h));
	return XXH3_64bits_digest(&x);
}

/* Takes the next line of a text. False: there is none, with a line end. */
static bool next_line(const char **p, const char *end, const char **line, size_t *n)
{
	const char *at = *p < end ? memchr(*p, '\n', (size_t)(end - *p)) : NULL;

	if (!at)
		return false;
	*line = *p;
	*n = (size_t)(at - *p);
	*p = at + 1;
	return true;
}

static bool has_line(const char *text, const char *end, const char *line, size_t n)
{
	const char *one;
	size_t bytes;

	while (next_line(&text, end, &one, &bytes))
		if (bytes == n && memcmp(one, line, n) == 0)
			return true;
	return false;
}

/* The same prefix, which is the first line, and one of the others in common. */
static bool is_of(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	const char *a_end = a + a_bytes, *b_end = b + b_bytes, *a_line, *b_line;
	size_t n, m;

	if (!next_line(&a, a_end, &a_line, &n) || !next_line(&b, b_end, &b_line, &m) || n != m ||
	    memcmp(a_line, b_line, n) != 0)
		return false;
	while (next_line(&a, a_end, &a_line, &n))
		if (has_line(b, b_end, a_line, n))
			return true;
	return false;
}

/* Checks the whole file before anything is taken. */
static const char *wrong(const uint8_t *bytes, size_t n, const struct rsk_document_file *f,
			 struct head *h)
{
	const char *cluster = (const char *)bytes + sizeof(*h);

	if (n < sizeof(*h))
		return "it is too short";
	memcpy(h, bytes, sizeof(*h));
	if (memcmp(h->magic, magic, sizeof(magic)) != 0)
		return "it is no file of this kind";
	if (h->version != VERSION)
		return "it is of another version";
	if (hash_of(bytes, n, h) != h->hash)
		return "its hash is not right";
	if (h->spare || h->cluster_bytes > RSK_DOCUMENT_FILE_CLUSTER ||
	    h->document_bytes > RSK_CONF_DOCUMENT_MOST || h->revision > INT64_MAX ||
	    (!h->revision && h->document_bytes) ||
	    n != sizeof(*h) + h->cluster_bytes + h->document_bytes)
		return "its numbers are out of bounds";
	if (!is_of(f->cluster, f->cluster_bytes, cluster, h->cluster_bytes))
		return "it is of another cluster";
	return NULL;
}

static uint64_t age_of(const struct head *h, const struct rsk_document_clock *clock)
{
	static const uint8_t not_known[16];
	uint64_t now = clock->time_ns, then = h->time_ns, age;

	if (memcmp(clock->boot_id, not_known, 16) != 0 &&
	    memcmp(h->boot_id, clock->boot_id, 16) == 0) {
		now = clock->boottime_ns;
		then = h->boottime_ns;
	}
	if (now < then || __builtin_add_overflow(h->age_ns, now - then, &age))
		return RSK_DOCUMENT_AGE_UNKNOWN;
	return age;
}

int rsk_document_file_decode(const uint8_t *bytes, size_t n, const struct rsk_document_clock *clock,
			     struct rsk_document_file *f, const char **why)
{
	struct head h;

	*why = wrong(bytes, n, f, &h);
	if (*why)
		return -EBADMSG;
	*f = (struct rsk_document_file){ .cluster = (const char *)bytes + sizeof(h),
					 .cluster_bytes = h.cluster_bytes,
					 .revision = h.revision,
					 .age_ns = age_of(&h, clock),
					 .text = (const char *)bytes + sizeof(h) + h.cluster_bytes,
					 .bytes = h.document_bytes };
	return 0;
}
