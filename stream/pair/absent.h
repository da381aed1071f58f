/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * absent.h - finds the reason why no process offers the other end of a stream, or why no link to it
 * can be made. The peer lookup shows the reason in the stream's record.
 */
#ifndef RSK_STREAM_ABSENT_H
#define RSK_STREAM_ABSENT_H

#include <stdbool.h>

#include <rsock/reason.h>
#include <rsock/tuple.h>

/*
 * What the kernel shows of the other end of @mine (sock_diag(7)): it belongs to another user, is
 * not in this network namespace, or belongs to our user and is not offered. @rsockd: rsockd answers
 * on this host, so that other hosts are known. Some ten system calls; none blocks.
 */
enum rsk_reason rsk_absent_why(const struct rsk_tuple *mine, bool rsockd);

/*
 * Reason for a link that failed with @err (-errno): the resource that was lacking, that the other
 * end is of another user or (-EPROTONOSUPPORT) version, else LINK_ERROR. Pure.
 */
enum rsk_reason rsk_absent_link(int err);

/* The same for a failed read or write of the registry; else NO_REGISTRY. Pure. */
enum rsk_reason rsk_absent_registry(int err);

#endif
