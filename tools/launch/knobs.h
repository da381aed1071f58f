/* SPDX-License-Identifier: BSD-2-Clause */
/* knobs.h - the library's environment variables as options of rsock run and rsock bench. */
#ifndef RSK_TOOLS_KNOBS_H
#define RSK_TOOLS_KNOBS_H

#include <stddef.h>
#include <stdint.h>

struct command;

/*
 * X(option, variable, value's name, least, most, fixed, help): a number within bounds; words with bounds 0 and 0; no
 * value's name: the option stands for the value "fixed". The order is that of the commands' option rows.
 */
#define KNOB_ROWS(X)                                                                               \
	X("--log", "RSOCK_LOG", "LEVEL", 0, 0, NULL, "off, error, info or debug")                  \
	X("--log-file", "RSOCK_LOG_FILE", "FILE", 0, 0, NULL,                                      \
	  "where the log goes; else standard error")                                               \
	X("--no-spin", "RSOCK_SPIN_US", NULL, 0, 0, "0", "who waits sleeps at once")               \
	X("--spin-us", "RSOCK_SPIN_US", "N", 0, 1000000, NULL,                                     \
	  "microseconds a waiter looks before it sleeps, at the most")                             \
	X("--ring-kb", "RSOCK_RING_KB", "N", 16, 16384, NULL, "size of a ring")                    \
	X("--earn-calls", "RSOCK_EARN_CALLS", "N", 0, UINT32_MAX, NULL,                            \
	  "calls after which a stream has earned promotion")                                       \
	X("--earn-bytes", "RSOCK_EARN_BYTES", "N", 0, UINT64_MAX, NULL,                            \
	  "bytes after which it has")                                                              \
	X("--stat-file", "RSOCK_STAT_FILE", "FILE", 0, 0, NULL,                                    \
	  "statistics are appended here when a process exits, JSON by lines")                      \
	X("--daemon", "RSOCK_DAEMON", "SOCKET", 0, 0, NULL, "where rsockd serves processes")

/* How many there are: a command's own options come behind these. */
enum {
#define X(option, variable, value, least, most, fixed, help) +1
	KNOB_COUNT = 0 KNOB_ROWS(X)
#undef X
};

/* For a command's option rows. */
#define KNOB_OPTION(option, variable, value, least, most, fixed, help) { option, value, help },

/* Sets what row @knob stands for in this process's environment. Returns 0, or an exit status: told already. */
int knob_set(const struct command *cmd, int knob, const char *value);

/* "ring-kb=64" or "RSOCK_RING_KB=64". The same. */
int knob_set_pair(const struct command *cmd, const char *pair);

/* The variable of each knob, for whoever shows what is set. NULL behind the last. */
const char *knob_variable(size_t i);

#endif /* RSK_TOOLS_KNOBS_H */
