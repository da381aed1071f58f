// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_document_file.c - fuzzes the file in which the cluster's document is kept with any bytes, as
 * they are and with a right hash: what is accepted lies within them, is of this host's cluster, and
 * stays the same when written and read again.
 */
#include "document_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

#define HASH_AT (RSK_DOCUMENT_FILE_HEAD - 8u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char cluster[] = "/rsock\nhttp://10.0.0.1:1\n";
static const struct rsk_document_clock now = { .boot_id = "machine",
					       .boottime_ns = 5000,
					       .time_ns = 7777 };

static void require(bool what)
{
	if (!what)
		abort();
}

static bool take(const uint8_t *bytes, size_t n, struct rsk_document_file *f)
{
	const char *why;
	int rc;

	*f = (struct rsk_document_file){ .cluster = cluster, .cluster_bytes = strlen(cluster) };
	rc = rsk_document_file_decode(bytes, n, &now, f, &why);
	require(rc == 0 ? !why : rc == -EBADMSG && why && !f->text);
	return rc == 0;
}

static void look(const uint8_t *bytes, size_t n)
{
	struct rsk_document_file f, g;
	uint8_t *out;
	size_t length;

	if (!take(bytes, n, &f))
		return;
	require((const uint8_t *)f.text >= bytes && f.text + f.bytes == (const char *)bytes + n);
	require(f.bytes <= RSK_CONF_DOCUMENT_MOST && (f.revision || !f.bytes));
	require(strncmp(f.cluster, "/rsock\n", 7) == 0);
	require(rsk_document_file_encode(&f, &now, &out, &length) == 0 && length == n);
	require(take(out, length, &g));
	require(g.revision == f.revision && g.age_ns == f.age_ns && g.bytes == f.bytes &&
		memcmp(g.text, f.text, f.bytes) == 0);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;
	uint64_t hash;

	look(data, size);
	if (size < RSK_DOCUMENT_FILE_HEAD)
		return 0;
	copy = malloc(size);
	require(copy != NULL);
	memcpy(copy, data, size);
	memset(copy + HASH_AT, 0, 8);
	hash = XXH3_64bits(copy, size);
	memcpy(copy + HASH_AT, &hash, 8);
	look(copy, size);
	free(copy);
	return 0;
}
