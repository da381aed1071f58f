/* SPDX-License-Identifier: BSD-2-Clause */
/* boot.h - start-up: from the loader's first call to a running engine. */
#ifndef RSK_BOOT_H
#define RSK_BOOT_H

#include <stdbool.h>

/*
 * rsk_boot - runs the start-up ladder unless it has been run. Called by the constructor, or by
 * the first hook if another library's constructor is quicker. Returns true when libc's functions
 * are known; false while the ladder is being climbed (by this thread, further out, or by another
 * one: nobody waits).
 */
bool rsk_boot(void);

/*
 * The engine is there. False in a set-uid program, when switched off (RSOCK_DISABLE), and before
 * boot has come that far: then every hook is nothing but the real call.
 */
extern bool rsk_booted;

#endif
