/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * select.c - tests how many descriptors select() checks: no more than the process has room for,
 * whatever count it is given.
 */
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "app.h"

#define BEHIND 0x5a

/* A set, followed by memory that select() must not use: mapped if @there, else none. */
static fd_set *set_of(int fd, bool there)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 1 << 20;
	char *p =
		mmap(NULL, page + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd_set *set;

	if (p == MAP_FAILED)
		app_die("mmap");
	memset(p + page, BEHIND, room);
	if (!there)
		MUST(munmap(p + page, room));
	set = (void *)(p + page - sizeof(*set));
	FD_ZERO(set);
	FD_SET(fd, set);
	return set;
}

static bool is_untouched(const fd_set *set)
{
	const char *behind = (const char *)(set + 1);

	for (int i = 0; i < 1 << 20; i++)
		if (behind[i] != BEHIND)
			return false;
	return true;
}

/* As in programs that use the limit of descriptors as their number. */
static void select_all(int fd, int all)
{
	fd_set *edge = set_of(fd, false), *set = set_of(fd, true);
	struct timespec at_once = { 0 };

	R(select(all, edge, NULL, NULL, NULL));
	R(select(all, set, NULL, NULL, NULL));
	R(select(all, NULL, set, NULL, NULL));
	R(pselect(all, edge, NULL, NULL, NULL, NULL));
	R(pselect(all, set, NULL, NULL, &at_once, NULL));
	R(syscall(SYS_pselect6, (long)all, edge, NULL, NULL, NULL, NULL));
	R(syscall(SYS_pselect6, (long)all, set, NULL, NULL, NULL, NULL));
#ifdef SYS_select
	R(syscall(SYS_select, (long)all, set, NULL, NULL, NULL));
#endif
	LOG("in the sets %d %d, nothing else %d", FD_ISSET(fd, edge), FD_ISSET(fd, set),
	    is_untouched(set));
}

/* With numbers beyond an fd_set's. */
static void select_large(int fd, int all)
{
	static unsigned long set[1 << 14];
	const size_t bits = 8 * sizeof(*set);
	struct timeval none = { 0 };
	int high = MUST(dup2(fd, 3000));

	set[high / bits] |= 1ul << high % bits;
	R(select(high + 1, (fd_set *)set, NULL, NULL, NULL));
	R(select(all, (fd_set *)set, NULL, NULL, NULL));
	LOG("in the set %d", (int)(set[high / bits] >> high % bits & 1));
	/* One that is not open; one beyond the size of the kernel's table. */
	set[3500 / bits] |= 1ul << 3500 % bits;
	R(select(all, (fd_set *)set, NULL, NULL, &none));
	set[3500 / bits] = 0;
	set[5000 / bits] |= 1ul << 5000 % bits;
	R(select(all, (fd_set *)set, NULL, NULL, &none));
	LOG("in the set %d", (int)(set[high / bits] >> high % bits & 1));
	MUST(close(high));
}

CASE(all, DIRECT, "select of all the descriptors that there can be: sets of those that there are")
{
	struct rlimit lim;
	int fd, p[2], all;

	MUST(getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = lim.rlim_max < 1 << 20 ? lim.rlim_max : 1 << 20;
	MUST(setrlimit(RLIMIT_NOFILE, &lim));
	all = (int)lim.rlim_cur;
	fd = app_open(WARM);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	MUST(write(p[1], "pair", 4));
	if (CLI)
		SAY(fd, "12345");
	else
		app_await_inq(fd, 5);
	/* No stream is in these sets. */
	select_all(p[0], all);
	if (SRV) {
		select_all(fd, all);
		select_large(fd, all);
		app_hear(fd, 5);
	}
	app_sync();
	app_close(fd);
}
