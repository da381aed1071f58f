/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter.c - tests seccomp filters that a program sets itself: streams go on under one that lets
 * the library's calls through, and are on TCP before one is in force that does not.
 */
#include "filter.h"

#include <sys/select.h>

#include "rawclose.h"

#define BULK 600000u

#define EXACT filter_exact, sizeof(filter_exact) / sizeof(filter_exact[0])

static void bulk(int fd)
{
	if (SRV) {
		R(app_send_pattern(fd, BULK, 30000, 1));
		R(app_recv_pattern(fd, BULK, 30000, 2));
	} else {
		R(app_recv_pattern(fd, BULK, 30000, 1));
		R(app_send_pattern(fd, BULK, 30000, 2));
	}
}

/* Each kind of wait, with nothing to read first. */
static void waits(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	fd_set set;
	int ep;

	app_sync();
	if (CLI) {
		for (int i = 0; i < 3; i++) {
			SAY(fd, "wait");
			app_sync();
		}
		return;
	}
	R(poll(&p, 1, -1));
	app_hear(fd, 4);
	app_sync();
	FD_ZERO(&set);
	FD_SET(fd, &set);
	R(select(fd + 1, &set, NULL, NULL, NULL));
	app_hear(fd, 4);
	app_sync();
	ep = (int)MUST(epoll_create1(0));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	R(epoll_wait(ep, &ev, 1, -1));
	app_hear(fd, 4);
	close(ep);
	app_sync();
}

static void end(int fd)
{
	app_sync();
	app_close(fd);
}

CASE(exact_before, DIRECT, "a filter that lets just the library's calls through: pairing")
{
	int fd;

	R(filter_prctl(EXACT));
	fd = app_open(WARM);
	app_expect_rings(1);
	bulk(fd);
	waits(fd);
	LOG("good %d", app_pingpong(fd, 300, CLI));
	R(shutdown(fd, SHUT_WR));
	app_drain(fd, "drained");
	end(fd);
}

CASE(exact_paired, DIRECT, "the same filter, on a stream with unread bytes in its ring")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "unread");
	else
		app_await_inq(fd, 6);
	app_sync();
	R(filter_syscall(EXACT, 0));
	if (SRV)
		app_hear(fd, 6);
	app_expect_rings(1);
	bulk(fd);
	waits(fd);
	app_expect_rings(1);
	end(fd);
}

CASE(exact_full, DIRECT, "under the filter a ring that stays full goes by TCP, and back")
{
	int fd = app_open(WARM);
	uint64_t n;

	R(filter_prctl(EXACT));
	if (CLI) {
		n = app_fill(fd, 1);
		app_flag_set(2, n);
		app_set_nonblock(fd, false);
	} else {
		n = app_flag_wait(2);
		R(app_recv_pattern(fd, n, 50000, 1));
	}
	app_sync();
	LOG("good %d", app_pingpong(fd, 300, CLI));
	bulk(fd);
	end(fd);
}

CASE(exact_fork, DIRECT, "under the filter a process forks, with unread bytes")
{
	int fd = app_open(WARM);

	R(filter_prctl(EXACT));
	if (CLI) {
		SAY(fd, "of the child");
		app_sync();
		LOG("good %d", app_pingpong(fd, 300, true));
	} else {
		app_await_inq(fd, 12);
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			app_hear(fd, 12);
			_exit(0);
		}
		app_reap(pid, "child");
		app_sync();
		LOG("good %d", app_pingpong(fd, 300, false));
	}
	end(fd);
}

CASE(exact_passed, DIRECT, "under the filter a stream with unread bytes gets a stdio stream")
{
	int fd = app_open(WARM);

	R(filter_prctl(EXACT));
	if (CLI) {
		SAY(fd, "a line\n");
		app_sync();
		app_hear(fd, 5);
	} else {
		char line[16];
		FILE *file;

		app_await_inq(fd, 7);
		app_sync();
		file = fdopen(fd, "r+");
		LOG("line %s", file && fgets(line, sizeof(line), file) ? line : "none");
		SAY(fd, "heard");
	}
	end(fd);
}

static void by_thread(void *fd)
{
	char text[4];

	LOG("thread %d", app_read_full(*(int *)fd, text, 4) == 4 && !memcmp(text, "late", 4));
}

CASE(exact_threads, DIRECT, "the filter comes for all threads, one of which sleeps in a read")
{
	int fd = app_open(WARM);
	struct app_thread thread;

	if (SRV) {
		app_thread_start(&thread, by_thread, &fd);
		app_await_asleep(thread.tid);
		R(filter_syscall(EXACT, SECCOMP_FILTER_FLAG_TSYNC));
	}
	app_sync();
	if (CLI)
		SAY(fd, "late");
	else
		app_thread_join(&thread);
	app_expect_rings(1);
	bulk(fd);
	end(fd);
}

/* ---- filters that do not let a needed call through ---- */

static void denied_before(uint32_t action)
{
	int fd;

	R(filter_one(SYS_eventfd2, action));
	fd = app_open(WARM);
	bulk(fd);
	waits(fd);
	end(fd);
}

CASE(errno_before, 0, "a call that is needed fails: TCP")
{
	denied_before(SECCOMP_RET_ERRNO | EPERM);
}

CASE(kill_before, 0, "a call that is needed kills: TCP")
{
	denied_before(SECCOMP_RET_KILL_PROCESS);
}

CASE(trap_before, 0, "a call that is needed traps: TCP")
{
	denied_before(SECCOMP_RET_TRAP);
}

/* Streams of a ring wait in ppoll(); kernel TCP's need not. */
static void denied_paired(uint32_t action, bool twice)
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "unread");
	else
		app_await_inq(fd, 6);
	app_sync();
	if (twice) {
		R(filter_prctl(EXACT));
		app_expect_rings(1);
	}
	if (SRV) {
		R(filter_one(SYS_ppoll, action));
		app_hear(fd, 6);
	}
	app_sync();
	bulk(fd);
	waits(fd);
	LOG("good %d", app_pingpong(fd, 300, CLI));
	end(fd);
}

CASE(errno_paired, DIRECT, "the stream has left the ring before a call of it fails")
{
	denied_paired(SECCOMP_RET_ERRNO | ENOSYS, false);
}

CASE(kill_paired, DIRECT, "the stream has left the ring before a call of it kills")
{
	denied_paired(SECCOMP_RET_KILL_PROCESS, false);
}

CASE(trap_paired, DIRECT, "the stream has left the ring before a call of it traps")
{
	denied_paired(SECCOMP_RET_TRAP, false);
}

CASE(stricter, DIRECT, "a second filter takes away what the first one let through")
{
	denied_paired(SECCOMP_RET_KILL_PROCESS, true);
}

CASE(denied_threads, DIRECT, "it comes for all threads, one of which sleeps in a read")
{
	struct sock_filter code[] = { NR, IF_EQ(SYS_ppoll, 1),
				      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), ALLOW };
	int fd = app_open(WARM);
	struct app_thread thread;

	if (SRV) {
		app_thread_start(&thread, by_thread, &fd);
		app_await_asleep(thread.tid);
		R(filter_syscall(code, sizeof(code) / sizeof(code[0]), SECCOMP_FILTER_FLAG_TSYNC));
	}
	app_sync();
	if (CLI)
		SAY(fd, "late");
	else
		app_thread_join(&thread);
	bulk(fd);
	end(fd);
}

/* ---- other forms ---- */

CASE(asked, DIRECT, "a program asks whether the kernel knows filters: nothing changes")
{
	int fd = app_open(WARM);

	R(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	R(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(uint32_t){ SECCOMP_RET_LOG }));
	R(prctl(PR_GET_SECCOMP));
	bulk(fd);
	app_expect_rings(1);
	end(fd);
}

/* In strict mode: read(), write() and the end of the thread are all that there is. */
static void strictly(void *fd)
{
	char text[6];

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0 && read(*(int *)fd, text, 6) == 6 &&
	    write(*(int *)fd, text, 6) == 6)
		syscall(SYS_exit, 0);
	app_die("not in strict mode");
}

CASE(strict, DIRECT, "a thread in strict mode reads and writes")
{
	int fd = app_open(WARM);
	struct app_thread thread;

	if (CLI) {
		SAY(fd, "strict");
		app_hear(fd, 6);
	} else {
		app_await_inq(fd, 6);
		app_thread_start(&thread, strictly, &fd);
		app_thread_join(&thread);
	}
	app_sync();
	bulk(fd);
	end(fd);
}

/* ---- a filter that kills for whatever a process on kernel TCP does not call ---- */

static const struct sock_filter filter_tight[] = {
	NR,
	OWN,
	OWN_CLONE,
	ANY(read),
	ANY(write),
	ANY(close),
	ANY(shutdown),
	ANY(futex),
	ANY(epoll_create1),
	ANY(epoll_ctl),
#ifndef SYS_poll
	ANY(ppoll),
	ANY(epoll_pwait),
#endif
	ANY(socket),
	ANY(setsockopt),
	ANY(bind),
	ANY(listen),
	ANY(connect),
	ANY(getsockname),
	ANY(wait4),
	/* libc's: memory, a thread, its own random number for malloc */
	ANY(brk),
	ANY(mmap),
	ANY(munmap),
	ANY(mprotect),
	WITH(madvise, 2, MADV_DONTNEED),
	WITH(getrandom, 2, GRND_NONBLOCK),
	ANY(rt_sigprocmask),
	ANY(exit_group),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

#define TIGHT filter_tight, sizeof(filter_tight) / sizeof(filter_tight[0])

/* What a stream does in the kernel alone; the end of the process, too, is under the filter. */
static void plain_life(int fd)
{
	pid_t pid;

	bulk(fd);
	waits(fd);
	LOG("good %d", app_pingpong(fd, 300, CLI));
	pid = (pid_t)MUST(fork());
	if (!pid) {
		LOG("of the child %d", SRV && write(fd, "child", 5) == 5);
		_exit(0);
	}
	app_reap(pid, "child");
	if (CLI)
		app_hear(fd, 5);
	app_sync();
	R(shutdown(fd, SHUT_WR));
	app_drain(fd, "drained");
	end(fd);
}

CASE(tight_before, 0, "only the calls of kernel TCP: a process that has no stream yet")
{
	int fd;

	R(filter_prctl(TIGHT));
	fd = app_open(COLD);
	plain_life(fd);
}

CASE(tight_by_syscall, 0, "the same, set by syscall()")
{
	int fd;

	R(filter_syscall(TIGHT, 0));
	fd = app_open(COLD);
	plain_life(fd);
}

/* Words of four bytes, the last one a line. */
static void words(int fd, FILE *file)
{
	char word[8] = "";

	for (int i = 0; i < 400; i++) {
		if (SRV)
			app_hear(fd, 4);
		SAY(fd, i < 399 ? "word" : "end\n");
		if (CLI && i < 399)
			app_hear(fd, 4);
	}
	if (CLI)
		LOG("line %s", fgets(word, sizeof(word), file) ? word : "none");
}

CASE(had_before, 0, "a process that begins under a filter has a connection before its first socket")
{
	int fd, other;
	FILE *file = NULL;

	if (SRV) {
		fd = app_accept(app_listen(0));
	} else {
		struct app_addr to;

		app_addr_make(&to, 0, false, app_port());
		fd = (int)MUST(raw_call(SYS_socket, AF_INET, SOCK_STREAM, 0));
		MUST(raw_call(SYS_connect, fd, (long)&to.sa, (long)to.len));
		file = fdopen(fd, "r");
		other = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		app_close(other);
	}
	words(fd, file);
	app_sync();
}

CASE(tight_paired, DIRECT, "only the calls of kernel TCP: a stream that was on the ring")
{
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(0));
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	if (CLI)
		SAY(fd, "unread");
	else
		app_await_inq(fd, 6);
	app_sync();
	R(filter_prctl(TIGHT));
	if (SRV) {
		ev.data.u64 = 0;
		R(epoll_wait(ep, &ev, 1, -1));
		LOG("of %d", (int)ev.data.u64);
		app_hear(fd, 6);
	}
	plain_life(fd);
	R(epoll_wait(ep, &ev, 1, 0));
	close(ep);
}

CASE(tight_one, DIRECT, "only the calls of kernel TCP, at one end")
{
	int fd = app_open(WARM);

	if (SRV)
		R(filter_prctl(TIGHT));
	plain_life(fd);
}
