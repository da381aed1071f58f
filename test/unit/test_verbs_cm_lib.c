// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_cm_lib.c - tests the copies of librdmacm that children of forks load. The program has
 * functions of librdmacm's names itself, as one has that is linked with another librdmacm.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_lib.h"
#include "verbs.h"

#define COPIES 16 /* cm_lib.c */

static enum ibv_fork_status kernel = IBV_FORK_UNNEEDED;
static int own_fd_error, destroyed;

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return kernel;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	destroyed++;
	return 0;
}

static int own_fd(void *ctx, int fd)
{
	if (!own_fd_error)
		return fd;
	close(fd);
	return own_fd_error;
}

static void own_close(void *ctx, int fd)
{
	cr_assert_eq(close(fd), 0);
}

static const struct rsk_verbs_host host = { .own_fd = own_fd, .own_close = own_close };

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* True if the two have no function in common. */
static bool apart(const struct rsk_cm_lib *a, const struct rsk_cm_lib *b)
{
	bool all = true;

#define APART(name) all = all && a->name && b->name && a->name != b->name;
	RSK_CM_CALLS(APART)
#undef APART
	return all;
}

/* As in the child of a process that has used what it has. */
static int forked(void)
{
	cr_assert_eq(rsk_cm_lib_open(&host), 0);
	rsk_cm_lib_forked();
	return rsk_cm_lib_open(&host);
}

Test(verbs_cm_lib, the_first_process_has_the_one_that_is_linked)
{
	const struct rsk_cm_lib *was = rsk_cm;

	cr_assert_eq(rsk_cm_lib_open(&host), 0);
	cr_assert_eq(rsk_cm, was);
	cr_assert_eq(rsk_cm->destroy_id, rdma_destroy_id);
}

Test(verbs_cm_lib, each_child_has_its_own)
{
	struct rsk_cm_lib had[COPIES + 1] = { *rsk_cm };
	int fds = descriptors(), n;

	for (n = 1; n <= COPIES; n++) {
		cr_assert_eq(forked(), 0, "copy %d", n);
		had[n] = *rsk_cm;
		for (int i = 0; i < n; i++)
			cr_assert(apart(&had[n], &had[i]), "copies %d and %d", n, i);
		cr_assert_eq(rsk_cm_lib_open(&host), 0, "it is opened once more");
		cr_assert(!memcmp(rsk_cm, &had[n], sizeof(had[n])), "one copy for a process");
	}
	cr_assert_eq(forked(), -EMLINK, "memory is not used without end");
	cr_assert_eq(descriptors(), fds);
}

/* The kernel refuses the descriptor -1, before anything of the rest is read. */
Test(verbs_cm_lib, a_copy_calls_itself)
{
	static char zeros[4096] __attribute__((aligned(16)));
	struct rdma_event_channel none = { .fd = -1 };
	struct rdma_cm_id *id = (void *)zeros;
	void (*destroy_ep)(struct rdma_cm_id * id);
	Dl_info copy;
	void *lib;

	cr_assert_eq(forked(), 0);
	cr_assert_neq(dladdr((void *)rsk_cm->destroy_id, &copy), 0);
	lib = dlopen(copy.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	cr_assert(lib, "%s", dlerror());
	destroy_ep = (__typeof__(destroy_ep))dlsym(lib, "rdma_destroy_ep");
	cr_assert(destroy_ep);
	id->channel = &none;
	destroy_ep(id); /* calls rdma_destroy_id() */
	cr_assert_eq(destroyed, 0, "it has called the program's function of that name");
	rdma_destroy_ep(id);
	cr_assert_eq(destroyed, 1, "and the library that is linked does");
}

Test(verbs_cm_lib, only_where_the_kernel_copies_registered_pages)
{
	const struct rsk_cm_lib *was = rsk_cm;

	kernel = IBV_FORK_ENABLED;
	cr_assert_eq(forked(), -EOPNOTSUPP);
	kernel = IBV_FORK_DISABLED;
	cr_assert_eq(rsk_cm_lib_open(&host), -EOPNOTSUPP);
	cr_assert_eq(rsk_cm, was);
}

Test(verbs_cm_lib, without_a_descriptor)
{
	const struct rsk_cm_lib *was = rsk_cm;
	int fds = descriptors();

	own_fd_error = -EMFILE;
	cr_assert_eq(forked(), -EMFILE);
	cr_assert_eq(rsk_cm, was);
	cr_assert_eq(descriptors(), fds);
	own_fd_error = 0;
	cr_assert_eq(rsk_cm_lib_open(&host), 0, "it is not said that it may use the parent's");
	cr_assert_neq(rsk_cm, was);
}

Test(verbs_cm_lib, files_may_not_grow)
{
	const struct rsk_cm_lib *was = rsk_cm;
	struct rlimit limit = { 20000, 20000 };

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(forked(), -EFBIG, "and SIGXFSZ has not ended the program");
	cr_assert_eq(rsk_cm, was);
}

/* ---- another root directory, another package ---- */

static const char *library(void)
{
	void *lib = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct link_map *map;

	cr_assert_eq(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
	return map->l_name;
}

static void write_file(const char *path, const char *from)
{
	char buf[4096];
	FILE *in = fopen(from, "r"), *out = fopen(path, "w");
	size_t n;

	cr_assert(in && out, "%s", path);
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
		cr_assert_eq(fwrite(buf, 1, n, out), n);
	fclose(in);
	cr_assert_eq(fclose(out), 0);
}

/*
 * In a child that finds @source at @target: opening fails with @error, and changes nothing. It
 * succeeds when @target is what it was.
 */
static bool refuses(const char *source, const char *target, const char *type, int error)
{
	const struct rsk_cm_lib *was = rsk_cm;

	rsk_cm_lib_forked();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) ||
	    mount(source, target, type, type ? 0 : MS_BIND, NULL)) {
		perror("mount");
		return false;
	}
	if (rsk_cm_lib_open(&host) != error || rsk_cm != was)
		return false;
	return umount2(target, MNT_DETACH) == 0 && rsk_cm_lib_open(&host) == 0 && rsk_cm != was;
}

static void child_refuses(const char *source, const char *target, const char *type, int error)
{
	pid_t pid;
	int status;

	cr_assert_eq(rsk_cm_lib_open(&host), 0);
	pid = fork();
	if (pid == 0)
		_exit(!refuses(source, target, type, error));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", (unsigned int)status);
}

/* A library that works, but is another one: it may be of another version, or anyone's. */
Test(verbs_cm_lib, another_file_of_that_name)
{
	char other[] = "/tmp/rsock-test-cm-XXXXXX";

	close(mkstemp(other));
	write_file(other, library());
	child_refuses(other, library(), NULL, -ESTALE);
	unlink(other);
}

/* A directory of that name in which anyone may put files. */
Test(verbs_cm_lib, no_proc)
{
	child_refuses("none", "/proc/self/fd", "tmpfs", -ENOENT);
}
