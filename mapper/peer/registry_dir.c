// SPDX-License-Identifier: BSD-2-Clause
/* registry_dir.c - see registry_dir.h. */
#include "registry_dir.h"
#include "user.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <rsock/sys.h>
#include <string.h>

#define RUN_BASE "/run/user/"
#define RUN_NAME "rsock"

static char *put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	return at;
}

static char *put_number(char *at, unsigned int value)
{
	char digits[10];
	unsigned int n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (n)
		*at++ = digits[--n];
	return at;
}

/* Writes "rsock-UID", "rsock-UID.1" ... */
static void name_of(char name[static 32], unsigned int number)
{
	char *at = put_number(put_text(name, "rsock-"), rsk_sys_geteuid());

	if (number)
		at = put_number(put_text(at, "."), number);
	*at = 0;
}

/*
 * Follows neither symbolic links nor mounts: a file system that another user has mounted could make
 * us wait. Before Linux 5.6 openat2() does not exist.
 */
static int open_below(int dir, const char *name)
{
	const struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
				      .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS };
	int fd = rsk_sys_openat2(dir, name, &how, sizeof(how));

	if (fd == -ENOSYS)
		fd = rsk_sys_openat(dir, name, (int)how.flags, 0);
	return fd == -ELOOP || fd == -ENOTDIR || fd == -EXDEV ? -EACCES : fd;
}

/*
 * Takes a descriptor, or an error. Returns the descriptor if its directory belongs to this user
 * alone.
 */
static int ours(int fd)
{
	struct stat st;
	int err;

	if (fd < 0)
		return fd;
	err = rsk_sys_fstat(fd, &st);
	if (!err && (!rsk_user_same(st.st_uid, rsk_sys_geteuid()) || (st.st_mode & 07777) != 0700))
		err = -EACCES;
	if (err)
		rsk_sys_close(fd);
	return err ? err : fd;
}

static int open_ours(int base, const char *name)
{
	return ours(open_below(base, name));
}

static int make(int base, const char *name)
{
	int err = rsk_sys_mkdirat(base, name, 0700);

	return err && err != -EEXIST ? err : open_ours(base, name);
}

/*
 * The login manager makes this directory for the user, as a file system of its own: no other user
 * can write in it or above it.
 */
static int open_run(void)
{
	char path[32];

	*put_number(put_text(path, RUN_BASE), rsk_sys_geteuid()) = 0;
	return ours(
		rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
}

static int open_base(const char *base)
{
	return rsk_sys_openat(AT_FDCWD, base, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

typedef int try_fn(int base, const char *name);

/* Returns the first of the names before @end for which @try succeeds; *number: which. */
static int first(int base, int run, unsigned int end, try_fn *try, unsigned int *number)
{
	int fd = -EACCES, worst = -EACCES;
	char name[32];

	for (unsigned int i = 0; i < end; i++) {
		*number = i;
		name_of(name, i);
		if (i < RSK_REGISTRY_NAMES)
			fd = try(base, name);
		else
			fd = run >= 0 ? try(run, RUN_NAME) : run;
		if (fd >= 0)
			return fd;
		if (fd != -EACCES && fd != -ENOENT)
			worst = fd;
	}
	return worst;
}

int rsk_registry_dir_open(const char *base, unsigned int *number)
{
	bool has_run = strcmp(base, RSK_REGISTRY_BASE) == 0;
	unsigned int end = RSK_REGISTRY_NAMES + has_run;
	int at = open_base(base), run, fd;

	if (at < 0)
		return at;
	/* The usual case: the first name exists, and no other is tried. */
	fd = first(at, -ENOENT, 1, open_ours, number);
	if (fd >= 0) {
		rsk_sys_close(at);
		return fd;
	}
	run = has_run ? open_run() : -ENOENT;
	fd = first(at, run, end, open_ours, number);
	if (fd < 0)
		fd = first(at, run, end, make, number);
	if (run >= 0)
		rsk_sys_close(run);
	rsk_sys_close(at);
	return fd;
}

int rsk_registry_dir_moved(const char *base, unsigned int number)
{
	unsigned int which;
	int at, fd;

	if (!number)
		return 0;
	at = open_base(base);
	if (at < 0)
		return 0;
	fd = first(at, -ENOENT, number < RSK_REGISTRY_NAMES ? number : RSK_REGISTRY_NAMES,
		   open_ours, &which);
	rsk_sys_close(at);
	if (fd >= 0)
		rsk_sys_close(fd);
	return fd >= 0;
}
