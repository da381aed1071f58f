/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream_qos.h - applies the differentiated service that policy has given a stream (rsock/qos.h) to
 * what this end sends: to its TCP socket at once, and to the ring of a link to another host. The
 * DSCP of the ring is the link's (link_requests.h). pair/local.c calls it.
 */
#ifndef RSK_STREAM_QOS_H
#define RSK_STREAM_QOS_H

#include <rsock/qos.h>

struct rsk_stream;

/*
 * An option that the program has set itself stays as it is. @fd is the stream's. The pairing lock
 * is held, and none of the stream's.
 */
void rsk_stream_set_qos(struct rsk_stream *s, int fd, const struct rsk_qos *qos);

#endif
