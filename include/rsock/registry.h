/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry.h - layout of the registry file through which the two ends of a connection on one host
 * find each other: <base>/rsock-<euid>/registry, one per effective user (or another directory, if
 * another user created that one first: mapper/peer/registry_dir.h). mapper/peer reads and writes
 * it.
 *
 * It is read and written with pread and pwrite only, and never mapped, so that a truncated file is
 * a short read and not a SIGBUS. There is no lock: each entry has a checksum, and is a hint, never
 * a proof. A lost entry costs an acceleration, nothing else.
 */
#ifndef RSOCK_REGISTRY_H
#define RSOCK_REGISTRY_H

#include <rsock/tuple.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All releases read and write this one layout: it is where their processes find each other, before
 * either knows the other's version. A field may be added in what is reserved, which readers leave
 * alone. Another layout needs another file name, since processes of two versions would otherwise
 * repair each other's header for ever (docs/adr/versions.md).
 */
#define RSK_REGISTRY_VERSION 2
#define RSK_REGISTRY_MAGIC UINT64_C(0x314745524b4f4353)
#define RSK_REGISTRY_ENTRY_MAGIC 0x5253454eU
#define RSK_REGISTRY_ENTRIES 16384u
#define RSK_REGISTRY_PROBES 8u
#define RSK_REGISTRY_HEADER_BYTES 4096u

/* The first bytes of the file; the rest of its page is zero. */
struct rsk_registry_header {
	uint64_t magic;
	uint32_t version;
	uint32_t entries;
	uint64_t key;	   /* random: others cannot choose 4-tuples that collide */
	uint64_t checksum; /* XXH3-64 of the bytes before it */
};

/* One offer: "process @pid holds this end as @fd, and accepts a rendezvous at @nonce". */
struct rsk_registry_entry {
	uint32_t magic;
	uint32_t pid;
	int32_t fd;
	uint32_t flags;		/* 0 */
	struct rsk_tuple tuple; /* as the process that posted it sees it */
	uint64_t sock_cookie;	/* SO_COOKIE of that process's end; 0: unknown */
	/* Names the abstract unix socket of that process for the rendezvous. */
	uint64_t nonce;
	uint64_t posted_ns; /* CLOCK_MONOTONIC */
	/* Data of that process: a stream id, an AssocHandle. */
	uint64_t user;
	uint64_t reserved[2]; /* written as 0, and not read: later releases may have more here */
	uint64_t checksum;    /* XXH3-64, keyed, of the bytes before it */
};

_Static_assert(sizeof(struct rsk_registry_header) == 32, "header");
_Static_assert(offsetof(struct rsk_registry_header, checksum) == 24, "header checksum is last");
_Static_assert(sizeof(struct rsk_registry_entry) == 128, "entry");
_Static_assert(offsetof(struct rsk_registry_entry, checksum) == 120, "entry checksum is last");

#define RSK_REGISTRY_FILE_BYTES                                                                    \
	(RSK_REGISTRY_HEADER_BYTES + RSK_REGISTRY_ENTRIES * sizeof(struct rsk_registry_entry))

#endif /* RSOCK_REGISTRY_H */
