/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of the harness; cases include app.h only. */
#ifndef APP_SIDE_H
#define APP_SIDE_H

#include <stdbool.h>

struct app_shm;
extern struct app_shm *app_shm;
extern unsigned int app_case_flags;

/* Maps the run's shared memory, named by a path under /proc. */
void app_attach(const char *path, int side);

/* Both sides, in lock-step: is the stream of that port in the ring, or waited for in vain (APP_WARM_S)? */
bool app_stream_settled(int port);

/* So many times longer than on a machine of our own: APP_SCALE. */
int app_scale(void);

#endif
