// SPDX-License-Identifier: BSD-2-Clause
/* bus.c - see bus.h. */
#include "bus.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 4096 /* a list of processors may be long */
#define DATA_BYTES 256
#define HEAD_BYTES 24

/* Reads a file's first line, without its end; false if there is none or it does not fit. */
static bool read_line(int at, const char *name, char line[static LINE])
{
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, LINE - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0 || n == LINE - 1)
		return false;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	return *line;
}

/* ---- a device ---- */

/* The share of bits that the encoding of a link of that speed leaves; 0: no such speed. */
static double encoding(double gt)
{
	static const struct {
		double gt, share;
	} speeds[] = {
		{ 2.5, 8.0 / 10 },   { 5, 8.0 / 10 },	  { 8, 128.0 / 130 },	{ 16, 128.0 / 130 },
		{ 32, 128.0 / 130 }, { 64, 236.0 / 256 }, { 128, 236.0 / 256 },
	};

	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (gt > speeds[i].gt - 0.01 && gt < speeds[i].gt + 0.01)
			return speeds[i].share;
	return 0;
}

uint64_t rsk_bus_bps(const char *speed, const char *width)
{
	char *end, *last;
	double gt = strtod(speed, &end), share = encoding(gt);
	unsigned long lanes = strtoul(width, &last, 10);

	/* The kernel shows 0 or 255 lanes where it does not know, as for a virtual function. */
	if (share <= 0 || strncmp(end, " GT/s", 5) != 0 || !isdigit((unsigned char)*width) ||
	    *last || !lanes || lanes > 32)
		return 0;
	return (uint64_t)(gt * 1e9 * share * (double)lanes * DATA_BYTES /
			  (DATA_BYTES + HEAD_BYTES));
}

struct rsk_bus rsk_bus_read(int device)
{
	struct rsk_bus out = { 0 };
	char speed[LINE], width[LINE], node[LINE], *end;
	unsigned long number;

	if (read_line(device, "device/current_link_speed", speed) &&
	    read_line(device, "device/current_link_width", width))
		out.bps = rsk_bus_bps(speed, width);
	/* -1: the firmware names none */
	if (!read_line(device, "device/numa_node", node) || !isdigit((unsigned char)*node))
		return out;
	number = strtoul(node, &end, 10);
	if (!*end && number < RSK_NUMA_NODES_MOST)
		out.numa = (uint32_t)number + 1;
	return out;
}

/* ---- processors ---- */

/* Parses "0-3,8,10-11"; a list that is not like that adds what precedes the error. */
static bool add_cpus(struct rsk_numa *numa, unsigned int node, const char *list)
{
	bool any = false;

	while (isdigit((unsigned char)*list)) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-' && isdigit((unsigned char)end[1]))
			last = strtoul(end + 1, &end, 10);
		for (unsigned long i = first; i <= last && i < RSK_NUMA_CPUS_MOST; i++) {
			numa->node[i] = (uint8_t)(node + 1);
			any = true;
		}
		if (*end != ',')
			break;
		list = end + 1;
	}
	return any;
}

void rsk_numa_read(const char *path, struct rsk_numa *out)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[32], line[LINE];

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return;
	for (unsigned int i = 0; i < RSK_NUMA_NODES_MOST; i++) {
		snprintf(name, sizeof(name), "node%u/cpulist", i);
		if (read_line(fd, name, line))
			out->n += add_cpus(out, i, line);
	}
	close(fd);
}

uint64_t rsk_numa_nodes_of(const struct rsk_numa *numa, const void *cpus, size_t bytes)
{
	const uint8_t *bits = cpus; /* on a little-endian host, bit i of the set is in byte i / 8 */
	uint64_t nodes = 0;

	for (size_t i = 0; i < bytes * 8; i++) {
		if (!(bits[i / 8] & (1u << i % 8)))
			continue;
		if (i >= RSK_NUMA_CPUS_MOST || !numa->node[i])
			return 0;
		nodes |= 1ull << (numa->node[i] - 1);
	}
	return (unsigned int)__builtin_popcountll(nodes) < numa->n ? nodes : 0;
}
