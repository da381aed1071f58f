/* SPDX-License-Identifier: BSD-2-Clause */
/* upcalls.h - called at the start of the process: connects the callbacks of the lower layers. */
#ifndef RSK_UPCALLS_H
#define RSK_UPCALLS_H

#include <stdint.h>

void rsk_upcalls_init(void);
void rsk_fd_closed_unseen(int fd, uintptr_t w); /* in fd.c; see upcall.h */

#endif
