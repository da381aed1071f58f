// SPDX-License-Identifier: BSD-2-Clause
/* isolation.c - see isolation.h; namespaces(7), pid_namespaces(7). */
#include "isolation.h"

#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BIT(code) (UINT64_C(1) << RSK_REASON_##code)

_Static_assert(RSK_REASON_COUNT <= 64, "a bit for each reason");

/* stat() of a file in /proc/PID; false: it cannot be read. */
static bool file_of(pid_t pid, const char *name, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return stat(path, st) == 0;
}

/* Whether the two processes have different files there; false also if one cannot be read. */
static bool differ(pid_t a, pid_t b, const char *name)
{
	struct stat x, y;

	return file_of(a, name, &x) && file_of(b, name, &y) &&
	       (x.st_dev != y.st_dev || x.st_ino != y.st_ino);
}

uint64_t isolated_by(pid_t a, pid_t b)
{
	uint64_t bits = 0;

	if (a == b)
		return 0;
	if (differ(a, b, "ns/net"))
		bits |= BIT(OTHER_NETNS);
	if (differ(a, b, "ns/user"))
		bits |= BIT(OTHER_USERNS);
	if (differ(a, b, "ns/pid"))
		bits |= BIT(OTHER_PIDNS);
	if (differ(a, b, "ns/mnt") && differ(a, b, "root/dev/shm"))
		bits |= BIT(OTHER_MNTNS);
	return bits;
}

enum rsk_reason isolated_first(uint64_t bits)
{
	static const enum rsk_reason order[] = { RSK_REASON_OTHER_NETNS, RSK_REASON_OTHER_USERNS,
						 RSK_REASON_OTHER_PIDNS, RSK_REASON_OTHER_MNTNS };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (bits >> order[i] & 1)
			return order[i];
	return RSK_REASON_NO_PEER;
}

/*
 * Whether the reason can come from separate namespaces: the two ends do not find each other, or one
 * cannot verify that the other holds the socket.
 */
static bool explains(unsigned int reason, unsigned int peer_reason)
{
	return reason == RSK_REASON_NO_PEER || reason == RSK_REASON_NOT_HOLDER ||
	       reason == RSK_REASON_LINK_ERROR ||
	       (reason == RSK_REASON_PEER_DENIED && peer_reason == RSK_REASON_NOT_HOLDER);
}

/*
 * The number of a process in its own pid namespace, the last one in the line NSpid; @pid where that
 * cannot be read.
 */
static uint32_t inner_pid(pid_t pid)
{
	char path[32], line[256], *last;
	uint32_t inner = (uint32_t)pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", strlen("NSpid:")) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		last = strrchr(line, '\t');
		if (last)
			inner = (uint32_t)strtoul(last + 1, NULL, 10);
		break;
	}
	if (file)
		fclose(file);
	return inner;
}

static uint32_t outer_pid(const struct segment *seg, const uint32_t *inner, uint32_t pid)
{
	for (size_t i = 0; pid && i < seg->holder_count; i++)
		if (inner[i] == pid)
			return (uint32_t)seg->holders[i];
	return pid;
}

static void number(struct segment *seg)
{
	uint32_t *inner = calloc(seg->holder_count ? seg->holder_count : 1, sizeof(*inner));
	bool others = false;

	for (size_t i = 0; inner && i < seg->holder_count; i++) {
		inner[i] = inner_pid(seg->holders[i]);
		others |= inner[i] != (uint32_t)seg->holders[i];
	}
	for (unsigned int i = 0; others && i < RSK_STATS_PROCESSES; i++)
		seg->copy->process[i].pid = outer_pid(seg, inner, seg->copy->process[i].pid);
	for (unsigned int i = 0; others && i < seg->copy->header.high_water; i++)
		seg->copy->stream[i].pid = outer_pid(seg, inner, seg->copy->stream[i].pid);
	free(inner);
}

void segments_number(struct segment *list)
{
	for (struct segment *seg = list; seg; seg = seg->next)
		number(seg);
}

/* Replaces the reason of one stream, if its other end has the library too. */
static void refine(const struct records *all, const struct record *record,
		   struct rsk_stats_stream *s)
{
	const struct record *other;
	uint64_t bits;

	if (!explains(s->reason, s->peer_reason))
		return;
	other = records_other_end(all, record->stream);
	bits = other ? isolated_by((pid_t)s->pid, (pid_t)other->stream->pid) : 0;
	if (bits)
		s->reason = (uint8_t)isolated_first(bits);
}

void segments_isolation(struct segment *list)
{
	struct records all;

	if (records_index(list, &all))
		return;
	for (size_t i = 0; i < all.count; i++) {
		const struct segment *seg = all.at[i].seg;

		refine(&all, &all.at[i], &seg->copy->stream[all.at[i].stream - seg->copy->stream]);
	}
	records_free(&all);
}
