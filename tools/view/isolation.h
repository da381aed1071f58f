/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * isolation.h - processes in containers: which namespaces two processes of one host do not share,
 * and the translation of pids from their namespaces to the tool's.
 */
#ifndef RSK_TOOLS_ISOLATION_H
#define RSK_TOOLS_ISOLATION_H

#include "scan.h"

/*
 * The separate namespaces that keep two processes from finding each other, as bits 1 << enum
 * rsk_reason; 0: none, or they cannot be read. A mount namespace counts only if /dev/shm is another
 * file system there.
 */
uint64_t isolated_by(pid_t a, pid_t b);

/* The one of @bits to report when only one is reported; NO_PEER if there is none. */
enum rsk_reason isolated_first(uint64_t bits);

/* In the copies, replaces pids from other pid namespaces by the pids in the tool's namespace. */
void segments_number(struct segment *list);

/*
 * In the copies, replaces the reason of streams whose ends did not find each other by the
 * namespace that their processes do not share.
 */
void segments_isolation(struct segment *list);

#endif /* RSK_TOOLS_ISOLATION_H */
