/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit.c - rsperf limit: what two processes of this machine can do at best, by each mechanism that
 * a library could use; a lower bound for latency figures. Parent and child pass a turn back and
 * forth.
 */
#include <errno.h>
#include <hdr_histogram.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"
#include "rsperf.h"

#define RSK_TURN_END UINT32_MAX

/*
 * Shared by parent and child; a cache line each, so that only the measured lines move between the
 * processors.
 */
struct rsk_turns {
	_Alignas(64) _Atomic uint32_t to_child;	 /* number of the turn; written by the parent */
	_Alignas(64) _Atomic uint32_t to_parent; /* written by the child */
};

/* One side of the exchange. */
struct rsk_peer {
	_Atomic uint32_t *mine;	  /* written by the other side */
	_Atomic uint32_t *theirs; /* written by this side */
	int my_fd;		  /* eventfds: -1 where not used */
	int their_fd;
	int epoll_fd;
};

struct rsk_means {
	bool eventfd;
	bool epoll;
	void (*wake)(const struct rsk_peer *p);
	void (*wait)(const struct rsk_peer *p, uint32_t turn);
};

static bool rsk_turn_come(const struct rsk_peer *p, uint32_t turn)
{
	uint32_t v = atomic_load_explicit(p->mine, memory_order_acquire);

	return v == turn || v == RSK_TURN_END;
}

static void rsk_no_wake(const struct rsk_peer *p)
{
	(void)p;
}

static void rsk_spin_wait(const struct rsk_peer *p, uint32_t turn)
{
	while (!rsk_turn_come(p, turn))
		; /* no pause instruction: it would add to the figure */
}

static void rsk_futex_wake(const struct rsk_peer *p)
{
	syscall(SYS_futex, p->theirs, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void rsk_futex_wait(const struct rsk_peer *p, uint32_t turn)
{
	while (!rsk_turn_come(p, turn))
		syscall(SYS_futex, p->mine, FUTEX_WAIT, turn - 1, NULL, NULL, 0);
}

static void rsk_eventfd_wake(const struct rsk_peer *p)
{
	uint64_t one = 1;

	if (write(p->their_fd, &one, sizeof(one)) < 0)
		perror("rsperf limit: eventfd");
}

static void rsk_eventfd_wait(const struct rsk_peer *p, uint32_t turn)
{
	uint64_t n;

	while (!rsk_turn_come(p, turn))
		if (read(p->my_fd, &n, sizeof(n)) < 0 && errno != EINTR)
			perror("rsperf limit: eventfd");
}

/* Edge-triggered and never read: every write is a new edge. */
static void rsk_epoll_wait(const struct rsk_peer *p, uint32_t turn)
{
	struct epoll_event ev;

	while (!rsk_turn_come(p, turn))
		epoll_wait(p->epoll_fd, &ev, 1, -1);
}

static const struct rsk_means rsk_means[] = {
	[RSK_LIMIT_CACHELINE] = { .wake = rsk_no_wake, .wait = rsk_spin_wait },
	[RSK_LIMIT_FUTEX] = { .wake = rsk_futex_wake, .wait = rsk_futex_wait },
	[RSK_LIMIT_EVENTFD] = { .eventfd = true,
				.wake = rsk_eventfd_wake,
				.wait = rsk_eventfd_wait },
	[RSK_LIMIT_EVENTFD_EPOLL] = { .eventfd = true,
				      .epoll = true,
				      .wake = rsk_eventfd_wake,
				      .wait = rsk_epoll_wait },
};

static int rsk_peer_open(struct rsk_peer *p, const struct rsk_means *m)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	p->my_fd = p->their_fd = p->epoll_fd = -1;
	if (m->eventfd)
		p->my_fd = eventfd(0, EFD_CLOEXEC);
	if (m->eventfd && p->my_fd < 0)
		return -errno;
	if (!m->epoll)
		return 0;
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0 || epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->my_fd, &ev) < 0)
		return -errno;
	return 0;
}

static void rsk_peer_close(const struct rsk_peer *p)
{
	if (p->my_fd >= 0)
		close(p->my_fd);
	if (p->epoll_fd >= 0)
		close(p->epoll_fd);
}

static void rsk_peer_pass(const struct rsk_peer *p, const struct rsk_means *m, uint32_t turn)
{
	atomic_store_explicit(p->theirs, turn, memory_order_seq_cst);
	m->wake(p);
}

static _Noreturn void rsk_limit_child(const struct rsk_opts *opts, const struct rsk_peer *p,
				      const struct rsk_means *m, pid_t parent)
{
	uint32_t turn = 0;

	/* Ends the child with its parent, instead of spinning for ever. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || rsk_pin_thread(opts, 1))
		_exit(1);
	for (;;) {
		m->wait(p, ++turn);
		if (atomic_load_explicit(p->mine, memory_order_acquire) == RSK_TURN_END)
			_exit(0);
		rsk_peer_pass(p, m, turn);
	}
}

/* The parent's side: measures until the time or the count is reached, or the child is gone. */
static void rsk_limit_measure(const struct rsk_opts *opts, const struct rsk_peer *p,
			      const struct rsk_means *m, struct hdr_histogram *times,
			      struct rsk_report *r)
{
	uint64_t from_ns = rsk_monotonic_ns() + (uint64_t)(opts->warmup_s * 1e9);
	uint64_t until_ns = from_ns + (uint64_t)(opts->time_s * 1e9);
	uint64_t begun = rsk_monotonic_ns(), now = begun;
	uint32_t turn = 0;

	do {
		if (++turn == RSK_TURN_END - 1)
			break; /* after some billions of turns */
		rsk_peer_pass(p, m, turn);
		m->wait(p, turn);
		now = rsk_monotonic_ns();
		if (begun >= from_ns)
			hdr_record_value(times, (int64_t)(now - begun));
		begun = now;
	} while (opts->count ? (uint64_t)times->total_count < opts->count : now < until_ns);
	r->seconds = (double)(now - from_ns) / 1e9;
}

static int rsk_limit_pair(const struct rsk_opts *opts, struct rsk_turns *turns,
			  struct rsk_peer *self, struct rsk_peer *child)
{
	const struct rsk_means *m = &rsk_means[opts->limit];
	struct rsk_report r = { .opts = opts };
	struct hdr_histogram *times = NULL;
	pid_t parent = getpid(), pid;
	struct rusage ru;
	int status;

	if (hdr_init(1, 60 * (int64_t)RSK_NS_PER_S, 3, &times))
		return -ENOMEM;
	self->mine = child->theirs = &turns->to_parent;
	self->theirs = child->mine = &turns->to_child;
	self->their_fd = child->my_fd;
	child->their_fd = self->my_fd;
	pid = fork();
	if (pid < 0) {
		hdr_close(times);
		return -errno;
	}
	if (pid == 0)
		rsk_limit_child(opts, child, m, parent);
	rsk_limit_measure(opts, self, m, times, &r);
	rsk_peer_pass(self, m, RSK_TURN_END);
	waitpid(pid, &status, 0);
	getrusage(RUSAGE_SELF, &ru);
	r.times = times;
	r.cpu_user_s = (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6;
	r.cpu_sys_s = (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec / 1e6;
	r.sleeps = (uint64_t)ru.ru_nvcsw;
	status = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? rsk_report_limit(&r) : -ECHILD;
	hdr_close(times);
	return status;
}

int rsk_limit_main(const struct rsk_opts *opts)
{
	const struct rsk_means *m;
	struct rsk_peer self = { 0 }, child = { 0 };
	struct rsk_turns *turns;
	int rc;

	/*
	 * Checks the child's CPU here, since a child that cannot start would leave the parent
	 * waiting.
	 */
	if (rsk_pin_thread(opts, 1) || rsk_pin_thread(opts, 0))
		return 1;
	if (opts->limit == RSK_LIMIT_COPY || opts->limit == RSK_LIMIT_SLOTS) {
		rc = opts->limit == RSK_LIMIT_COPY ? rsk_limit_copy(opts) : rsk_limit_slots(opts);
		if (rc)
			fprintf(stderr, "rsperf limit: %s\n", strerror(-rc));
		return rc ? 1 : 0;
	}
	m = &rsk_means[opts->limit];
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (turns == MAP_FAILED) {
		perror("rsperf limit: mmap");
		return 1;
	}
	rc = rsk_peer_open(&self, m);
	if (!rc)
		rc = rsk_peer_open(&child, m);
	else
		child = (struct rsk_peer){ .my_fd = -1, .epoll_fd = -1 };
	if (!rc)
		rc = rsk_limit_pair(opts, turns, &self, &child);
	if (rc)
		fprintf(stderr, "rsperf limit: %s\n", strerror(-rc));
	rsk_peer_close(&self);
	rsk_peer_close(&child);
	munmap(turns, sizeof(*turns));
	return rc ? 1 : 0;
}
