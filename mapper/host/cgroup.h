/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cgroup.h - tells in which control group a process is: a container is one, and so is a service.
 * Used by rsockd.
 */
#ifndef RSK_CGROUP_H
#define RSK_CGROUP_H

#include <stdbool.h>
#include <sys/types.h>

#define RSK_CGROUP_BYTES 1024u

/*
 * Finds the group's path in the text of /proc/PID/cgroup (cgroups(7)): that of version 2, or of the
 * hierarchy that systemd keeps if only that has groups. Returns 0 with the path, which begins with
 * "/", in @out; -ENOENT: the text has none; -ENAMETOOLONG. Pure.
 */
int rsk_cgroup_parse(const char *text, char out[static RSK_CGROUP_BYTES]);

/*
 * The group in which process @pid is that has connected the UNIX socket @fd, as SO_PEERCRED says.
 * Returns 0; -ESRCH: it has ended, or is in none; -ENOPROTOOPT: the kernel (before 6.5) cannot tell
 * whether @pid is that process still; other -errno. Opens and closes three descriptors.
 */
int rsk_cgroup_of_peer(int fd, pid_t pid, char out[static RSK_CGROUP_BYTES]);

/*
 * Whether the group at @path is that of the glob(7) pattern or below it. A "*" stands for no "/".
 * Pure.
 */
bool rsk_cgroup_is_in(const char *path, const char *pattern);

#endif
