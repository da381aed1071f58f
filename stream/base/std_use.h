/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * std_use.h - whether this program can use descriptors 0 to 2 by calls of libc that no hook sees:
 * stdin, stdout and stderr, a shell that inherits them. calls/at_start.c asks, for a connection
 * that a program finds there (docs/adr/fork-and-exec.md).
 */
#ifndef RSK_STD_USE_H
#define RSK_STD_USE_H

#include <stdbool.h>

/*
 * rsk_std_use - whether an object that is loaded now refers to a symbol of libc that reads or
 * writes a descriptor of @which (a bit for each of 0 to 2), or that brings in code or a child of
 * which that is not known. libc and the loader themselves, and this library, do not count; an
 * object whose tables cannot be read does. Makes no system call; takes the loader's lock.
 */
bool rsk_std_use(unsigned int which);

/* The bits of the descriptors that @symbol reads or writes; 0: none. */
unsigned int rsk_std_use_of(const char *symbol);

#endif
