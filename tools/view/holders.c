// SPDX-License-Identifier: BSD-2-Clause
/* holders.c - see holders.h. */
#include "holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The inode of a socket from its link in /proc/PID/fd, "socket:[123]"; 0: not a socket. */
static uint64_t inode_at(int dir, const char *name)
{
	char target[40], *end;
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	uint64_t inode;

	if (n < 0)
		return 0;
	target[n] = 0;
	if (strncmp(target, "socket:[", 8) != 0)
		return 0;
	inode = strtoull(target + 8, &end, 10);
	return *end == ']' ? inode : 0;
}

uint64_t socket_inode(pid_t pid, int fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return inode_at(AT_FDCWD, path);
}

static int add(struct holders *h, size_t *room, struct holder one)
{
	struct holder *more;

	if (h->count == *room) {
		*room = *room ? 2 * *room : 256;
		more = realloc(h->by_inode, *room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		h->by_inode = more;
	}
	h->by_inode[h->count++] = one;
	return 0;
}

/*
 * Kernel threads hold no sockets of programs, so an unreadable one is not counted. Field 9 of its
 * stat (flags, proc(5)) is readable by every user.
 */
static bool is_kernel_thread(const char *pid)
{
	const unsigned long kthread = 0x00200000; /* PF_KTHREAD */
	char path[32 + 256], text[512], *at;
	unsigned long flags = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	/*
	 * The name may contain anything; after it: state, ppid, pgrp, session, tty, tpgid, flags.
	 */
	for (int field = 2; at && field < 9; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (at)
		flags = strtoul(at, NULL, 10);
	return flags & kthread;
}

static int process_scan(struct holders *h, size_t *room, const char *pid)
{
	char path[32 + 256];
	struct dirent *entry;
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	if (!dir) { /* a process that has ended holds nothing */
		err = errno;
		h->unreadable += (err == EACCES || err == EPERM) && !is_kernel_thread(pid);
		return err == ENOMEM ? -ENOMEM : 0;
	}
	while (!err && (entry = readdir(dir))) {
		uint64_t inode;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		inode = inode_at(dirfd(dir), entry->d_name);
		if (inode)
			err = add(h, room,
				  (struct holder){ inode, (pid_t)strtol(pid, NULL, 10),
						   (int)strtol(entry->d_name, NULL, 10) });
	}
	closedir(dir);
	return err;
}

static int holder_compare(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : x->fd - y->fd;
}

int holders_scan(struct holders *out)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t room = 0;
	int err = 0;

	memset(out, 0, sizeof(*out));
	if (!proc)
		return -errno;
	while (!err && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = process_scan(out, &room, entry->d_name);
	closedir(proc);
	if (err)
		holders_free(out);
	else if (out->count)
		qsort(out->by_inode, out->count, sizeof(*out->by_inode), holder_compare);
	return err;
}

void holders_free(struct holders *h)
{
	free(h->by_inode);
	memset(h, 0, sizeof(*h));
}

const struct holder *holders_of(const struct holders *h, uint64_t inode, size_t *n)
{
	size_t low = 0, high = h->count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->by_inode[middle].inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < h->count && h->by_inode[end].inode == inode; end++)
		;
	*n = end - low;
	return inode && *n ? &h->by_inode[low] : NULL;
}
