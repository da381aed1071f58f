/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of the harness; cases include app.h only. */
#ifndef APP_SIDE_H
#define APP_SIDE_H

struct app_shm;
extern struct app_shm *app_shm;
extern unsigned int app_case_flags;

/* Maps the run's shared memory, named by a path under /proc. */
void app_attach(const char *path, int side);

#endif
