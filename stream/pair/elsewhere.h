/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elsewhere.h - addresses that rsockd has said are not this host's: for who goes there, or comes from there, it is not
 * worth looking on this one first. A hint, of which some are forgotten. Private to the process, under the join lock.
 */
#ifndef RSK_STREAM_ELSEWHERE_H
#define RSK_STREAM_ELSEWHERE_H

#include <rsock/tuple.h>
#include <stdbool.h>

/* The peer's address. */
void rsk_elsewhere_note(const struct rsk_tuple *t);
bool rsk_elsewhere_noted(const struct rsk_tuple *t);

#endif
