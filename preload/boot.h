/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * boot.h - start-up: from the loader's first call to a running engine. The constructor in boot.c
 * and the early functions of real.c call it.
 */
#ifndef RSK_BOOT_H
#define RSK_BOOT_H

#include <stdbool.h>

/*
 * rsk_boot - runs the start-up steps unless they have been run. Called by the constructor, or by
 * the first hook if another library's constructor runs earlier. Returns true when libc's functions
 * are known; false while the steps are being run (by this thread in an outer call, or by another
 * one: no thread waits).
 */
bool rsk_boot(void);

/*
 * The engine is running. False in a set-uid program, when switched off (RSOCK_DISABLE), and before
 * boot has reached that step: then every hook only makes the real call.
 */
extern bool rsk_booted;

#endif
