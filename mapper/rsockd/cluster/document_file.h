/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * document_file.h - encodes and decodes the file in which a daemon keeps the cluster's document for
 * a start without etcd. Called by document_keep.c. Pure: the caller passes bytes and times.
 *
 * The file has the document's age, which is the time since etcd was last heard, together with the
 * time since boot (CLOCK_BOOTTIME), the boot id, and the time of day when it was written. Until the
 * next boot the age grows by the first clock, which cannot be set. After another boot it grows by
 * the time of day; if that has gone back, the age is not known.
 *
 *	"RSKDOCUM"  version  cluster_bytes  document_bytes  0  revision  age_ns  time_ns
 *		boottime_ns  boot_id[16]  hash
 *		80 bytes; XXH3 of the whole file, with the hash as 0
 *	the cluster (its prefix and its endpoints, each with a line end), the document; numbers in
 *	host byte order
 */
#ifndef RSK_DOCUMENT_FILE_H
#define RSK_DOCUMENT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "conf.h"

#define RSK_DOCUMENT_FILE_HEAD 80u
#define RSK_DOCUMENT_FILE_CLUSTER 8192u
#define RSK_DOCUMENT_FILE_MOST                                                                     \
	(RSK_DOCUMENT_FILE_HEAD + RSK_DOCUMENT_FILE_CLUSTER + RSK_CONF_DOCUMENT_MOST)
#define RSK_DOCUMENT_AGE_UNKNOWN UINT64_MAX

struct rsk_document_clock {
	uint8_t boot_id[16];  /* all zero: not known */
	uint64_t boottime_ns; /* time since boot */
	uint64_t time_ns;     /* time of day */
};

/* What the file has. The texts are borrowed. */
struct rsk_document_file {
	const char *cluster;
	size_t cluster_bytes;
	uint64_t revision; /* 0: there is no document */
	uint64_t age_ns;   /* or RSK_DOCUMENT_AGE_UNKNOWN */
	const char *text;
	size_t bytes;
};

/* Allocates *out. Returns 0; -EFBIG: a text is too large; -ENOMEM. */
int rsk_document_file_encode(const struct rsk_document_file *f,
			     const struct rsk_document_clock *clock, uint8_t **out, size_t *n);

/*
 * Fills @f, with texts in @bytes. @f->cluster is this host's: the file has to be of the same
 * prefix, and of one endpoint at least that is this host's, too. Returns 0, or -EBADMSG: *why says
 * why the file is not used (a constant), and @f is unchanged.
 */
int rsk_document_file_decode(const uint8_t *bytes, size_t n, const struct rsk_document_clock *clock,
			     struct rsk_document_file *f, const char **why);

#endif
