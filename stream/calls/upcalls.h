/* SPDX-License-Identifier: BSD-2-Clause */
/* upcalls.h - at the start of the process: the floors below learn whom they tell. */
#ifndef RSK_UPCALLS_H
#define RSK_UPCALLS_H

#include <stdint.h>

void rsk_upcalls_init(void);
void rsk_fd_closed_unseen(int fd, uintptr_t w); /* fd.c: upcall.h */

#endif
