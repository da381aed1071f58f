/* SPDX-License-Identifier: BSD-2-Clause */
/* rsock.h - what the files of the tool share. */
#ifndef RSK_TOOLS_RSOCK_H
#define RSK_TOOLS_RSOCK_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

struct command;

/* An option of a subcommand; value: the name of its argument in the help, NULL: none. */
struct option_row {
	const char *name;
	const char *value;
	const char *help;
};

/* A subcommand.  run gets the arguments behind its name. */
struct command {
	const char *name;
	const char *help;
	const struct option_row *options; /* ends with a NULL name, or NULL */
	int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command cmd_stat;
extern const struct command cmd_reasons;

/* "rsock: <message>", then how the command is called; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct command *cmd, const char *fmt,
						      ...);
void command_help(const struct command *cmd);

/* --- scan.c ------------------------------------------------------------------------------ */

/*
 * One statistics segment: the tool's own copy, checked, and the live processes that
 * hold it.  Owned by the list it is in.
 */
struct segment {
	struct segment *next;
	dev_t dev;
	ino_t ino;
	struct rsk_stats_segment *copy;
	pid_t *holders;
	size_t holder_count;
};

/*
 * Finds the segments of all processes of this effective user.  *out is a list in the
 * order of the lowest pid, to be freed with segments_free().
 * Returns 0 or -errno (no /proc, no memory).
 */
int segments_scan(struct segment **out);
void segments_free(struct segment *list);
bool segment_held_by(const struct segment *seg, uint32_t pid);

/* The program's name, from the process's record or /proc; "" if it is gone. */
void segment_comm(const struct segment *seg, uint32_t pid, char comm[static 16]);

/* --- names.c ----------------------------------------------------------------------------- */

/*
 * Into the copies, the addresses of open streams that have none yet: a process looks for those after some calls only.
 * What cannot be found out stays as it is.
 */
void segments_name(struct segment *list);

#endif /* RSK_TOOLS_RSOCK_H */
