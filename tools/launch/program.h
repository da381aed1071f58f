/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * program.h - finds and classifies program files: whether the loader can preload a library into
 * them.
 */
#ifndef RSK_TOOLS_PROGRAM_H
#define RSK_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum program_kind {
	PROGRAM_UNKNOWN,    /* cannot be read, or unknown format */
	PROGRAM_DYNAMIC,    /* takes LD_PRELOAD */
	PROGRAM_STATIC,	    /* no loader runs */
	PROGRAM_FOREIGN,    /* other machine or word size than this tool and the library */
	PROGRAM_OTHER_LIBC, /* its loader is not glibc's */
	PROGRAM_SCRIPT,	    /* "#!": the interpreter decides */
};

/*
 * Classifies a program by the first @len bytes of its file (ELF: elf(5)), which are untrusted.
 * @interp gets the path of the loader or the interpreter, "" if there is none.
 */
enum program_kind program_classify(const uint8_t *head, size_t len, char interp[static PATH_MAX]);

/*
 * Whether LD_PRELOAD may name the library when the program is started. A loader that cannot link
 * the library ends the program (musl's: status 127) or prints an error (glibc's of another word
 * size). Static and set-uid programs ignore the variable, but may start other programs.
 */
bool program_takes_preload(enum program_kind kind);

/*
 * Whether the Go linker made it. Go's runtime makes system calls itself, even if cgo has loaded
 * libc.
 */
bool program_is_go(const uint8_t *head, size_t len);
bool program_file_is_go(const char *path);

/* The kind of a file; of a script, the kind of its interpreter. */
enum program_kind program_kind(const char *path);

/* Finds the file that execvp(3) would run. 0; -ENOENT; -EACCES: found, but not executable. */
int program_find(const char *name, char out[static PATH_MAX]);

/*
 * Whether the kernel would start the program in secure mode (AT_SECURE), in which the loader
 * ignores an LD_PRELOAD like ours: it is set-uid or set-gid to another user or group than @uid and
 * @gid, or has file capabilities and @uid is not root.
 */
bool program_is_secure(const char *path, uid_t uid, gid_t gid);

#endif /* RSK_TOOLS_PROGRAM_H */
