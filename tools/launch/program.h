/* SPDX-License-Identifier: BSD-2-Clause */
/* program.h - can the loader preload anything into this program? */
#ifndef RSK_TOOLS_PROGRAM_H
#define RSK_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum program_kind {
	PROGRAM_UNKNOWN,    /* cannot be read, or is nothing that we know */
	PROGRAM_DYNAMIC,    /* takes LD_PRELOAD */
	PROGRAM_STATIC,	    /* no loader runs */
	PROGRAM_FOREIGN,    /* another machine or word size than this tool and the library */
	PROGRAM_OTHER_LIBC, /* its loader is not glibc's */
	PROGRAM_SCRIPT,	    /* "#!": its interpreter counts */
};

/*
 * What the first @len bytes of a file say (ELF: elf(5)); nothing in them is believed. @interp: the loader's or the
 * interpreter's path, "" if there is none.
 */
enum program_kind program_classify(const uint8_t *head, size_t len, char interp[static PATH_MAX]);

/*
 * May LD_PRELOAD name the library when it is started? A loader that cannot link it either ends the
 * program (musl's: status 127) or complains (glibc's of another word size). Static and set-uid
 * programs do not care, and may start others.
 */
bool program_takes_preload(enum program_kind kind);

/* Was it made by the Go linker, whose runtime makes system calls itself, also where cgo has libc loaded? */
bool program_is_go(const uint8_t *head, size_t len);
bool program_file_is_go(const char *path);

/* Of a file; of a script, what its interpreter is. */
enum program_kind program_kind(const char *path);

/* The file that execvp(3) would run; 0, -ENOENT, or -EACCES: found, but not to be executed. */
int program_find(const char *name, char out[static PATH_MAX]);

/*
 * Would the kernel start it in secure mode (AT_SECURE), where the loader ignores such an
 * LD_PRELOAD: set-uid or set-gid to another than who runs it, or file capabilities that add to
 * what he has?
 */
bool program_is_secure(const char *path, uid_t uid, gid_t gid);

#endif /* RSK_TOOLS_PROGRAM_H */
