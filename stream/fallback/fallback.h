/* SPDX-License-Identifier: BSD-2-Clause */
/* fallback.h - a stream leaves the ring for good: its last descriptor is closed, or the kernel alone is to carry it. */
#ifndef RSK_FALLBACK_H
#define RSK_FALLBACK_H

struct rsk_stream;

void rsk_stream_goodbye(struct rsk_stream *s, int fd); /* the last fd of all is being closed */
void rsk_stream_last_goodbye(struct rsk_stream *s,
			     int fd); /* the same, if it is due and nobody else has it */
void rsk_stream_abandon(struct rsk_stream *s,
			int fd); /* will be, at the process's end; until then it is used */

/* s->fallback_due is not 0: leave now, if all that stood against it is read and sent. No lock held. */
void rsk_stream_fall_back_late(struct rsk_stream *s, int fd);

#endif
