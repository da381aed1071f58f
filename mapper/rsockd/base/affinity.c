// SPDX-License-Identifier: BSD-2-Clause
/* affinity.c - see affinity.h. */
#include "affinity.h"

#include <sys/syscall.h>
#include <unistd.h>

uint64_t rsk_affinity_nodes(const struct rsk_numa *numa, int32_t pid)
{
	unsigned long cpus[RSK_NUMA_CPUS_MOST / 8 / sizeof(unsigned long)] = { 0 };
	long bytes;

	/* To the kernel 0 is ourselves; to SO_PEERCRED, a process that our namespace has not. */
	if (numa->n < 2 || pid <= 0)
		return 0;
	/* The number of bytes, unlike libc's function: the kernel may have more processors. */
	bytes = syscall(SYS_sched_getaffinity, pid, sizeof(cpus), cpus);
	return bytes > 0 ? rsk_numa_nodes_of(numa, cpus, (size_t)bytes) : 0;
}
