// SPDX-License-Identifier: BSD-2-Clause
/* request.c - see request.h. */
#include "request.h"

#include "rsock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct request_row rows[] = {
#define X(name, token, status, sentence) [REQUEST_##name] = { token, status, sentence },
	REQUEST_ROWS(X)
#undef X
};

const struct request_row *request_row(enum request_state state)
{
	return &rows[state];
}

/* ---- the segment ---- */

/*
 * @fd is open for reading. Whether it is the file that was copied, and is sealed against shrinking.
 */
static bool is_segment(int fd, const struct segment *seg)
{
	struct stat st;
	int seals;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_dev != seg->dev ||
	    st.st_ino != seg->ino || st.st_size != (off_t)sizeof(struct rsk_stats_segment))
		return false;
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK);
}

static int map_for_writing(int fd, struct rsk_stats_segment **live)
{
	char path[32];
	void *p;
	int rw, err = 0;

	/* Reopens the verified descriptor, so that no other file is opened for writing. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw = open(path, O_RDWR | O_CLOEXEC);
	if (rw < 0)
		return errno == EACCES || errno == EPERM ? -EACCES : -errno;
	p = mmap(NULL, sizeof(**live), PROT_READ | PROT_WRITE, MAP_SHARED, rw, 0);
	if (p == MAP_FAILED)
		err = errno == EPERM ? -EACCES : -errno;
	else
		*live = p;
	close(rw);
	return err;
}

/* Looks for the segment in the descriptors of one process. -ENOENT: it is not there. */
static int open_at(pid_t pid, const struct segment *seg, struct rsk_stats_segment **live)
{
	char path[32];
	struct dirent *entry;
	int err = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == EACCES ? -EACCES : -ENOENT;
	while (err == -ENOENT && (entry = readdir(dir))) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		int fd;

		target[n > 0 ? n : 0] = 0;
		if (strncmp(target, "/memfd:" RSK_STATS_NAME, strlen("/memfd:" RSK_STATS_NAME)))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (is_segment(fd, seg))
			err = map_for_writing(fd, live);
		close(fd);
	}
	closedir(dir);
	return err;
}

int segment_open(const struct segment *seg, struct rsk_stats_segment **live)
{
	int err = -ENOENT;

	for (size_t i = 0; i < seg->holder_count && err == -ENOENT; i++)
		err = open_at(seg->holders[i], seg, live);
	return err;
}

/* ---- a record ---- */

static bool same_stream(const struct rsk_stats_stream *live, const struct rsk_stats_stream *seen)
{
	return __atomic_load_n(&live->state, __ATOMIC_RELAXED) == RSK_STATS_OPEN &&
	       __atomic_load_n(&live->opened_ns, __ATOMIC_RELAXED) == seen->opened_ns &&
	       __atomic_load_n(&live->fd_plus_1, __ATOMIC_RELAXED) == seen->fd_plus_1;
}

/*
 * The request word is read (ACQUIRE) before the rest of the record is compared, and is exchanged
 * only if it is still the same. If another stream gets the record in between, the generation in the
 * word differs.
 */
enum request_state request_put(struct rsk_stats_stream *live, const struct rsk_stats_stream *seen,
			       enum rsk_stats_request kind, uint64_t *word)
{
	uint64_t is = __atomic_load_n(&live->request, __ATOMIC_ACQUIRE);

	do {
		if (rsk_stats_request_generation(is) !=
			    rsk_stats_request_generation(seen->request) ||
		    !same_stream(live, seen))
			return REQUEST_GONE;
		if (!rsk_stats_request_generation(is))
			return REQUEST_TOO_OLD;
		if (__atomic_load_n(&live->given_up, __ATOMIC_RELAXED))
			return kind == RSK_REQUEST_DEMOTE ? REQUEST_DONE : REQUEST_GIVEN_UP;
		*word = rsk_stats_request_next(is, kind);
	} while (!__atomic_compare_exchange_n(&live->request, &is, *word, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return REQUEST_WAITING;
}

static bool fulfilled(const struct rsk_stats_stream *live, enum rsk_stats_request kind)
{
	bool tx = __atomic_load_n(&live->tx, __ATOMIC_RELAXED) == RSK_PATH_RING;
	bool rx = __atomic_load_n(&live->rx, __ATOMIC_RELAXED) == RSK_PATH_RING;

	if (kind == RSK_REQUEST_DEMOTE)
		return !tx && !rx;
	return (tx || rx) && __atomic_load_n(&live->reason, __ATOMIC_RELAXED) == RSK_REASON_DIRECT;
}

enum request_state request_check(const struct rsk_stats_stream *live, uint64_t word)
{
	uint64_t applied = __atomic_load_n(&live->applied, __ATOMIC_ACQUIRE);
	enum rsk_stats_request kind = rsk_stats_request_kind(word);
	bool done = fulfilled(live, kind);
	uint64_t is = __atomic_load_n(&live->request, __ATOMIC_ACQUIRE);

	if (rsk_stats_request_generation(is) != rsk_stats_request_generation(word) ||
	    __atomic_load_n(&live->state, __ATOMIC_RELAXED) != RSK_STATS_OPEN)
		return REQUEST_GONE;
	if (is != word)
		return REQUEST_OVERRULED;
	if (__atomic_load_n(&live->given_up, __ATOMIC_RELAXED))
		return kind == RSK_REQUEST_DEMOTE ? REQUEST_DONE : REQUEST_GIVEN_UP;
	if (applied != word)
		return REQUEST_WAITING;
	return done ? REQUEST_DONE : REQUEST_ASKED;
}
