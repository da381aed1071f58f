/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * other_version.h - two processes whose libraries are of different versions: their streams stay on
 * TCP, and both ends say why (docs/adr/versions.md). With the pairing lock held.
 */
#ifndef RSK_OTHER_VERSION_H
#define RSK_OTHER_VERSION_H

#include "handshake.h"
#include "link.h"
#include "stream.h"

/*
 * The connecting end has found that the process at the other end is of another version: tells it
 * which of its streams is meant, and leaves ours on TCP for good.
 */
void rsk_other_version_stays(struct rsk_stream *s, int fd, struct rsk_link *l);

/* The accepting end is told so, by the process at the other end of @l. */
void rsk_other_version_message(struct rsk_link *l, const struct rsk_link_version_msg *m);

/*
 * rsockd has granted the mapping by which a peer of another version, on another host, asks for a
 * link for the accepting end @ours.
 */
void rsk_other_version_mapped(const struct rsk_tuple *ours);

#endif
