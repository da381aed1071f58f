/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scan.h - copies of the statistics segments of running processes, for all commands that show
 * streams.
 */
#ifndef RSK_TOOLS_SCAN_H
#define RSK_TOOLS_SCAN_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <sys/types.h>

/* What /proc/PID/fd shows of a statistics segment. */
#define SEGMENT_LINK "/memfd:" RSK_STATS_NAME " (deleted)"

/*
 * One statistics segment: the tool's own checked copy, and the live processes that hold it. Owned
 * by the list that it is in.
 */
struct segment {
	struct segment *next;
	dev_t dev;
	ino_t ino;
	uint64_t taken_ns;		/* time of the copy (monotonic) */
	struct rsk_stats_segment *copy; /* records from its high_water on were never used */
	pid_t *holders;
	size_t holder_count;
};

/* Whose processes are scanned. */
enum scan_whose {
	SCAN_MINE, /* of this effective user */
	SCAN_ALL,  /* all that can be opened; for root, those of all users */
};

/*
 * Finds the segments of processes. *out is a list in the order of the lowest pid, to be freed with
 * segments_free(). Returns 0 or -errno (no /proc, no memory).
 */
int segments_scan(enum scan_whose whose, struct segment **out);
void segments_free(struct segment *list);

/*
 * The version of the statistics segment that is the file @name of the folder @dir (/proc/PID/fd),
 * if it is another one than this tool's; else 0.
 */
uint32_t segment_other_version(int dir, const char *name);

/* A process whose statistics segments_scan() has not read, since they are of another version. */
struct other_version {
	pid_t pid;
	uint32_t version;
};

/* Those that the last scan has found, in the order of their pids; valid until the next one. */
const struct other_version *segments_of_other_versions(size_t *count);
bool segment_held_by(const struct segment *seg, uint32_t pid);

/* The program's name, from the process's record or /proc; "" if the process is gone. */
void segment_comm(const struct segment *seg, uint32_t pid, char comm[static 16]);

/* --- names.c ----------------------------------------------------------------------------- */

/*
 * In the copies, fills in the addresses of open streams that have none yet, because the library
 * reads them only after some calls. A stream whose addresses cannot be found stays as it is.
 */
void segments_name(struct segment *list);

#endif /* RSK_TOOLS_SCAN_H */
