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
 * The engine is running. False in a set-uid program, when switched off (RSOCK_DISABLE), before boot
 * has reached that step, and under a seccomp filter that kills for its calls: then every hook only
 * makes the real call. Stored when all that the engine needs is there, by any thread; seq_cst.
 */
extern _Atomic(bool) rsk_booted;

/*
 * The engine is running, or may run later: signal handlers are the trampoline's from now on. Never
 * false again.
 */
extern bool rsk_boot_follows;

/*
 * In a process that has begun under a seccomp filter, start-up waits, without a system call of the
 * library's own, until the program makes the first descriptor that the engine has to know: then
 * this is called, tries the filter, and goes on unless that kills. Returns rsk_booted; false while
 * another thread is in here. Keeps errno.
 */
bool rsk_boot_late(void);
bool rsk_boot_waiting(void);
/* In the child of a fork: a thread of the parent may have been in rsk_boot_late(). */
void rsk_boot_forked(void);

#endif
