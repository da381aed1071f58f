// SPDX-License-Identifier: BSD-2-Clause
/* progress.c - see progress.h. */
#include "progress.h"

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

const struct rsk_progress_job *rsk_progress_job;

enum state {
	NONE,
	STARTING,
	RUNS,
	/* There is no device, no module, no memory: not tried again in this process. */
	FAILED,
};

/* Private to the process; a child makes its own. */
static struct {
	/* enum state; a change is a release, once what the state promises is in place */
	_Atomic(int) state;
	_Atomic(int) pid;
	_Atomic(bool) made;	  /* the thread exists */
	_Atomic(uint32_t) finish; /* 1: asked, 2: done; futex */
	struct rsk_lock busy;
	int epfd;
	_Atomic(int) doorbell; /* eventfd, -1: there is none */
	pthread_t thread;
	bool finishing; /* settled() was called since the request; progress thread only */
} progress = { .epfd = -1, .doorbell = -1 };

static __thread bool is_progress;

bool rsk_progress_is_me(void)
{
	return is_progress;
}

bool rsk_progress_runs(void)
{
	return atomic_load_explicit(&progress.state, memory_order_acquire) == RUNS &&
	       atomic_load_explicit(&progress.pid, memory_order_relaxed) == rsk_pid;
}

bool rsk_progress_there(void)
{
	int state = atomic_load(&progress.state);

	return (state == RUNS || (state == STARTING && atomic_load(&progress.made))) &&
	       atomic_load_explicit(&progress.pid, memory_order_relaxed) == rsk_pid;
}

void rsk_progress_call(void)
{
	static const uint64_t one = 1;
	int doorbell = atomic_load(&progress.doorbell);

	if (doorbell >= 0)
		rsk_sys_write(doorbell, &one, sizeof(one));
}

int rsk_progress_watch(struct rsk_watch *w, uint32_t events, bool anew)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return rsk_sys_epoll_ctl(progress.epfd, anew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, w->fd, &ev);
}

void rsk_progress_unwatch(struct rsk_watch *w)
{
	rsk_sys_epoll_ctl(progress.epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

static void finish_if_asked(void)
{
	bool first = !progress.finishing;

	progress.finishing = atomic_load(&progress.finish) == 1;
	if (!progress.finishing || !rsk_progress_job->settled(first))
		return;
	atomic_store(&progress.finish, 2);
	rsk_sys_futex((uint32_t *)&progress.finish, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static int timeout_ms(void)
{
	uint64_t now = rsk_now_ns(), next = rsk_progress_job->next_ns();

	/* No event reports when a control connection's last byte is acknowledged. */
	if (progress.finishing && next > now + FINISH_LOOK_NS)
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

	is_progress = true;
	rsk_sigdefer_enter();
	rsk_sys_prctl(PR_SET_NAME, (unsigned long)"rsock-progress", 0, 0, 0);
	rsk_lock(&progress.busy);
	if (rsk_progress_job->open() < 0) {
		/*
		 * The descriptors stay: another thread may be about to write to the doorbell
		 * (rsk_progress_call()), whose number must not lead to another file then.
		 */
		atomic_store(&progress.state, FAILED);
		rsk_unlock(&progress.busy);
		return NULL;
	}
	atomic_store_explicit(&progress.state, RUNS, memory_order_release);
	for (;;) {
		rsk_progress_job->work(rsk_now_ns());
		finish_if_asked();
		rsk_unlock(&progress.busy);
		/* The end of a signal-deferred section posts what was put. */
		rsk_sigdefer_exit();
		rsk_sigdefer_enter();
		n = rsk_sys_epoll_pwait(progress.epfd, evs, EVENTS, timeout_ms(), NULL);
		rsk_lock(&progress.busy);
		for (int i = 0; i < n; i++) {
			struct rsk_watch *w = evs[i].data.ptr;

			if (w)
				w->ready(w, evs[i].events);
			else
				rsk_sys_read(atomic_load(&progress.doorbell), &n64, sizeof(n64));
		}
	}
	return arg;
}

static int make_fds(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int doorbell;

	progress.epfd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));
	if (progress.epfd < 0)
		return progress.epfd;
	doorbell = rsk_own_fd(rsk_sys_eventfd2(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (doorbell < 0)
		return doorbell;
	atomic_store(&progress.doorbell, doorbell);
	return rsk_sys_epoll_ctl(progress.epfd, EPOLL_CTL_ADD, doorbell, &ev);
}

static void drop_fds(void)
{
	rsk_own_close(atomic_exchange(&progress.doorbell, -1));
	rsk_own_close(progress.epfd);
	progress.epfd = -1;
}

/* The thread never handles a signal. */
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
	rc = pthread_create(&progress.thread, &attr, keep, NULL);
	rsk_sys_rt_sigprocmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

bool rsk_progress_failed(void)
{
	return atomic_load(&progress.state) == FAILED;
}

bool rsk_progress_forbid(void)
{
	int state = NONE;

	return atomic_compare_exchange_strong(&progress.state, &state, FAILED) || state == FAILED;
}

int rsk_progress_start(void)
{
	int none = NONE, saved = errno, rc;

	if (atomic_load(&progress.state) != NONE)
		return atomic_load(&progress.state) == FAILED ? -ENODEV : 0;
	if (rsk_host->in_handler && rsk_host->in_handler())
		return -EAGAIN;
	if (!atomic_compare_exchange_strong(&progress.state, &none, STARTING))
		return 0;
	atomic_store(&progress.pid, rsk_pid);
	rc = make_fds();
	if (rc == 0)
		rc = start_thread();
	atomic_store(&progress.made, rc == 0);
	if (rc < 0) {
		drop_fds();
		atomic_store(&progress.state, FAILED);
		rsk_log(RSK_LOG_INFO, "no progress thread: %d", rc);
	}
	errno = saved; /* a hook's caller sees it */
	return rc;
}

void rsk_progress_finish(uint64_t timeout_ns)
{
	uint64_t until = rsk_now_ns() + timeout_ns, now;

	if (!rsk_progress_runs() || is_progress)
		return;
	atomic_store(&progress.finish, 1);
	rsk_progress_call();
	while (atomic_load(&progress.finish) != 2 && (now = rsk_now_ns()) < until) {
		struct timespec ts = { .tv_sec = (time_t)((until - now) / 1000000000u),
				       .tv_nsec = (long)((until - now) % 1000000000u) };

		rsk_sys_futex((uint32_t *)&progress.finish, FUTEX_WAIT_PRIVATE, 1, &ts, NULL, 0);
	}
	atomic_store(&progress.finish, 0);
}

/* Of the thread that forks, also in its child: two threads may fork at once. */
static __thread bool fork_waits;

void rsk_progress_fork(void)
{
	fork_waits = rsk_progress_runs() && !is_progress;
	if (fork_waits)
		rsk_lock(&progress.busy);
}

void rsk_progress_fork_parent(void)
{
	if (fork_waits)
		rsk_unlock(&progress.busy);
	fork_waits = false;
}

/*
 * What the parent's thread has made is the parent's; the child's thread makes its own when there is
 * a first link for it. If the parent's thread was still opening, or has failed, it is not known
 * what it has left in the libraries, and the child has no links to other hosts.
 */
void rsk_progress_fork_child(bool by_libc)
{
	bool again = fork_waits && by_libc && rsk_process_can_load();

	if (atomic_load(&progress.state) == NONE)
		return;
	if (fork_waits) {
		memset(&progress.busy, 0, sizeof(progress.busy));
		/*
		 * Called first: otherwise the end of the section would post what was put by the
		 * parent's rails.
		 */
		rsk_progress_job->forked();
		rsk_sigdefer_exit(); /* undoes the parent's rsk_lock() */
	}
	fork_waits = false;
	drop_fds();
	atomic_store(&progress.made, false);
	atomic_store(&progress.finish, 0);
	progress.finishing = false;
	atomic_store(&progress.state, again ? NONE : FAILED);
}
