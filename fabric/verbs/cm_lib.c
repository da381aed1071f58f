// SPDX-License-Identifier: BSD-2-Clause
/*
 * cm_lib.c - see cm_lib.h. A process uses the librdmacm that the module is linked with; a child
 * whose parent has used that one loads a copy. Called by module.c and forked.c.
 *
 * librdmacm keeps the devices that it has opened, for ever and out of reach. In a child those are
 * the parent's: their files are the parent's objects in the kernel, and their doorbell pages are
 * not mapped (drivers map them with VM_DONTCOPY). libibverbs has no such state: it opens a device
 * anew for whoever asks. So the child needs a second librdmacm, beside the one libibverbs. The
 * loader takes a file for another library if it is another inode under another name, which a memfd
 * is. Design: docs/adr/verbs.md.
 */
#include "cm_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rsock/sys.h>

#include "verbs.h"

#define LIBRARY "librdmacm.so.1"
#define FDS "/proc/self/fd/"
/*
 * Copies that one process may have: its own, and those of the processes from which it descends by
 * forks. None is ever unloaded.
 */
#define COPIES 16

static const struct rsk_cm_lib linked = {
#define LINKED(name) .name = rdma_##name,
	RSK_CM_CALLS(LINKED)
#undef LINKED
};

const struct rsk_cm_lib *rsk_cm = &linked;

/*
 * Private to the process. Written by its progress thread, and in the child of a fork, before that
 * has other threads.
 */
static struct {
	bool inherited;		/* *rsk_cm is the one that the parent has used */
	struct stat file;	/* of the library that is linked, when it was first used */
	uint32_t copies;	/* that were loaded, also by the processes before this one */
	struct rsk_cm_lib copy; /* functions of the newest one */
} cm;

void rsk_cm_lib_forked(void)
{
	cm.inherited = true;
}

/* Opens the file of the library that the module is linked with. Returns its fd or -errno. */
static int open_file(struct stat *st)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	struct link_map *map;
	int fd = -ENOENT, rc = 0;

	if (!lib)
		return fd;
	if (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0)
		fd = rsk_sys_openat(AT_FDCWD, map->l_name, O_RDONLY | O_CLOEXEC, 0);
	dlclose(lib); /* the module holds it */
	if (fd >= 0)
		rc = rsk_sys_fstat(fd, st);
	if (rc < 0)
		rsk_sys_close(fd);
	return rc < 0 ? rc : fd;
}

/* Remembers which file it is. If that fails no file is the same, and children have no copy. */
static void note_file(void)
{
	int fd = open_file(&cm.file);

	if (fd >= 0)
		rsk_sys_close(fd);
}

/*
 * The name may lead to another file since: of a newer package, or in the root directory to which
 * the child has changed, where it may be anyone's.
 */
static bool is_same(const struct stat *st)
{
	return st->st_dev == cm.file.st_dev && st->st_ino == cm.file.st_ino &&
	       st->st_size == cm.file.st_size &&
	       !memcmp(&st->st_mtim, &cm.file.st_mtim, sizeof(st->st_mtim));
}

/* Copies all of @from to @to. Returns 0 or -errno. */
static int copy_bytes(int from, int to)
{
	uint8_t buf[16384];
	ssize_t n, put;
	off_t at = 0;

	while ((n = rsk_sys_read(from, buf, sizeof(buf))) > 0) {
		put = rsk_sys_pwrite(to, buf, (size_t)n, at);
		if (put != n)
			return put < 0 ? (int)put : -ENOSPC;
		at += n;
	}
	return (int)n;
}

/*
 * Returns the fd of a new file of the same content, or -errno. It is moved away from the
 * application's descriptors, since it is opened by its number.
 */
static int copied_file(const struct rsk_verbs_host *host)
{
	struct stat st;
	int from = open_file(&st), to, rc;

	if (from < 0)
		return from;
	to = is_same(&st) ? rsk_sys_memfd_create(LIBRARY, MFD_CLOEXEC) : -ESTALE;
	if (to >= 0)
		to = host->own_fd(host->ctx, to);
	rc = to < 0 ? to : copy_bytes(from, to);
	rsk_sys_close(from);
	if (rc < 0 && to >= 0)
		host->own_close(host->ctx, to);
	return rc < 0 ? rc : to;
}

/* Another root directory may have anything in place of /proc. */
static bool has_proc(void)
{
	int fd = rsk_sys_openat(AT_FDCWD, FDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	struct statfs st;
	bool has = fd >= 0 && rsk_sys_fstatfs(fd, &st) == 0 && st.f_type == PROC_SUPER_MAGIC;

	if (fd >= 0)
		rsk_sys_close(fd);
	return has;
}

/*
 * Loads the file. Its calls of its own functions are not to be answered by a librdmacm with which
 * the program itself is linked (DEEPBIND).
 *
 * The loader also knows libraries by the names under which they were opened, and the parent's copy
 * may have been opened by the same number: the names differ in their slashes.
 */
static void *load(int fd)
{
	char path[sizeof(FDS) + COPIES + 16], slashes[COPIES + 1] = "";

	memset(slashes, '/', cm.copies);
	snprintf(path, sizeof(path), FDS "%s%d", slashes, fd);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

static bool find_calls(void *lib, struct rsk_cm_lib *to)
{
	bool all = true;

#define FIND(name)                                                                                 \
	to->name = (__typeof__(to->name))dlsym(lib, "rdma_" #name);                                \
	all = all && to->name && to->name != rsk_cm->name;
	RSK_CM_CALLS(FIND)
#undef FIND
	return all;
}

static int load_copy(const struct rsk_verbs_host *host)
{
	struct rsk_cm_lib found;
	void *lib;
	int fd;

	if (cm.copies == COPIES)
		return -EMLINK;
	fd = has_proc() ? copied_file(host) : -ENOENT;
	if (fd < 0)
		return fd;
	cm.copies++;
	lib = load(fd);
	host->own_close(host->ctx, fd);
	if (!lib || !find_calls(lib, &found))
		return -ELIBACC;
	cm.copy = found;
	rsk_cm = &cm.copy;
	return 0;
}

int rsk_cm_lib_open(const struct rsk_verbs_host *host)
{
	int rc;

	if (!cm.inherited) {
		if (rsk_cm == &linked)
			note_file();
		return 0;
	}
	/*
	 * Where the kernel does not copy registered pages at a fork, libibverbs excludes them from
	 * forks, and its counts of those of the parent are not this process's.
	 */
	if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED)
		return -EOPNOTSUPP;
	rc = load_copy(host);
	if (rc == 0)
		cm.inherited = false;
	return rc;
}
