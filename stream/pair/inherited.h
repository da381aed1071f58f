/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inherited.h - whether a socket that came through exec is this process's alone. A pairing step
 * asks, once the stream has earned promotion: a stream is promoted only while one process holds it,
 * and here the library has not seen who got it (docs/adr/fork-and-exec.md).
 */
#ifndef RSK_INHERITED_H
#define RSK_INHERITED_H

#include <stdbool.h>

struct rsk_stream;

/*
 * The pairing lock is held. False: the stream was given up. True: go on, and ask
 * rsk_stream_sole_process(), which is true from now on if no other process has it.
 */
bool rsk_inherited_look(struct rsk_stream *s);

#endif
