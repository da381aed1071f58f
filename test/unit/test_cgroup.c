// SPDX-License-Identifier: BSD-2-Clause
/* test_cgroup.c - tests the control group of a process, and which patterns name it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"

static char path[RSK_CGROUP_BYTES];

Test(cgroup, of_the_text)
{
	static const struct {
		const char *text, *path;
	} rows[] = {
		{ "0::/\n", "/" },
		{ "0::/system.slice/redis.service\n", "/system.slice/redis.service" },
		{ "0::/a:b", "/a:b" },
		{ "12:cpu,cpuacct:/x\n1:name=systemd:/docker/1\n0::/\n", "/docker/1" },
		{ "1:name=systemd:/docker/1\n0::/docker/2\n", "/docker/1" },
		{ "0::/docker/2\n1:name=systemd:/docker/1\n", "/docker/2" },
		{ "1:name=systemd:/\n0::/pods/3\n", "/pods/3" },
		{ "", NULL },
		{ "0::", NULL },
		{ "0::\n", NULL },
		{ "0\n:\n::\n::/\n", NULL },
		{ "10::/a\n", NULL },
		{ "3:cpu:/a\n2:name=systemdx:/b\n2:name=system:/b\n", NULL },
		{ "0::relative\n", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = rsk_cgroup_parse(rows[i].text, path);

		cr_assert_eq(rc, rows[i].path ? 0 : -ENOENT, "%s", rows[i].text);
		if (rc == 0)
			cr_assert_str_eq(path, rows[i].path, "%s", rows[i].text);
	}
}

Test(cgroup, a_long_path)
{
	char text[RSK_CGROUP_BYTES + 8] = "0::";

	memset(text + 3, 'a', RSK_CGROUP_BYTES);
	text[3] = '/';
	cr_assert_eq(rsk_cgroup_parse(text, path), -ENAMETOOLONG);
	text[3 + RSK_CGROUP_BYTES - 1] = 0;
	cr_assert_eq(rsk_cgroup_parse(text, path), 0);
	cr_assert_eq(strlen(path), RSK_CGROUP_BYTES - 1);
}

Test(cgroup, patterns)
{
	static const struct {
		const char *path, *pattern;
		bool in;
	} rows[] = {
		{ "/a", "/a", true },
		{ "/a/b/c", "/a", true },
		{ "/ab", "/a", false },
		{ "/", "/a", false },
		{ "/a", "/a/b", false },
		{ "/a/b/c", "/a/*", true },
		{ "/a", "/a/*", false },
		{ "/a/b/c", "/*/c", false },
		{ "/a/b/c", "/*/b", true },
		{ "/system.slice/docker-7f.scope", "/system.slice/docker-*.scope", true },
		{ "/system.slice/docker-7f.scope/x", "/system.slice/docker-*.scope", true },
		{ "/system.slice/redis.service", "/system.slice/docker-*.scope", false },
		{ "/a\\*", "/a\\*", true },
		{ "/a*", "/a\\*", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_assert_eq(rsk_cgroup_is_in(rows[i].path, rows[i].pattern), rows[i].in, "%s %s",
			     rows[i].path, rows[i].pattern);
}

/* This process, then a child that has connected and ended. */
Test(cgroup, of_a_peer)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(sa_family_t); /* the kernel chooses an abstract name */
	int pair[2], rc, status, listener, accepted;
	pid_t child;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	rc = rsk_cgroup_of_peer(pair[0], getpid(), path);
	if (rc == -ENOPROTOOPT)
		return; /* before Linux 6.5 nobody can tell */
	cr_assert_eq(rc, 0, "%d", rc);
	cr_assert_eq(path[0], '/');
	cr_assert_eq(rsk_cgroup_of_peer(pair[0], 0, path), -ESRCH);
	cr_assert_eq(rsk_cgroup_of_peer(pair[0], getppid(), path), -ESRCH);

	listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&name, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	len = sizeof(name);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&name, &len), 0);
	child = fork();
	if (child == 0)
		_exit(connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&name, len));
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	accepted = accept(listener, NULL, NULL);
	cr_assert_geq(accepted, 0);
	cr_assert_eq(rsk_cgroup_of_peer(accepted, child, path), -ESRCH);
	/* As if another process had its number now. */
	cr_assert_eq(rsk_cgroup_of_peer(accepted, getpid(), path), -ESRCH);
}
