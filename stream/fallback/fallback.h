/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fallback.h - a stream leaves the ring for good: its last descriptor is closed, or only the kernel
 * is to carry it from now on.
 */
#ifndef RSK_FALLBACK_H
#define RSK_FALLBACK_H

struct rsk_stream;

void rsk_stream_goodbye(struct rsk_stream *s, int fd); /* the last fd of all is being closed */
/* the same, if it is due and no other holder is left */
void rsk_stream_last_goodbye(struct rsk_stream *s, int fd);
/* it will be closed at the process's end; until then it is used */
void rsk_stream_abandon(struct rsk_stream *s, int fd);

/*
 * s->fallback_due is not 0: leaves now, if all bytes that prevented it are read and sent. No lock
 * held.
 */
void rsk_stream_fall_back_late(struct rsk_stream *s, int fd);

#endif
