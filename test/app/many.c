/* SPDX-License-Identifier: BSD-2-Clause */
/* many.c - tests many streams between two processes. */
#include "app.h"

#include <sys/resource.h>

enum {
	MANY = 3000,
	AT_ONCE = 100, /* connections that are opened before the first of them is used */
	ROUNDS = 48
};

static int fds[MANY], the_ep;

/* The limit of descriptors does not matter to the case, as long as it is large enough. */
static void more_fds(void)
{
	struct rlimit lim;

	MUST(getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = lim.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &lim));
	if (lim.rlim_cur < 2 * MANY)
		app_die("RLIMIT_NOFILE %lu", (unsigned long)lim.rlim_cur);
}

static int use_all(int from, int to, uint32_t rounds)
{
	int good = 0;

	for (int i = from; i < to; i++)
		good += app_pingpong(fds[i], rounds, CLI) == (int)rounds;
	return good;
}

static void open_many(void)
{
	int listener = SRV ? app_listen(COLD) : -1, one = 1, good = 0;

	for (int from = 0; from < MANY; from += AT_ONCE) {
		for (int i = from; i < from + AT_ONCE; i++) {
			fds[i] = SRV ? app_accept(listener) : app_connect(COLD);
			MUST(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		}
		good += use_all(from, from + AT_ONCE, ROUNDS);
	}
	LOG("opened, good %d", good);
}

/* Answers each stream once, as reported by one set that has all of them. */
static void answer_all(void)
{
	int answered = 0;

	while (answered < MANY) {
		struct epoll_event ev[64];
		int n = epoll_wait(the_ep, ev, 64, 20000);

		if (n <= 0)
			app_die("epoll_wait %d after %d", n, answered);
		for (int i = 0; i < n; i++, answered++)
			if (app_pingpong(fds[ev[i].data.u32], 1, false) != 1)
				app_die("stream %u", ev[i].data.u32);
	}
	LOG("answered %d", answered);
}

CASE(many_streams, DIRECT | LONG_RUN,
     "3,000 streams between two processes, all direct; an epoll set of them")
{
	more_fds();
	open_many();
	app_expect_rings(MANY);
	LOG("again, good %d", use_all(0, MANY, 2));
	if (SRV) {
		the_ep = (int)MUST(epoll_create1(0));
		for (uint32_t i = 0; i < MANY; i++) {
			struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };

			MUST(epoll_ctl(the_ep, EPOLL_CTL_ADD, fds[i], &ev));
		}
	}
	app_sync();
	if (SRV)
		answer_all();
	else
		for (int i = MANY - 1; i >= 0; i--)
			use_all(i, i + 1, 1);
	app_sync();
	for (int i = 0; i < MANY; i++)
		app_close(fds[i]);
}

/*
 * More streams than a link has ids for before it reuses them: their rings contain slots of earlier
 * streams.
 */
CASE(one_after_another, DIRECT, "400 short streams, one after the other, of the same two processes")
{
	int listener = SRV ? app_listen(COLD) : -1, good = 0, one = 1;

	for (int i = 0; i < 400; i++) {
		int fd = SRV ? app_accept(listener) : app_connect(COLD);

		MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		good += app_pingpong(fd, ROUNDS, CLI) == ROUNDS;
		if (i == 399) {
			for (int done = 0; app_warm_goes_on(fd, done, 0); done++)
				app_pingpong(fd, 1, CLI);
			app_expect_rings(1);
		}
		app_close(fd);
	}
	LOG("good %d", good);
}

/*
 * Resident pages of memory that this process shares with its children, whichever of them touched
 * the pages.
 */
static int shared_pages(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int pages = 0;

	if (!maps)
		app_die("maps");
	while (fgets(line, sizeof(line), maps)) {
		char *end;
		uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
		unsigned char *in = NULL;

		if (!strstr(line, "/dev/zero"))
			continue;
		in = calloc(1, (to - from) / 4096);
		MUST(mincore((void *)from, to - from, in)); /* NOLINT(performance-no-int-to-ptr) */
		for (size_t i = 0; i < (to - from) / 4096; i++)
			pages += in[i] & 1;
		free(in);
	}
	fclose(maps);
	return pages;
}

CASE(child_each, 0, "a child for each connection, which ends by exit(): it leaves no memory behind")
{
	int listener = SRV ? app_listen(COLD) : -1, one = 1, good = 0, pages = 0;

	for (int i = 0; i < 120; i++) {
		int fd = SRV ? app_accept(listener) : app_connect(COLD), status = 0;
		pid_t pid = SRV ? (pid_t)MUST(fork()) : -1;

		if (pid) {
			if (SRV)
				app_close(fd);
		} else {
			MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
			exit(app_pingpong(fd, 2 * ROUNDS, false) != 2 * ROUNDS);
		}
		if (SRV) {
			MUST(waitpid(pid, &status, 0));
			good += status == 0;
			if (i == 20)
				pages = shared_pages();
			continue;
		}
		MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		good += app_pingpong(fd, 2 * ROUNDS, true) == 2 * ROUNDS;
		app_close(fd);
	}
	LOG("good %d", good);
	if (SRV)
		LOG("grows %d", shared_pages() - pages > 20);
}
