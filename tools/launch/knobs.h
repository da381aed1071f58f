/* SPDX-License-Identifier: BSD-2-Clause */
/* knobs.h - the library's environment variables as options of rsock run and rsock bench. */
#ifndef RSK_TOOLS_KNOBS_H
#define RSK_TOOLS_KNOBS_H

#include <stddef.h>
#include <stdint.h>

struct command;

/*
 * X(option, variable, value's name, least, most, fixed, help): the value is a number within the
 * bounds, or text where both bounds are 0. Where the value's name is NULL, the option takes no
 * value and sets the variable to "fixed". The rows are also the first option rows of rsock run, in
 * this order.
 */
#define KNOB_ROWS(X)                                                                               \
	X("--log", "RSOCK_LOG", "LEVEL", 0, 0, NULL, "off, error, info or debug")                  \
	X("--log-file", "RSOCK_LOG_FILE", "FILE", 0, 0, NULL,                                      \
	  "file for the log; default: standard error")                                             \
	X("--no-spin", "RSOCK_SPIN_US", NULL, 0, 0, "0", "a waiter sleeps at once")                \
	X("--spin-us", "RSOCK_SPIN_US", "N", 0, 1000000, NULL,                                     \
	  "microseconds for which a waiter spins before it sleeps, at most")                       \
	X("--ring-kb", "RSOCK_RING_KB", "N", 16, 16384, NULL, "size of a ring")                    \
	X("--earn-calls", "RSOCK_EARN_CALLS", "N", 0, UINT32_MAX, NULL,                            \
	  "number of calls after which a stream has earned promotion")                             \
	X("--earn-bytes", "RSOCK_EARN_BYTES", "N", 0, UINT64_MAX, NULL,                            \
	  "number of bytes after which a stream has earned promotion")                             \
	X("--stat-file", "RSOCK_STAT_FILE", "FILE", 0, 0, NULL,                                    \
	  "when a process exits its statistics are appended here, one line of JSON")               \
	X("--daemon", "RSOCK_DAEMON", "SOCKET", 0, 0, NULL,                                        \
	  "the socket at which rsockd serves processes")

/* The number of knobs: rsock run's own options are numbered from here. */
enum {
#define X(option, variable, value, least, most, fixed, help) +1
	KNOB_COUNT = 0 KNOB_ROWS(X)
#undef X
};

/* X for the option rows of a command. */
#define KNOB_OPTION(option, variable, value, least, most, fixed, help) { option, value, help },

/*
 * Checks @value and sets the variable of row @knob in this process's environment. Returns 0, or
 * an exit status after a message on standard error.
 */
int knob_set(const struct command *cmd, int knob, const char *value);

/* The same for a pair such as "ring-kb=64" or "RSOCK_RING_KB=64". */
int knob_set_pair(const struct command *cmd, const char *pair);

/* The variable of knob @i, for showing what is set. NULL after the last. */
const char *knob_variable(size_t i);

#endif /* RSK_TOOLS_KNOBS_H */
