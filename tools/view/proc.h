/* SPDX-License-Identifier: BSD-2-Clause */
/* proc.h - reads one process from /proc, and derives what keeps its streams on TCP. */
#ifndef RSK_TOOLS_PROC_H
#define RSK_TOOLS_PROC_H

#include "json.h"
#include "program.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What cannot be read is ANSWER_UNKNOWN; nothing is guessed. */
enum answer {
	ANSWER_UNKNOWN,
	ANSWER_NO,
	ANSWER_YES,
};

enum finding {
#define FINDING(code, token, sentence, cure) FINDING_##code,
#include "finding.def"
#undef FINDING
	FINDING_COUNT
};

struct finding_row {
	const char *token;
	const char *sentence;
	const char *cure;
};

const struct finding_row *finding_row(enum finding f);

struct proc {
	pid_t pid;
	bool there;
	char comm[17]; /* from text_clean() */
	char state;    /* as in status; 'Z': ended */
	uid_t euid;
	int seccomp;		/* 0 none, 1 strict, 2 a filter; -1 unknown */
	uint64_t address_bytes; /* limit of its address space; UINT64_MAX: none */
	uint64_t files_max;	/* limit of its descriptors; UINT64_MAX: none */
	uint64_t files;		/* open descriptors */
	bool files_seen;	/* files and io_uring could be read */
	enum answer kernel;	/* it is a kernel thread */
	enum answer loaded;	/* librsock.so is mapped */
	enum answer asked;	/* LD_PRELOAD named the library at the start */
	enum answer disabled;	/* RSOCK_DISABLE was set at the start */
	enum answer secure;	/* AT_SECURE */
	enum answer io_uring;	/* it has an io_uring */
	/* of the statistics that its library writes, if this rsock cannot read them; 0 */
	uint32_t other_version;
	enum program_kind kind;
	bool go; /* a Go program */
};

/* Reads what can be read. there is false for a process that does not exist. */
void proc_read(pid_t pid, struct proc *out);

/* The inode of its network namespace; 0: it cannot be read. */
uint64_t proc_netns(pid_t pid);

/* The first obstacle for its streams; FINDING_READY: none. Pure. */
enum finding proc_finding(const struct proc *p);

/*
 * Notes besides the finding: seccomp, io_uring, limits that are nearly reached. Returns their
 * number.
 */
#define PROC_NOTES 4
size_t proc_notes(const struct proc *p, char text[static PROC_NOTES][160]);

/*
 * Parsers of /proc/PID/environ and auxv; pure, exported for tests. @env: zero-terminated strings,
 * one after the other.
 */
const char *environ_value(const char *env, size_t len, const char *name);
enum answer auxv_secure(const void *auxv, size_t len);

json_t *proc_json(const struct proc *p);

#endif /* RSK_TOOLS_PROC_H */
