/* SPDX-License-Identifier: BSD-2-Clause */
/* side.h - declarations between the files of the harness; cases include app.h only. */
#ifndef APP_SIDE_H
#define APP_SIDE_H

#include <stdbool.h>

struct app_shm;
extern struct app_shm *app_shm;
extern unsigned int app_case_flags;

/* Maps the run's shared memory, named by a path under /proc. */
void app_attach(const char *path, int side);

/*
 * Called by both sides, in lock-step: true if the stream with that port is in the ring, or has been
 * waited for as long as APP_WARM_S says.
 */
bool app_stream_settled(int port);

#endif
