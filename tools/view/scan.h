/* SPDX-License-Identifier: BSD-2-Clause */
/* scan.h - the statistics segments of running processes. */
#ifndef RSK_TOOLS_SCAN_H
#define RSK_TOOLS_SCAN_H

#include <rsock/stats.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * One statistics segment: the tool's own copy, checked, and the live processes that
 * hold it.  Owned by the list it is in.
 */
struct segment {
	struct segment *next;
	dev_t dev;
	ino_t ino;
	uint64_t taken_ns;		/* when it was copied (monotonic) */
	struct rsk_stats_segment *copy; /* records behind its high_water were never used */
	pid_t *holders;
	size_t holder_count;
};

/* Whose processes are looked through. */
enum scan_whose {
	SCAN_MINE, /* of this effective user */
	SCAN_ALL,  /* all that can be opened: for root, everybody's */
};

/*
 * Finds the segments of processes.  *out is a list in the order of the lowest pid, to be freed with segments_free().
 * Returns 0 or -errno (no /proc, no memory).
 */
int segments_scan(enum scan_whose whose, struct segment **out);
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

#endif /* RSK_TOOLS_SCAN_H */
