// SPDX-License-Identifier: BSD-2-Clause
/* test_registry_harm.c - tests damage to the registry's file and directory. */
#include "registry_kit.h"
#include "registry_dir.h"

#include <sys/wait.h>

#include "dice.h"

TestSuite(registry_harm, .init = setup, .fini = teardown);

Test(registry_harm, dead_posters)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry e;
	int status;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(post(&reg, 3, 50) ? 1 : 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(find(&reg, 3, &e), 0);
	cr_assert_eq(e.pid, (uint32_t)child);
	cr_assert(!rsk_registry_alive(&e));
	e.pid = (uint32_t)getpid();
	cr_assert(rsk_registry_alive(&e));
	rsk_registry_close(&reg);
}

Test(registry_harm, truncated)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry e;
	int fd = raw_open();

	for (off_t size = 0; size < 5000; size += 777) {
		cr_assert_eq(post(&reg, 1, 1), 0);
		cr_assert_eq(ftruncate(fd, size), 0);
		cr_assert_eq(find(&reg, 1, &e), -ENOENT);
		/* It recovers: the next post is found again. */
		cr_assert_eq(post(&reg, 1, 2), 0);
		cr_assert_eq(find(&reg, 1, &e), 0);
	}
	close(fd);
	rsk_registry_close(&reg);
}

Test(registry_harm, scribbled_over)
{
	struct rsk_registry a = opened(), b = opened();
	struct rsk_registry_entry e;
	uint64_t dice = 1;
	uint64_t *junk = malloc(RSK_REGISTRY_FILE_BYTES);
	int fd = raw_open();

	cr_assert(junk);
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < RSK_REGISTRY_FILE_BYTES / 8; i++)
			junk[i] = dice_roll(&dice);
		cr_assert_eq(pwrite(fd, junk, RSK_REGISTRY_FILE_BYTES, 0),
			     (ssize_t)RSK_REGISTRY_FILE_BYTES);
		for (unsigned int i = 0; i < 64; i++)
			cr_assert_eq(find(&a, i, &e), -ENOENT);
		/* Two processes that know the old key still find each other. */
		for (unsigned int i = 0; i < 64; i++) {
			cr_assert_eq(post(i & 1 ? &a : &b, i, i), 0);
			cr_assert_eq(find(i & 1 ? &b : &a, i, &e), 0);
			cr_assert_eq(e.user, i);
		}
	}
	free(junk);
	close(fd);
	rsk_registry_close(&a);
	rsk_registry_close(&b);
}

Test(registry_harm, another_key)
{
	struct rsk_registry a = opened(), b;
	struct rsk_registry_entry e;
	int fd = raw_open();

	/* The file is lost before b opens it: b makes a key, and a adopts it. */
	cr_assert_eq(ftruncate(fd, 0), 0);
	b = opened();
	cr_assert_eq(post(&b, 9, 1), 0);
	cr_assert_eq(find(&a, 9, &e), 0);
	close(fd);
	rsk_registry_close(&a);
	rsk_registry_close(&b);
}

Test(registry_harm, unlinked)
{
	struct rsk_registry a = opened(), b = opened();
	struct rsk_registry_entry e;
	char path[160];

	path_of(path, "registry");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(post(&a, 2, 1), 0);
	cr_assert_eq(find(&b, 2, &e), 0, "both moved to the new file");
	rsk_registry_close(&a);
	rsk_registry_close(&b);
}

Test(registry_harm, our_descriptor_was_closed_and_reused)
{
	struct rsk_registry reg = opened();
	struct rsk_registry_entry e;
	char name[] = "/tmp/rsock-test-file-XXXXXX";
	char byte[8];
	int theirs, at = reg.fd;
	struct stat st;

	close(at);
	theirs = mkstemp(name);
	cr_assert_geq(theirs, 0);
	unlink(name);
	if (theirs != at)
		cr_assert_eq(dup2(theirs, at), at);
	cr_assert_eq(post(&reg, 4, 1), 0);
	cr_assert_eq(find(&reg, 4, &e), 0);
	cr_assert_neq(reg.fd, at);
	cr_assert_eq(fstat(at, &st), 0, "the application's file was closed");
	cr_assert_eq(st.st_size, 0, "the application's file was written to");
	cr_assert_eq(pread(at, byte, sizeof(byte), 0), 0);
	rsk_registry_close(&reg);

	/* The same at close: a descriptor that is not ours stays open. */
	reg = opened();
	cr_assert_eq(dup2(at, reg.fd), reg.fd);
	at = reg.fd;
	rsk_registry_close(&reg);
	cr_assert_eq(fstat(at, &st), 0);
}

static int placed_from = -1;

static int place_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 500);

	placed_from = fd;
	close(fd);
	return high < 0 ? -EMFILE : high;
}

Test(registry_harm, descriptors_are_placed)
{
	struct rsk_registry reg;
	struct rsk_registry_entry e;

	cr_assert_eq(rsk_registry_open(&reg, base, place_high), 0);
	cr_assert_geq(reg.fd, 500);
	cr_assert_eq(fcntl(placed_from, F_GETFD), -1);
	cr_assert_eq(post(&reg, 4, 1), 0);
	cr_assert_eq(find(&reg, 4, &e), 0);
	rsk_registry_close(&reg);
}

static void expect_refused(int want, const char *what)
{
	struct rsk_registry reg;
	struct rsk_registry_entry e;
	int err = rsk_registry_open(&reg, base, NULL);

	cr_assert_eq(err, want, "%s: %d", what, err);
	/* The registry may be called all the same. */
	cr_assert_eq(post(&reg, 1, 1), want, "%s", what);
	cr_assert_eq(find(&reg, 1, &e), want, "%s", what);
	rsk_registry_close(&reg);
}

/*
 * Blocks or frees the other names, which are used if the usual one cannot be: plain files in place
 * of directories.
 */
static void other_names(bool take)
{
	char path[160], name[176];

	path_of(path, "");
	for (unsigned int i = 1; i < RSK_REGISTRY_NAMES; i++) {
		snprintf(name, sizeof(name), "%s.%u", path, i);
		if (take)
			cr_assert_eq(close(open(name, O_CREAT | O_WRONLY, 0600)), 0);
		else
			cr_assert_eq(unlink(name), 0);
	}
}

Test(registry_harm, another_name)
{
	char path[160], name[176], file[192];
	struct rsk_registry first, second;
	struct rsk_registry_entry e;

	path_of(path, "");
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	first = opened();
	cr_assert_eq(first.number, 1);
	cr_assert_eq(post(&first, 1, 1), 0);
	/* The usual name is free again: the directory that exists already is used all the same. */
	unlink(path);
	second = opened();
	cr_assert_eq(second.number, 1);
	cr_assert_eq(find(&second, 1, &e), 0);
	/*
	 * If two exist, for whatever reason, the process with the later one moves to the earlier.
	 */
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(post(&first, 2, 1), 0);
	cr_assert_eq(first.number, 0);
	cr_assert_eq(find(&second, 2, &e), 0);
	cr_assert_eq(second.number, 0);
	rsk_registry_close(&first);
	rsk_registry_close(&second);
	snprintf(name, sizeof(name), "%s.1", path);
	snprintf(file, sizeof(file), "%s/registry", name);
	unlink(file);
	rmdir(name);
}

Test(registry_harm, directories_that_are_not_ours_alone)
{
	char path[160], target[160];

	other_names(true);
	path_of(path, "");
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(chmod(path, 0750), 0);
	expect_refused(-EACCES, "group may read");
	cr_assert_eq(chmod(path, 0701), 0);
	expect_refused(-EACCES, "others may pass");
	rmdir(path);
	snprintf(target, sizeof(target), "%s/elsewhere", base);
	cr_assert_eq(mkdir(target, 0700), 0);
	cr_assert_eq(symlink(target, path), 0);
	expect_refused(-EACCES, "a symbolic link");
	unlink(path);
	rmdir(target);
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	expect_refused(-EACCES, "a file");
	unlink(path);
	other_names(false);
}

Test(registry_harm, another_users_directory)
{
	char path[160];

	if (geteuid() != 0)
		cr_skip("needs to be root to give a directory away");
	path_of(path, "");
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(chown(path, 65534, 65534), 0);
	other_names(true);
	expect_refused(-EACCES, "another user's");
	other_names(false);
}

Test(registry_harm, files_that_are_none)
{
	char path[160];

	path_of(path, "");
	cr_assert_eq(mkdir(path, 0700), 0);
	path_of(path, "registry");
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refused(-EACCES, "a fifo");
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	expect_refused(-EACCES, "a directory");
	rmdir(path);
	cr_assert_eq(symlink("/etc/hostname", path), 0);
	expect_refused(-EACCES, "a symbolic link");
	unlink(path);
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	cr_assert_eq(chmod(path, 0644), 0);
	expect_refused(-EACCES, "others may read");
}

Test(registry_harm, no_base)
{
	struct rsk_registry reg;

	cr_assert_eq(rsk_registry_open(&reg, "/nonexistent", NULL), -ENOENT);
	cr_assert_eq(post(&reg, 1, 1), -ENOENT);
	rsk_registry_close(&reg);
}

/*
 * Many processes post and find at once; torn entries must read as absent, never with wrong
 * contents.
 */
Test(registry_harm, many_at_once, .timeout = 60)
{
	pid_t kids[4];
	int status;

	for (unsigned int k = 0; k < 4; k++) {
		kids[k] = fork();
		cr_assert_geq(kids[k], 0);
		if (kids[k])
			continue;
		struct rsk_registry reg = opened();
		struct rsk_registry_entry e;

		for (unsigned int i = 0; i < 20000; i++) {
			unsigned int n = i * 7 % 97;
			struct rsk_registry_entry o = offer_of(n, i);

			o.nonce = o.user = (uint64_t)n * 1000 + k;
			o.fd = (int)(n + 3 + k * 1000);
			if (rsk_registry_post(&reg, &o))
				_exit(1);
			if (find(&reg, (n + 1) % 97, &e) == 0 &&
			    (e.nonce != e.user || e.user / 1000 != (n + 1) % 97 ||
			     (unsigned int)e.fd != e.user / 1000 + 3 + e.user % 1000 * 1000))
				_exit(2);
			if (i % 5 == 0)
				rsk_registry_withdraw(&reg, &o.tuple, o.nonce);
		}
		_exit(0);
	}
	for (unsigned int k = 0; k < 4; k++) {
		cr_assert_eq(waitpid(kids[k], &status, 0), kids[k]);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %u: %d", k,
			  status);
	}
}
