/* SPDX-License-Identifier: BSD-2-Clause */
/* launch.h - programs that the tool starts, waits for and listens to. */
#ifndef RSK_TOOLS_LAUNCH_H
#define RSK_TOOLS_LAUNCH_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether a program gets the library, or surely has none. */
enum launch_way {
	LAUNCH_PLAIN,
	LAUNCH_PRELOADED,
};

/*
 * Puts this process's environment in order for @way; to be called in a child. @library: as library_find() gave it.
 * 0 or -errno of preload_set(). An LD_PRELOAD that names a librsock.so already is overruled where there must be none.
 */
int launch_environment(enum launch_way way, const char *library);

/*
 * This tool itself with other arguments (argv as for execv, argv[0] included); what it prints is put into *out, the
 * caller's. Returns its exit status, or -errno.
 */
int launch_self(enum launch_way way, const char *library, char *const argv[], char **out);

/* This tool's own file, by the name it was installed under: what is run by it is called so in ps. 0 or -errno. */
int launch_own_path(char out[static PATH_MAX]);

/* Of a wait status: the exit status, 128 + the signal. */
int launch_status(int status);

#endif /* RSK_TOOLS_LAUNCH_H */
