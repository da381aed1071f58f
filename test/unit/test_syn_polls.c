// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn_polls.c - tests that a thread that polls a connection sees nothing of a segment that the
 * kernel shows, the first time or again, and everything else.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "epoll.h"
#include "plain_host.h"
#include "ready.h"
#include "sigdefer.h"
#include "stream.h"
#include "syn.h"
#include "syn_kit.h"

/* As when the segment is lost, and sent again: the kernel shows it once more. */
Test(syn_polls, a_segment_that_is_shown_again)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(what))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
				.cmsg_type = SO_TIMESTAMPING,
				.cmsg_len = CMSG_LEN(sizeof(what)) } };
	char again[] = "again";
	struct iovec iov = { again, 5 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct pollfd p;

	rsk_engine_init(&plain_host);
	memcpy(CMSG_DATA(&control.head), &what, sizeof(what));
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	cr_assert_eq(sendmsg(fd[0], &m, 0), 5);
	p = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	cr_assert_eq(poll(&p, 1, 0), 1);
	cr_assert_eq(p.revents, POLLERR);
	cr_assert_eq(rsk_stream_poll_unpaired(s[0], fd[0], POLLIN, POLLERR), POLLERR,
		     "it may be the program's");
	atomic_store(&s[0]->syn.shown, true);
	cr_assert_eq(rsk_stream_poll_unpaired(s[0], fd[0], POLLIN, POLLERR), 0);
	cr_assert_eq(poll(&p, 1, 0), 0);
}

/* An end is reported as without it. */
Test(syn_polls, a_segment_that_is_shown_again_beside_the_end)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	struct pollfd p = { .events = POLLIN };
	int listener, fd[2];
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	transfer(fd[0], fd[1], 5);
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	transfer(fd[0], fd[1], 5);
	close(fd[1]);
	cr_assert_eq(shutdown(fd[0], SHUT_WR), 0);
	atomic_store(&s[0]->syn.shown, true);
	p.fd = fd[0];
	for (int i = 0; i < 1000 && !(p.revents & POLLHUP); i++) {
		usleep(1000);
		cr_assert_eq(poll(&p, 1, 1000), 1);
	}
	cr_assert_eq(p.revents, POLLIN | POLLERR | POLLHUP);
	cr_assert_eq(rsk_stream_poll_unpaired(s[0], fd[0], POLLIN, p.revents), POLLIN | POLLHUP);
}

/* A poll() that has nothing else to report goes on to wait. */
Test(syn_polls, a_poll_goes_on_when_a_segment_is_shown_again)
{
	const struct timespec wait = { .tv_nsec = 200000000 };
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	int listener, fd[2];
	struct pollfd p;
	struct rsk_stream *s;
	uint64_t began;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_socket(fd[0], true, false);
	cr_assert_eq(connect(fd[0], &at.any, sizeof(at)), 0);
	rsk_fd_connected(fd[0], &at.any, sizeof(at));
	fd[1] = accept(listener, NULL, NULL);
	s = rsk_stream_of(fd[0]);
	cr_assert_not_null(s);
	atomic_store(&s->syn.shown, true);
	/* All packets of the socket are shown from now on. */
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	cr_assert_eq(send(fd[0], "again", 5, 0), 5);
	p = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	began = rsk_now_ns();
	cr_assert_eq(rsk_poll(&p, 1, &wait, NULL), 0);
	cr_assert_eq(p.revents, 0);
	cr_assert_geq(rsk_now_ns() - began, 200000000);
	rsk_stream_unpin(s);
}

/* A completion of MSG_ZEROCOPY is the program's, whatever else the queue may show. */
Test(syn_polls, a_completion_is_not_taken)
{
	struct pollfd p = { .events = 0 };
	int listener, fd, on = 1;
	struct rsk_stream *s;
	char byte;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_socket(fd, true, false);
	cr_assert_eq(connect(fd, &at.any, sizeof(at)), 0);
	rsk_fd_connected(fd, &at.any, sizeof(at));
	s = rsk_stream_of(fd);
	cr_assert_not_null(s);
	atomic_store(&s->syn.shown, true);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), 0);
	cr_assert_eq(send(fd, "mine", 4, MSG_ZEROCOPY), 4);
	p.fd = fd;
	cr_assert_eq(poll(&p, 1, 5000), 1);
	cr_assert_eq(p.revents, POLLERR);
	cr_assert_eq(rsk_stream_poll_unpaired(s, fd, 0, POLLERR), POLLERR);
	cr_assert_eq(recv(fd, &byte, 1, MSG_ERRQUEUE), 0, "the completion is there");
	close(listener);
	rsk_stream_unpin(s);
}

/* An error of another file whose registration has the same data is reported, at last. */
Test(syn_polls, an_error_of_what_has_the_same_data)
{
	const struct timespec wait = { .tv_sec = 5 }, now = { 0 };
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	struct epoll_event in = { .events = EPOLLIN, .data.u64 = 7 }, none = { .data.u64 = 7 }, ev;
	int listener, fd, set, ends[2];
	struct rsk_stream *s;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_socket(fd, true, false);
	cr_assert_eq(connect(fd, &at.any, sizeof(at)), 0);
	rsk_fd_connected(fd, &at.any, sizeof(at));
	s = rsk_stream_of(fd);
	cr_assert_not_null(s);
	set = epoll_create1(0);
	rsk_fd_epoll(set);
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_ADD, fd, &in), 0);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(rsk_epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &none), 0);
	atomic_store(&s->syn.shown, true);
	atomic_store(&rsk_syn_some_shown, true);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	cr_assert_eq(send(fd, "shown", 5, 0), 5);
	cr_assert_eq(rsk_epoll_wait(set, &ev, 1, &now, NULL), 0, "a segment that is shown");
	close(ends[0]);
	cr_assert_eq(rsk_epoll_wait(set, &ev, 1, &wait, NULL), 1);
	cr_assert_eq(ev.events, EPOLLERR);
	cr_assert_eq(rsk_epoll_wait(set, &ev, 1, &wait, NULL), 1);
	cr_assert_eq(ev.events, EPOLLERR);
	epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL);
	cr_assert_eq(send(fd, "shown", 5, 0), 5);
	cr_assert_eq(rsk_epoll_wait(set, &ev, 1, &now, NULL), 0, "another one");
	close(listener);
	rsk_stream_unpin(s);
}

static struct rsk_stream *polled;
static int polled_fd;

static void *polls(void *arg)
{
	*(short *)arg = rsk_stream_poll_unpaired(polled, polled_fd, POLLIN, POLLERR);
	return NULL;
}

static bool joins(pthread_t thread, long ms)
{
	struct timespec by;

	clock_gettime(CLOCK_REALTIME, &by);
	by.tv_nsec += ms * 1000000;
	by.tv_sec += by.tv_nsec / 1000000000;
	by.tv_nsec %= 1000000000;
	return pthread_timedjoin_np(thread, NULL, &by) == 0;
}

/* A thread that the packet wakes leaves it to the one that has sent it, and sees nothing. */
Test(syn_polls, who_is_woken_meanwhile_waits)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	struct pollfd p = { .events = POLLIN };
	int listener, fd[2];
	struct rsk_stream *s[2];
	pthread_t thread;
	short told = -1;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	polled = s[0];
	p.fd = polled_fd = fd[0];
	atomic_store(&s[0]->syn.shown, true);
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	cr_assert(rsk_syn_reading_try());
	cr_assert_not(rsk_syn_reading_try(), "another thread's would not wait");
	cr_assert_eq(send(fd[0], "shown", 5, 0), 5);
	cr_assert_eq(poll(&p, 1, 1000), 1);
	cr_assert_eq(pthread_create(&thread, NULL, polls, &told), 0);
	cr_assert_not(joins(thread, 50));
	cr_assert_eq(poll(&p, 1, 0), 1, "the packet is there");
	rsk_syn_take_late(s[0], fd[0]);
	cr_assert_eq(poll(&p, 1, 0), 0);
	rsk_syn_reading_end();
	cr_assert(joins(thread, 20000));
	cr_assert_eq(told, 0);
	cr_assert(rsk_syn_reading_try());
	rsk_syn_reading_end();
}

static _Atomic(bool) ran;

/* As the signal trampoline calls one. */
static void handler(int number)
{
	(void)number;
	rsk_sigdefer_handled++;
	atomic_store(&ran, true);
}

static void *polls_long(void *arg)
{
	const struct timespec wait = { .tv_sec = 5 };
	struct pollfd p = { .fd = polled_fd, .events = POLLIN };

	*(int *)arg = rsk_poll(&p, 1, &wait, NULL);
	return NULL;
}

/* A handler that runs while such a thread looks what woke it interrupts its poll(). */
Test(syn_polls, a_signal_meanwhile_interrupts_a_poll)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	struct pollfd p = { .events = POLLIN };
	struct rsk_stream *s;
	int listener, fd[2], told = -1;
	pthread_t thread;

	rsk_engine_init(&plain_host);
	cr_assert_neq(signal(SIGUSR1, handler), SIG_ERR);
	listener = listener_of(AF_INET);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_socket(fd[0], true, false);
	cr_assert_eq(connect(fd[0], &at.any, sizeof(at)), 0);
	rsk_fd_connected(fd[0], &at.any, sizeof(at));
	fd[1] = accept(listener, NULL, NULL);
	s = rsk_stream_of(fd[0]);
	cr_assert_not_null(s);
	p.fd = polled_fd = fd[0];
	atomic_store(&s->syn.shown, true);
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	cr_assert(rsk_syn_reading_try());
	cr_assert_eq(send(fd[0], "shown", 5, 0), 5);
	cr_assert_eq(poll(&p, 1, 1000), 1);
	cr_assert_eq(pthread_create(&thread, NULL, polls_long, &told), 0);
	cr_assert_not(joins(thread, 50));
	cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
	while (!atomic_load(&ran))
		sched_yield();
	rsk_syn_take_late(s, fd[0]);
	rsk_syn_reading_end();
	cr_assert(joins(thread, 20000));
	cr_assert_eq(told, -EINTR);
	rsk_stream_unpin(s);
}

/* Whoever takes the packet: the next send is to show its segment, and is not taken for the last. */
Test(syn_polls, what_comes_late_is_gone_then)
{
	const uint32_t what = SOF_TIMESTAMPING_TX_SCHED;
	int listener, fd[2];
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	atomic_store(&s[0]->syn.shown, true);
	atomic_store(&s[0]->syn.asked, RSK_SYN_LATE);
	rsk_syn_take_late(s[0], fd[0]);
	cr_assert_eq(atomic_load(&s[0]->syn.asked), RSK_SYN_LATE, "it has not come");
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_TIMESTAMPING, &what, sizeof(what)), 0);
	cr_assert_eq(send(fd[0], "late", 4, 0), 4);
	cr_assert_eq(rsk_stream_poll_unpaired(s[0], fd[0], POLLIN, POLLERR), 0);
	cr_assert_eq(atomic_load(&s[0]->syn.asked), RSK_SYN_ASKED);
	atomic_store(&s[0]->syn.asked, RSK_SYN_NOT_ASKED);
	cr_assert_eq(send(fd[0], "again", 5, 0), 5);
	cr_assert_eq(rsk_stream_poll_unpaired(s[0], fd[0], POLLIN, POLLERR), 0);
	cr_assert_eq(atomic_load(&s[0]->syn.asked), RSK_SYN_NOT_ASKED);
}
