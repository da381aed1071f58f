/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syn.h - the time stamp of a connection's first segment (RFC 7323), which both ends can find out:
 * it names the connection where addresses do not, across network namespaces and address
 * translation. Who else can, and why it is believed only where the operator says so:
 * docs/adr/containers.md. All signal-safe; pairing calls it.
 */
#ifndef RSK_SYN_H
#define RSK_SYN_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_stream;

/* Values that it may have: @n of them from @first on, in ms, modulo 2^32. n 0: unknown. */
struct rsk_syn {
	uint32_t first, n;
};

/* More are too easy to guess. */
#define RSK_SYN_MOST 64u

/* The kernel is to keep the first segments that come to this listener. No effect if it does. */
void rsk_syn_keep(int listener);

/*
 * Finds it out, once; later calls return the same. The accepting end knows one value, the
 * connecting end those of the milliseconds in which connect() sent it. False: it is unknown.
 */
bool rsk_syn_learn(struct rsk_stream *s, int fd, struct rsk_syn *out);

/* Whether one of the values that @theirs names is one of @ours. */
static inline bool rsk_syn_match(const struct rsk_syn *ours, const struct rsk_syn *theirs)
{
	return ours->n && theirs->n && ours->n <= RSK_SYN_MOST && theirs->n <= RSK_SYN_MOST &&
	       (theirs->first - ours->first < ours->n || ours->first - theirs->first < theirs->n);
}

#endif
