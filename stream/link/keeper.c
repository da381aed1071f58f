// SPDX-License-Identifier: BSD-2-Clause
#include "keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <rsock/sys.h>

#include "lock.h"
#include "log.h"
#include "process.h"

#define STACK_BYTES (512u << 10)
#define EVENTS 64
#define NS_PER_MS 1000000u
#define FINISH_LOOK_NS 1000000u

const struct rsk_keeper_job *rsk_keeper_job;

enum state {
	NONE,
	STARTING,
	RUNS,
	FAILED, /* there is no device, no module, no memory: not tried again in this process */
};

/* Private to the process; a child makes its own. */
static struct {
	_Atomic(int) state; /* enum state; release once what it promises is in place */
	_Atomic(int) pid;
	_Atomic(bool) made;	  /* the thread is there */
	_Atomic(uint32_t) finish; /* 1: asked, 2: done; futex */
	struct rsk_lock busy;
	int epfd;
	_Atomic(int) doorbell; /* eventfd, -1: there is none */
	pthread_t thread;
	bool finishing; /* it has been looked into; keeper */
} keeper = { .epfd = -1, .doorbell = -1 };

static __thread bool is_keeper;

bool rsk_keeper_is_me(void)
{
	return is_keeper;
}

bool rsk_keeper_runs(void)
{
	return atomic_load_explicit(&keeper.state, memory_order_acquire) == RUNS &&
	       atomic_load_explicit(&keeper.pid, memory_order_relaxed) == rsk_pid;
}

bool rsk_keeper_there(void)
{
	int state = atomic_load(&keeper.state);

	return (state == RUNS || (state == STARTING && atomic_load(&keeper.made))) &&
	       atomic_load_explicit(&keeper.pid, memory_order_relaxed) == rsk_pid;
}

void rsk_keeper_call(void)
{
	static const uint64_t one = 1;
	int doorbell = atomic_load(&keeper.doorbell);

	if (doorbell >= 0)
		rsk_sys_write(doorbell, &one, sizeof(one));
}

int rsk_keeper_watch(struct rsk_watch *w, uint32_t events, bool anew)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return rsk_sys_epoll_ctl(keeper.epfd, anew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, w->fd, &ev);
}

void rsk_keeper_unwatch(struct rsk_watch *w)
{
	rsk_sys_epoll_ctl(keeper.epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

static void finish_if_asked(void)
{
	bool first = !keeper.finishing;

	keeper.finishing = atomic_load(&keeper.finish) == 1;
	if (!keeper.finishing || !rsk_keeper_job->settled(first))
		return;
	atomic_store(&keeper.finish, 2);
	rsk_sys_futex((uint32_t *)&keeper.finish, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static int timeout_ms(void)
{
	uint64_t now = rsk_now_ns(), next = rsk_keeper_job->next_ns();

	/* Nobody tells when a control connection's last byte is acknowledged. */
	if (keeper.finishing && next > now + FINISH_LOOK_NS)
		next = now + FINISH_LOOK_NS;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now + NS_PER_MS - 1) / NS_PER_MS);
}

static void *keep(void *arg)
{
	struct epoll_event evs[EVENTS];
	uint64_t n64;
	int n;

	is_keeper = true;
	rsk_guard_enter();
	rsk_sys_prctl(PR_SET_NAME, (unsigned long)"rsock-keeper", 0, 0, 0);
	rsk_lock(&keeper.busy);
	if (rsk_keeper_job->open() < 0) {
		atomic_store(&keeper.state, FAILED);
		rsk_unlock(&keeper.busy);
		return NULL;
	}
	atomic_store_explicit(&keeper.state, RUNS, memory_order_release);
	for (;;) {
		rsk_keeper_job->work(rsk_now_ns());
		finish_if_asked();
		rsk_unlock(&keeper.busy);
		/* What was put goes out at a section's end. */
		rsk_guard_exit();
		rsk_guard_enter();
		n = rsk_sys_epoll_pwait(keeper.epfd, evs, EVENTS, timeout_ms(), NULL);
		rsk_lock(&keeper.busy);
		for (int i = 0; i < n; i++) {
			struct rsk_watch *w = evs[i].data.ptr;

			if (w)
				w->ready(w, evs[i].events);
			else
				rsk_sys_read(atomic_load(&keeper.doorbell), &n64, sizeof(n64));
		}
	}
	return arg;
}

static int make_fds(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int doorbell;

	keeper.epfd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (keeper.epfd < 0)
		return keeper.epfd;
	doorbell = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (doorbell < 0)
		return doorbell;
	atomic_store(&keeper.doorbell, doorbell);
	return rsk_sys_epoll_ctl(keeper.epfd, EPOLL_CTL_ADD, doorbell, &ev);
}

static void drop_fds(void)
{
	rsk_own_close(atomic_exchange(&keeper.doorbell, -1));
	rsk_own_close(keeper.epfd);
	keeper.epfd = -1;
}

/* No signal is ever handled there. */
static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, was;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	memset(&all, 0xff, sizeof(all));
	rsk_sys_rt_sigprocmask(SIG_BLOCK, &all, &was);
	rc = pthread_create(&keeper.thread, &attr, keep, NULL);
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

bool rsk_keeper_failed(void)
{
	return atomic_load(&keeper.state) == FAILED;
}

int rsk_keeper_start(void)
{
	int none = NONE, saved = errno, rc;

	if (atomic_load(&keeper.state) != NONE)
		return atomic_load(&keeper.state) == FAILED ? -ENODEV : 0;
	if (rsk_host->in_handler && rsk_host->in_handler())
		return -EAGAIN;
	if (!atomic_compare_exchange_strong(&keeper.state, &none, STARTING))
		return 0;
	atomic_store(&keeper.pid, rsk_pid);
	rc = make_fds();
	if (rc == 0)
		rc = start_thread();
	atomic_store(&keeper.made, rc == 0);
	if (rc < 0) {
		drop_fds();
		atomic_store(&keeper.state, FAILED);
		rsk_log(RSK_LOG_INFO, "no keeper: %d", rc);
	}
	errno = saved; /* a hook's caller sees it */
	return rc;
}

void rsk_keeper_finish(uint64_t timeout_ns)
{
	uint64_t until = rsk_now_ns() + timeout_ns, now;

	if (!rsk_keeper_runs() || is_keeper)
		return;
	atomic_store(&keeper.finish, 1);
	rsk_keeper_call();
	while (atomic_load(&keeper.finish) != 2 && (now = rsk_now_ns()) < until) {
		struct timespec ts = { .tv_sec = (time_t)((until - now) / 1000000000u),
				       .tv_nsec = (long)((until - now) % 1000000000u) };

		rsk_sys_futex((uint32_t *)&keeper.finish, FUTEX_WAIT_PRIVATE, 1, &ts, NULL, 0);
	}
	atomic_store(&keeper.finish, 0);
}

/* Of the thread that forks, also in its child: two may fork at once. */
static __thread bool fork_waits;

void rsk_keeper_fork(void)
{
	fork_waits = rsk_keeper_runs() && !is_keeper;
	if (fork_waits)
		rsk_lock(&keeper.busy);
}

void rsk_keeper_fork_parent(void)
{
	if (fork_waits)
		rsk_unlock(&keeper.busy);
	fork_waits = false;
}

/*
 * libibverbs and librdmacm keep what they have opened for the process, and that is the parent's. A child's streams
 * go by TCP, and by shared memory on this host.
 */
void rsk_keeper_fork_child(void)
{
	if (atomic_load(&keeper.state) == NONE)
		return;
	if (fork_waits) {
		memset(&keeper.busy, 0, sizeof(keeper.busy));
		/* Muted first: at the section's end what was put would go by the parent's rails. */
		rsk_keeper_job->forked();
		rsk_guard_exit(); /* the parent's rsk_lock() */
	}
	fork_waits = false;
	atomic_store(&keeper.state, FAILED);
	drop_fds();
}
