/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * absent.h - why nobody offers the other end of a stream, and why no link to it can be made: the
 * reasons that are shown.
 */
#ifndef RSK_STREAM_ABSENT_H
#define RSK_STREAM_ABSENT_H

#include <stdbool.h>

#include <rsock/reason.h>
#include <rsock/tuple.h>

/*
 * What the kernel shows of the other end of @mine (sock_diag(7)): another user's, not in this
 * network namespace, or ours, and not offered. @rsockd: one answers here, to whom other hosts are
 * known. Some ten system calls; none blocks.
 */
enum rsk_reason rsk_absent_why(const struct rsk_tuple *mine, bool rsockd);

/* Of an error (-errno) that a link was not made for: what was lacking, else LINK_ERROR. Pure. */
enum rsk_reason rsk_absent_link(int err);

/* The same of an error that the registry was not read or written for, else NO_REGISTRY. Pure. */
enum rsk_reason rsk_absent_registry(int err);

#endif
