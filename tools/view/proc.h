/* SPDX-License-Identifier: BSD-2-Clause */
/* proc.h - one process as /proc shows it, and what that means for its streams. */
#ifndef RSK_TOOLS_PROC_H
#define RSK_TOOLS_PROC_H

#include "json.h"
#include "program.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What cannot be read is not known: nothing is guessed. */
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
	char comm[17]; /* clean */
	char state;    /* 'Z': ended */
	uid_t euid;
	int seccomp;		/* 0 none, 1 strict, 2 a filter; -1 not known */
	uint64_t address_bytes; /* limit on its address space; UINT64_MAX: none */
	uint64_t files_max;	/* limit on its descriptors; UINT64_MAX: none */
	uint64_t files;		/* descriptors that it has */
	bool files_seen;
	enum answer kernel;   /* a thread of the kernel */
	enum answer loaded;   /* librsock.so is mapped */
	enum answer asked;    /* LD_PRELOAD named it at the start */
	enum answer disabled; /* RSOCK_DISABLE was set at the start */
	enum answer secure;   /* AT_SECURE */
	enum answer io_uring; /* has a ring */
	enum program_kind kind;
	bool go; /* a program in Go */
};

/* Fills in what can be read; a process that is not there has there = false. */
void proc_read(pid_t pid, struct proc *out);

/* The number of its network namespace, 0: cannot be read. */
uint64_t proc_netns(pid_t pid);

/* The first thing that stands in its way. Pure. */
enum finding proc_finding(const struct proc *p);

/* Notes beside the finding: filters, rings, limits that are nearly reached. Returns how many. */
#define PROC_NOTES 4
size_t proc_notes(const struct proc *p, char text[static PROC_NOTES][160]);

/* What an environment or an auxiliary vector says; pure, for tests. @env: zero-terminated strings one by one. */
const char *environ_value(const char *env, size_t len, const char *name);
enum answer auxv_secure(const void *auxv, size_t len);

json_t *proc_json(const struct proc *p);

#endif /* RSK_TOOLS_PROC_H */
