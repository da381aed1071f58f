// SPDX-License-Identifier: BSD-2-Clause
/*
 * scan.c - finds the statistics segments of running processes; see scan.h.
 *
 * A segment is a memfd that some process holds open. Any process may name a memfd "rsock-stat" and
 * fill it with anything, so the tool takes a copy and checks it. Processes start and end during the
 * scan: what cannot be opened is skipped.
 */
#include "scan.h"

#include "isolation.h"
#include "rsock.h"
#include "stats_json.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rsock/clock.h>

static bool copy_is_valid(const struct rsk_stats_segment *seg)
{
	const struct rsk_stats_header *h = &seg->header;

	return h->magic == RSK_STATS_MAGIC && h->version == RSK_STATS_VERSION &&
	       h->bytes == sizeof(*seg) && h->processes == RSK_STATS_PROCESSES &&
	       h->process_bytes == sizeof(seg->process[0]) && h->streams == RSK_STATS_STREAMS &&
	       h->stream_bytes == sizeof(seg->stream[0]);
}

/*
 * The first fields have the same place in every version. 0: this one, or no segment, or one that is
 * still being created.
 */
static uint32_t other_version_of(const struct rsk_stats_header *h)
{
	return h->magic == RSK_STATS_MAGIC && h->version != RSK_STATS_VERSION ? h->version : 0;
}

/* Reads exactly @bytes at offset @from. False: there are fewer. */
static bool read_bytes(int fd, void *to, size_t bytes, size_t from)
{
	size_t have = 0;

	while (have < bytes) {
		ssize_t n = pread(fd, (char *)to + have, bytes - have, (off_t)(from + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

/*
 * Copies the segment up to the last record that was ever used; most processes use a few of its 4
 * MiB. NULL with errno: EAGAIN, the segment is still being created; EPROTO, not of this version.
 */
static struct rsk_stats_segment *copy_take(int fd)
{
	struct rsk_stats_segment *copy = calloc(1, sizeof(*copy));
	size_t head = offsetof(struct rsk_stats_segment, stream), n;
	int err;

	if (!copy)
		return NULL;
	if (read_bytes(fd, copy, head, 0) && copy_is_valid(copy)) {
		n = copy->header.high_water;
		if (n <= RSK_STATS_STREAMS &&
		    read_bytes(fd, copy->stream, n * sizeof(copy->stream[0]), head))
			return copy;
	}
	err = copy->header.magic ? EPROTO : EAGAIN; /* the magic is written last */
	free(copy);
	errno = err;
	return NULL;
}

uint32_t segment_other_version(int dir, const char *name)
{
	struct rsk_stats_header h;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint32_t version;

	if (fd < 0)
		return 0;
	version = read_bytes(fd, &h, offsetof(struct rsk_stats_header, processes), 0) ?
			  other_version_of(&h) :
			  0;
	close(fd);
	return version;
}

static struct {
	struct other_version *at;
	size_t count;
} others;

const struct other_version *segments_of_other_versions(size_t *count)
{
	*count = others.count;
	return others.at;
}

static void others_forget(void)
{
	free(others.at);
	others.at = NULL;
	others.count = 0;
}

static int other_add(pid_t pid, uint32_t version)
{
	struct other_version *more;

	if (others.count && others.at[others.count - 1].pid == pid)
		return 0;
	more = realloc(others.at, (others.count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	more[others.count++] = (struct other_version){ pid, version };
	others.at = more;
	return 0;
}

static int holder_add(struct segment *seg, pid_t pid)
{
	pid_t *more;

	if (seg->holder_count && seg->holders[seg->holder_count - 1] == pid)
		return 0;
	more = realloc(seg->holders, (seg->holder_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	more[seg->holder_count++] = pid;
	seg->holders = more;
	return 0;
}

/* Adds the segment that @fd refers to, and process @pid as its holder. 0 or -ENOMEM. */
static int segment_meet(struct segment **list, int fd, pid_t pid)
{
	struct segment **at, *seg;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	for (at = list; *at; at = &(*at)->next) {
		if ((*at)->dev == st.st_dev && (*at)->ino == st.st_ino)
			return holder_add(*at, pid);
	}
	seg = calloc(1, sizeof(*seg));
	if (!seg)
		return -ENOMEM;
	seg->dev = st.st_dev;
	seg->ino = st.st_ino;
	seg->taken_ns = rsk_monotonic_ns();
	seg->copy = copy_take(fd);
	if (!seg->copy) {
		int err = errno;

		free(seg);
		if (err == EPROTO)
			fprintf(stderr, "rsock: process %d: its statistics are damaged\n",
				(int)pid);
		return err == ENOMEM ? -ENOMEM : 0;
	}
	*at = seg;
	return holder_add(seg, pid);
}

static int process_scan(struct segment **list, int proc, const char *pid_name)
{
	char path[NAME_MAX + 8], target[sizeof(SEGMENT_LINK) + 1];
	uint32_t version;
	struct dirent *entry;
	DIR *dir;
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/fd", pid_name);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir) {
		err = errno == ENOMEM ? -ENOMEM : 0; /* before close(), which may change errno */
		close(fd);
		return err;
	}
	while (!err && (entry = readdir(dir))) {
		ssize_t n = readlinkat(fd, entry->d_name, target, sizeof(target));
		int seg_fd;

		if (n != (ssize_t)strlen(SEGMENT_LINK) ||
		    memcmp(target, SEGMENT_LINK, (size_t)n) != 0)
			continue;
		version = segment_other_version(fd, entry->d_name);
		if (version) {
			err = other_add((pid_t)strtol(pid_name, NULL, 10), version);
			continue;
		}
		/* It may be another file by now; opening it must not block. */
		seg_fd = openat(fd, entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (seg_fd < 0)
			continue;
		err = segment_meet(list, seg_fd, (pid_t)strtol(pid_name, NULL, 10));
		close(seg_fd);
	}
	closedir(dir);
	return err;
}

static int pid_compare(const struct dirent **a, const struct dirent **b)
{
	long x = strtol((*a)->d_name, NULL, 10), y = strtol((*b)->d_name, NULL, 10);

	return (x > y) - (x < y);
}

static int is_pid(const struct dirent *entry)
{
	return isdigit((unsigned char)entry->d_name[0]);
}

int segments_scan(enum scan_whose whose, struct segment **out)
{
	struct dirent **names = NULL;
	int n, proc, err = 0;

	*out = NULL;
	others_forget();
	proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -errno;
	n = scandir("/proc", &names, is_pid, pid_compare);
	if (n < 0)
		err = -errno;
	for (int i = 0; i < n; i++) {
		struct stat st;

		if (!err && (whose == SCAN_ALL || (fstatat(proc, names[i]->d_name, &st, 0) == 0 &&
						   st.st_uid == geteuid())))
			err = process_scan(out, proc, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	close(proc);
	if (err) {
		segments_free(*out);
		*out = NULL;
	} else {
		segments_number(*out);
		segments_name(*out);
		segments_isolation(*out);
	}
	return err;
}

void segments_free(struct segment *list)
{
	while (list) {
		struct segment *next = list->next;

		free(list->copy);
		free(list->holders);
		free(list);
		list = next;
	}
}

bool segment_held_by(const struct segment *seg, uint32_t pid)
{
	for (size_t i = 0; i < seg->holder_count; i++) {
		if (pid == (uint32_t)seg->holders[i])
			return true;
	}
	return false;
}

void segment_comm(const struct segment *seg, uint32_t pid, char comm[static 16])
{
	char path[32];
	ssize_t n;
	int fd;

	for (unsigned int i = 0; i < RSK_STATS_PROCESSES; i++) {
		if (seg->copy->process[i].pid == pid) {
			memcpy(comm, seg->copy->process[i].comm, 16);
			return;
		}
	}
	/* The process has no process record: all were in use. */
	memset(comm, 0, 16);
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, comm, 15);
	close(fd);
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = 0;
}
