/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * isolation.h - programs in containers: what two processes of one host do not share, and what the
 * numbers that they give themselves are called out here.
 */
#ifndef RSK_TOOLS_ISOLATION_H
#define RSK_TOOLS_ISOLATION_H

#include "scan.h"

/*
 * The namespaces that keep two processes from finding each other, as bits 1 << enum rsk_reason; 0:
 * none, or they cannot be read. A mount namespace counts only where /dev/shm is another file
 * system.
 */
uint64_t isolated_by(pid_t a, pid_t b);

/* The first of them, to be named alone; NO_PEER where there is none. */
enum rsk_reason isolated_first(uint64_t bits);

/* Into the copies: the numbers of processes in pid namespaces of their own become those that the tool sees them by. */
void segments_number(struct segment *list);

/* Into the copies, of streams whose other end was not found: what the two programs do not share. */
void segments_isolation(struct segment *list);

#endif /* RSK_TOOLS_ISOLATION_H */
