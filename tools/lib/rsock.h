/* SPDX-License-Identifier: BSD-2-Clause */
/* rsock.h - what the commands of the tool share: their rows, their arguments, how they end. */
#ifndef RSK_TOOLS_RSOCK_H
#define RSK_TOOLS_RSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* How the tool ends. Scripts rely on the numbers: none is ever given another meaning. */
#define EXIT_ROWS(X)                                                                               \
	X(EXIT_OK, 0, "done; where a question was asked: yes")                                     \
	X(EXIT_NO, 1, "no: not accelerated, would not be, or no gain")                             \
	X(EXIT_USAGE, 2, "the command line is wrong")                                              \
	X(EXIT_UNKNOWN, 3, "cannot tell: not there, not to be reached, or not to be read")         \
	X(EXIT_FAILED, 4, "the tool failed: no memory, no library, output that was not taken")     \
	X(EXIT_CANNOT_RUN, 126, "run, bench: the program cannot be executed")                      \
	X(EXIT_NOT_FOUND, 127, "run, bench: there is no such program")

enum {
#define X(name, code, meaning) name = (code),
	EXIT_ROWS(X)
#undef X
};

struct command;

/* An option of a subcommand; value: the name of its argument in the help, NULL: none. */
struct option_row {
	const char *name;
	const char *value;
	const char *help;
};

/* A subcommand. run gets its name and the arguments behind it, as main() does. */
struct command {
	const char *name;
	const char *help;
	const char
		*words; /* what it takes besides options, as the usage line has it; NULL: nothing */
	const char *details;		  /* more about it, lines; or NULL */
	const struct option_row *options; /* ends with a NULL name, or NULL */
	bool program;			  /* its first word begins another program's command line */
	int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command cmd_run;
extern const struct command cmd_stat;
extern const struct command cmd_top;
extern const struct command cmd_why;
extern const struct command cmd_check;
extern const struct command cmd_bench;
extern const struct command cmd_reasons;
extern const struct command cmd_map;
extern const struct command cmd_policy;
extern const struct command cmd_drain;
extern const struct command cmd_demote;
extern const struct command cmd_promote;

/* "rsock: <message>", then how the command is called; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct command *cmd, const char *fmt,
						      ...);
/* "rsock: <message>" on standard error; returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int failure(const char *fmt, ...);
void command_help(const struct command *cmd);

/* --- args.c ------------------------------------------------------------------------------ */

/* What args_next() returns besides the number of an option's row. */
enum {
	ARG_WORD = -1, /* a word: value */
	ARG_END = -2,
	ARG_STOP = -3, /* wrong, or help was asked for; told already: end with status */
};

/* A command line as it is taken apart, one at a time (getopt_long(3) has but one state). Borrows argv. */
struct args {
	const struct command *cmd;
	int argc;
	char **argv;
	int at;		   /* the next one; 0: not begun */
	bool words_only;   /* there are no more options */
	const char *value; /* borrowed: the option's argument, the word */
	int status;	   /* at ARG_STOP */
};

static inline struct args args_begin(const struct command *cmd, int argc, char **argv)
{
	return (struct args){ .cmd = cmd, .argc = argc, .argv = argv };
}

/*
 * The next option or word. Options are those of getopt_long(3), their names whole: "--name value", "--name=value",
 * "-n value", "-nvalue"; "--" ends them,
 * and so does the first word of a command that runs a program: it and all behind it are left at argv + at.
 */
int args_next(struct args *a);

/* Decimal digits only, from min to max. 0 or -EINVAL. */
int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Seconds with a fraction ("0.5"), more than none and at the most a day, as nanoseconds. 0 or -EINVAL. */
int parse_seconds(const char *text, uint64_t *out_ns);

/* --- text.c ------------------------------------------------------------------------------ */

/*
 * A process chooses its name, a user the names of files: nothing in them may reach the terminal as a control code, and
 * nothing may break JSON. Bytes that are not printable ASCII become '?'. Returns out.
 */
const char *text_clean(char *out, size_t cap, const char *text, size_t max);

/* 1234 -> "1.2k": columns that compare at a glance. */
const char *size_text(char buf[static 16], uint64_t bytes);

/* A user's name, or the number where there is none. */
const char *user_text(char buf[static 33], uid_t uid);

/* Monotonic time in nanoseconds. */
uint64_t now_ns(void);

#endif /* RSK_TOOLS_RSOCK_H */
