/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsock.h - what all commands of the tool share: command and option rows, arguments, exit statuses,
 * text.
 */
#ifndef RSK_TOOLS_RSOCK_H
#define RSK_TOOLS_RSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* The exit statuses. Scripts rely on the numbers: a number never gets another meaning. */
#define EXIT_ROWS(X)                                                                               \
	X(EXIT_OK, 0, "done; where a question was asked: yes")                                     \
	X(EXIT_NO, 1, "no: not accelerated, would not be, or no gain")                             \
	X(EXIT_USAGE, 2, "the command line is wrong")                                              \
	X(EXIT_UNKNOWN, 3, "unknown: it does not exist, or cannot be reached or read")             \
	X(EXIT_FAILED, 4, "the tool failed: no memory, no library, or the output was lost")        \
	X(EXIT_CANNOT_RUN, 126, "run, bench: the program cannot be executed")                      \
	X(EXIT_NOT_FOUND, 127, "run, bench: there is no such program")

enum {
#define X(name, code, meaning) name = (code),
	EXIT_ROWS(X)
#undef X
};

struct command;

/* An option of a subcommand. value: the name of its argument in the help; NULL: it takes none. */
struct option_row {
	const char *name;
	const char *value;
	const char *help;
};

/* A subcommand. run() gets its name and the arguments after it, as main() does. */
struct command {
	const char *name;
	const char *help;
	/* The arguments besides options, as the usage line shows them; NULL: none. */
	const char *words;
	const char *details;		  /* more lines for the help, or NULL */
	const struct option_row *options; /* ends with a NULL name; or NULL */
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

/* Prints "rsock: <message>" and the usage line on standard error; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct command *cmd, const char *fmt,
						      ...);
/* Prints "rsock: <message>" on standard error; returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int failure(const char *fmt, ...);
void command_help(const struct command *cmd);

/* --- args.c ------------------------------------------------------------------------------ */

/* What args_next() returns other than the number of an option row. */
enum {
	ARG_WORD = -1, /* a word, in value */
	ARG_END = -2,
	ARG_STOP = -3, /* an error or --help; the message is printed: exit with status */
};

/*
 * The state of parsing one command line. Only one can be parsed at a time, because getopt_long(3)
 * has global state. Borrows argv.
 */
struct args {
	const struct command *cmd;
	int argc;
	char **argv;
	int at;		   /* index of the next argument; 0: not begun */
	bool words_only;   /* there are no more options */
	const char *value; /* borrowed: the option's argument, or the word */
	int status;	   /* valid after ARG_STOP */
};

static inline struct args args_begin(const struct command *cmd, int argc, char **argv)
{
	return (struct args){ .cmd = cmd, .argc = argc, .argv = argv };
}

/*
 * Returns the next option's row or an ARG_ code. Options have getopt_long(3)'s forms, without
 * abbreviation: "--name value", "--name=value", "-n value", "-nvalue". "--" ends them. So does the
 * first word of a command that runs a program: that word and everything after it stay at argv + at.
 */
int args_next(struct args *a);

/* Parses decimal digits; the value is from min to max. 0 or -EINVAL. */
int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Parses seconds with a fraction ("0.5"), from 1 ms to a day, into nanoseconds. 0 or -EINVAL. */
int parse_seconds(const char *text, uint64_t *out_ns);

/* --- text.c ------------------------------------------------------------------------------ */

/*
 * Copies at most @max bytes of @text; bytes that are not printable ASCII become '?'. For names that
 * other processes and users choose: they must not send control codes to the terminal or break JSON.
 * Returns out.
 */
const char *text_clean(char *out, size_t cap, const char *text, size_t max);

/* 1234 -> "1.2k", for table columns. */
const char *size_text(char buf[static 16], uint64_t bytes);

/* The user's name, or the number of a user without a name. */
const char *user_text(char buf[static 33], uid_t uid);

#endif /* RSK_TOOLS_RSOCK_H */
