/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launch.h - starts programs with or without the library and waits for them (rsock bench, check
 * --echo).
 */
#ifndef RSK_TOOLS_LAUNCH_H
#define RSK_TOOLS_LAUNCH_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether a program runs with the library, or certainly without it. */
enum launch_way {
	LAUNCH_PLAIN,
	LAUNCH_PRELOADED,
};

/*
 * Sets this process's environment for @way; to be called in a child. @library: the path from
 * library_find(). For LAUNCH_PLAIN, every librsock.so is also taken out of LD_PRELOAD. 0, or the
 * -errno of preload_set() or preload_unset().
 */
int launch_environment(enum launch_way way, const char *library);

/*
 * fork() for a child that launch_wait() waits for. Its status is kept even if this process was
 * started with SIGCHLD ignored, and the child has SIGCHLD as this process was started with it.
 * Returns what fork() returns.
 */
pid_t launch_fork(void);
/* Waits for @pid to end. Returns launch_status(), or -errno. */
int launch_wait(pid_t pid);

/*
 * Runs this tool with other arguments (@argv as for execv(), argv[0] included). *out gets its
 * standard output, which the caller frees. Returns the exit status; or -errno, then *out is NULL.
 */
int launch_self(enum launch_way way, const char *library, char *const argv[], char **out);

/*
 * The path of this tool's file, so that a child shows under that name in ps; /proc/self/exe if
 * the file is gone. 0 or -errno.
 */
int launch_own_path(char out[static PATH_MAX]);

/* The exit status in a wait status; 128 + the signal if one ended the process. */
int launch_status(int status);

#endif /* RSK_TOOLS_LAUNCH_H */
