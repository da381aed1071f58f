// SPDX-License-Identifier: BSD-2-Clause
/* holders.c - see holders.h. */
#include "holders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#include "numbers.h"
#include "user.h"

#define STATUS 512	  /* the lines PPid and Uid are at the beginning of the file */
#define ANCESTORS_MOST 64 /* of this process */
#define NAME_MOST 32

/* Of one look: on its stack. */
struct look {
	pid_t self;
	uid_t uid;
	bool is_ours; /* this process's user made the socket */
	int proc;     /* /proc */
	int process;  /* /proc/PID/fd, of the process that is looked at */
	pid_t ancestor[ANCESTORS_MOST];
	uint32_t ancestors;
	char want[NAME_MOST]; /* what a link to the socket reads */
	size_t want_len;
	uint64_t until_ns;
	struct rsk_holder *who;
};

static size_t put(char *at, const char *text)
{
	size_t n = strlen(text);

	memcpy(at, text, n + 1);
	return n;
}

static size_t put_number(char *at, uint32_t value)
{
	char digits[10];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < n; i++)
		at[i] = digits[n - 1 - i];
	at[n] = 0;
	return n;
}

/* ---- what /proc/PID/status says ---- */

struct status {
	pid_t parent;
	uid_t uid[4]; /* real, effective, saved, of the file system */
};

/* The number after @name in @text and after @skip more numbers; -1: it is not there. */
static int64_t field(const char *text, const char *name, int skip)
{
	const char *at = strstr(text, name);
	int64_t n = 0;

	if (!at)
		return -1;
	at += strlen(name);
	for (;;) {
		at += strspn(at, "\t ");
		if (*at < '0' || *at > '9')
			return -1;
		for (n = 0; *at >= '0' && *at <= '9' && n <= UINT32_MAX; at++)
			n = n * 10 + (*at - '0');
		if (!skip--)
			return n;
	}
}

/* 0; -ENOENT, -ESRCH: there is no such process to be seen; -errno. */
static int status_of(int proc, pid_t pid, struct status *out)
{
	char path[NAME_MOST], text[STATUS];
	int64_t parent, uid;
	ssize_t n;
	int fd;

	put(path + put_number(path, (uint32_t)pid), "/status");
	fd = rsk_sys_openat(proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	n = rsk_sys_read(fd, text, sizeof(text) - 1);
	rsk_sys_close(fd);
	if (n <= 0)
		return n < 0 ? (int)n : -ESRCH;
	text[n] = 0;
	parent = field(text, "\nPPid:", 0);
	if (parent < 0 || parent > INT32_MAX)
		return -EACCES;
	out->parent = (pid_t)parent;
	for (int i = 0; i < 4; i++) {
		uid = field(text, "\nUid:", i);
		if (uid < 0 || uid > UINT32_MAX)
			return -EACCES;
		out->uid[i] = (uid_t)uid;
	}
	return 0;
}

/* ---- whose descriptors matter ---- */

/*
 * The chain of parents, up to process 1. Where it ends elsewhere, the parent is outside of this pid
 * namespace, and cannot be looked at.
 */
static int list_ancestors(struct look *l)
{
	struct status is;
	pid_t pid = l->self;
	int rc;

	for (l->ancestors = 0; pid != 1 || !l->ancestors; pid = is.parent) {
		rc = status_of(l->proc, pid, &is);
		if (rc == -ENOENT || rc == -ESRCH)
			return l->ancestors ? -EAGAIN : -EACCES;
		if (rc < 0)
			return rc;
		if (!is.parent || l->ancestors == ANCESTORS_MOST)
			return -EACCES;
		l->ancestor[l->ancestors++] = is.parent;
	}
	/* Where other users' processes are hidden (hidepid), this one is not seen either. */
	return status_of(l->proc, 1, &is) < 0 ? -EACCES : 0;
}

/*
 * The descriptors of process @pid cannot be read. It may have the socket if it is an ancestor, or
 * of the user that made the socket. Others have not got it by fork() from that user's process,
 * unless they are a program that changes its user. If another user made it, everybody may have it.
 *
 * Process 1 has inherited nothing. If it has accepted the connection itself, a process between it
 * and this one has the socket, too, unless this one is its own child.
 */
static int unreadable(struct look *l, pid_t pid)
{
	struct status is;
	int rc;

	if (!l->is_ours)
		return -EACCES;
	for (uint32_t i = 0; i < l->ancestors; i++)
		if (l->ancestor[i] == pid && pid != 1)
			return -EACCES;
	if (pid == 1 && l->ancestor[0] != 1)
		return 0;
	rc = status_of(l->proc, pid, &is);
	if (rc < 0)
		return rc == -ENOENT || rc == -ESRCH ? 0 : rc;
	for (int i = 0; i < 4; i++)
		if (is.uid[i] == l->uid)
			return -EACCES;
	return 0;
}

static int check_fd(void *arg, int fd, const char *name)
{
	struct look *l = arg;
	char have[NAME_MOST];
	ssize_t n = rsk_sys_readlinkat(l->process, name, have, sizeof(have));

	if (n != (ssize_t)l->want_len || memcmp(have, l->want, l->want_len) != 0)
		return n == -EACCES || n == -EPERM ? (int)n : 0;
	l->who->fd = fd;
	return 1;
}

static int check_process(void *arg, int pid, const char *name)
{
	struct look *l = arg;
	char path[NAME_MOST];
	int rc;

	if (pid == l->self)
		return 0;
	if (rsk_monotonic_ns() > l->until_ns)
		return -ETIME;
	put(path + put(path, name), "/fd");
	l->process = rsk_sys_openat(l->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	rc = l->process;
	if (rc >= 0) {
		rc = rsk_numbers_each(l->process, check_fd, l);
		rsk_sys_close(l->process);
	}
	if (rc == -EACCES || rc == -EPERM)
		return unreadable(l, pid);
	if (rc == 1)
		l->who->pid = pid;
	return rc == -ENOENT || rc == -ESRCH ? 0 : rc;
}

/* True: /proc shows this process under the number that it has for itself. */
static bool is_our_proc(const struct look *l)
{
	char name[NAME_MOST];
	ssize_t n = rsk_sys_readlinkat(l->proc, "self", name, sizeof(name) - 1);

	if (n <= 0)
		return false;
	name[n] = 0;
	return rsk_number_of(name) == l->self;
}

int rsk_holders_look(uint32_t inode, uid_t uid, uint64_t until_ns, struct rsk_holder *who)
{
	struct look l = { .self = rsk_sys_getpid(), .uid = uid, .until_ns = until_ns, .who = who };
	int rc;

	l.is_ours = rsk_user_same(rsk_sys_geteuid(), uid);
	l.want_len = put(l.want, "socket:[");
	l.want_len += put_number(l.want + l.want_len, inode);
	l.want_len += put(l.want + l.want_len, "]");
	l.proc = rsk_sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (l.proc < 0)
		return l.proc == -EMFILE || l.proc == -ENFILE ? l.proc : -EACCES;
	rc = is_our_proc(&l) ? list_ancestors(&l) : -EACCES;
	if (rc == 0)
		rc = rsk_numbers_each(l.proc, check_process, &l);
	rsk_sys_close(l.proc);
	return rc;
}
