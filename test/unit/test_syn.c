// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn.c - tests what the two ends of a real connection find out about its first segment: the
 * same, over IPv4 and IPv6, by a send at any time; nothing where that is not certain, or a thread
 * polls, or the program keeps segments itself.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
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
#include "upcall.h"

static union {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} at;

static int listener_of(int family)
{
	int fd = socket(family, SOCK_STREAM, 0);

	memset(&at, 0, sizeof(at));
	at.any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		at.in6.sin6_addr = in6addr_loopback;
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, &at.any, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, &at.any, &(socklen_t){ sizeof(at) }), 0);
	return fd;
}

/* A connection, and two streams that know of it what the library's do. */
static void connection(int listener, int fd[2], struct rsk_stream *s[2])
{
	for (int i = 0; i < 2; i++) {
		s[i] = aligned_alloc(64, sizeof(struct rsk_stream));
		memset(s[i], 0, sizeof(struct rsk_stream));
	}
	s[0]->connecting_side = true;
	fd[0] = socket(at.any.sa_family, SOCK_STREAM, 0);
	cr_assert_eq(connect(fd[0], &at.any, sizeof(at)), 0);
	fd[1] = accept(listener, NULL, NULL);
	cr_assert_geq(fd[1], 0);
}

static struct rsk_syn seen; /* by the last send */
static bool late;

static ssize_t show(struct rsk_stream *s, int fd, size_t bytes)
{
	static const uint8_t some[RSK_SYN_SEND_BYTES];
	const struct iovec iov[] = { { (void *)some, bytes / 2 },
				     { (void *)some, bytes - bytes / 2 } };

	return rsk_syn_send(s, fd, iov, 2, MSG_NOSIGNAL, &seen, &late);
}

/* Waits until all is acknowledged: a send is only seen then. */
static void settle(int fd)
{
	int left = 1;

	for (int i = 0; i < 1000 && left; i++) {
		cr_assert_eq(ioctl(fd, SIOCOUTQ, &left), 0);
		usleep(left ? 1000 : 0);
	}
	cr_assert_eq(left, 0);
}

static void transfer(int from, int to, size_t bytes)
{
	char some[20000] = { 0 };

	cr_assert_eq(send(from, some, bytes, 0), (ssize_t)bytes);
	cr_assert_eq(recv(to, some, bytes, MSG_WAITALL), (ssize_t)bytes);
}

static void they_agree(int family)
{
	static const size_t sizes[] = { 1, 5, 1400, 4096, RSK_SYN_SEND_BYTES };
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn accepted, again;

	rsk_engine_init(&plain_host);
	listener = listener_of(family);
	rsk_syn_keep(listener);
	cr_assert(rsk_syn_hidden());
	for (size_t i = 0; i < 40; i++) {
		size_t bytes = sizes[i % 5];
		struct pollfd p;
		char got[RSK_SYN_SEND_BYTES];

		connection(listener, fd, s);
		/* Whatever was exchanged before. */
		for (size_t k = 0; k < i / 5; k++) {
			transfer(fd[0], fd[1], 1 + k * 2500);
			transfer(fd[1], fd[0], 1 + k * 700);
		}
		settle(fd[0]);
		cr_assert_eq(show(s[0], fd[0], bytes), (ssize_t)bytes);
		cr_assert_not(late);
		p = (struct pollfd){ .fd = fd[0], .events = POLLOUT };
		cr_assert_eq(poll(&p, 1, 0), 1);
		cr_assert_eq(p.revents, POLLOUT, "nothing is left in the error queue");
		cr_assert_eq(recv(fd[1], got, bytes, MSG_WAITALL), (ssize_t)bytes);
		cr_assert(rsk_syn_known(&seen, true), "%zu bytes: %u", bytes, seen.n);
		cr_assert(rsk_syn_learn(s[1], fd[1], &accepted));
		cr_assert(rsk_syn_known(&accepted, false));
		cr_assert(rsk_syn_match(&seen, &accepted), "%zu: %x %x of %u, %x %x", i, seen.seq,
			  seen.mark, seen.n, accepted.seq, accepted.mark);
		cr_assert(rsk_syn_match(&accepted, &seen));
		/* It can be read once, and stays known. */
		cr_assert(rsk_syn_learn(s[1], fd[1], &again));
		cr_assert_eq(rsk_syn_pack(again), rsk_syn_pack(accepted));
		again.mark = (uint16_t)(again.mark + RSK_SYN_MARKS_MOST);
		cr_assert_not(rsk_syn_match(&seen, &again));
		again = accepted;
		again.seq++;
		cr_assert_not(rsk_syn_match(&seen, &again));
		for (int k = 0; k < 2; k++) {
			close(fd[k]);
			free(s[k]);
		}
	}
}

Test(syn, both_ends_know_the_same)
{
	they_agree(AF_INET);
}

Test(syn, both_ends_know_the_same_by_ipv6)
{
	they_agree(AF_INET6);
}

static int flooded[2];
static _Atomic(bool) flood_over;

/* The peer sends, and what it sends is read: the kernel acknowledges it all the time. */
static void *floods(void *arg)
{
	static char some[4096];

	while (!atomic_load(&flood_over)) {
		send(flooded[1], some, sizeof(some), MSG_DONTWAIT);
		recv(flooded[0], some, sizeof(some), MSG_DONTWAIT);
	}
	return NULL;
}

/* Segments without bytes may have been sent ahead of the one that is shown. */
Test(syn, while_the_peer_sends)
{
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn accepted;
	int known = 0, several = 0;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	rsk_syn_keep(listener);
	for (int i = 0; i < 2000 && several < 100; i++) {
		pthread_t thread;

		connection(listener, fd, s);
		memcpy(flooded, fd, sizeof(fd));
		atomic_store(&flood_over, false);
		cr_assert_eq(pthread_create(&thread, NULL, floods, NULL), 0);
		usleep(100);
		seen.n = 0;
		show(s[0], fd[0], 4);
		atomic_store(&flood_over, true);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert(rsk_syn_learn(s[1], fd[1], &accepted));
		known += seen.n != 0;
		several += seen.n > 1;
		if (seen.n)
			cr_assert(rsk_syn_match(&seen, &accepted), "%d: %x of %u, %x", i, seen.mark,
				  seen.n, accepted.mark);
		for (int k = 0; k < 2; k++) {
			close(fd[k]);
			free(s[k]);
		}
	}
	cr_assert(known, "no segment was seen");
}

/* Then the kernel may hold the segment back, and the packet would come later. */
Test(syn, only_a_segment_that_leaves_at_once)
{
	int listener, on = 1, fd[2];
	struct rsk_stream *s[2];
	char got[16];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	cr_assert_eq(setsockopt(fd[0], IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	on = 0;
	cr_assert_eq(setsockopt(fd[0], IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	/* Bytes of other threads that the peer has no room for. */
	on = 1;
	cr_assert_eq(ioctl(fd[0], FIONBIO, &on), 0);
	while (send(fd[0], got, sizeof(got), 0) > 0)
		;
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	cr_assert_eq(recv(fd[1], got, 1, MSG_DONTWAIT), 1, "the connection goes on");
}

/* What is unacknowledged may have to be sent again, ahead of it. The peer acknowledges late. */
Test(syn, only_when_all_is_acknowledged)
{
	int listener, fd[2], late_ack = 0, unacked = 0;
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	for (int i = 0; i < 100 && !unacked; i++) {
		ssize_t n;

		connection(listener, fd, s);
		cr_assert_eq(setsockopt(fd[1], IPPROTO_TCP, TCP_QUICKACK, &late_ack,
					sizeof(late_ack)),
			     0);
		cr_assert_eq(send(fd[0], "some", 4, 0), 4);
		n = show(s[0], fd[0], 4);
		cr_assert_eq(ioctl(fd[0], SIOCOUTQ, &unacked), 0);
		if (n > 0)
			unacked -= (int)n; /* of the first send, if that was acknowledged */
		cr_assert(n == -RSK_EKERNEL || unacked <= 0, "shown with bytes unacknowledged");
	}
	cr_assert_gt(unacked, 0);
}

/* Nor where a rate, or a small buffer, holds it back. */
Test(syn, only_a_socket_that_sends_at_once)
{
	int listener, fd[2], value;
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	value = 4000;
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	connection(listener, fd, s);
	value = 4096;
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	connection(listener, fd, s);
	cr_assert_eq(show(s[0], fd[0], 4), 4);
}

/* As when the segment is lost, and sent again: the kernel shows it once more. */
Test(syn, a_segment_that_is_shown_again)
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
Test(syn, a_segment_that_is_shown_again_beside_the_end)
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
Test(syn, a_poll_goes_on_when_a_segment_is_shown_again)
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

/* An error of another file whose registration has the same data is reported, at last. */
Test(syn, an_error_of_what_has_the_same_data)
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
Test(syn, who_is_woken_meanwhile_waits)
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
Test(syn, a_signal_meanwhile_interrupts_a_poll)
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
Test(syn, what_comes_late_is_gone_then)
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

Test(syn, nothing_was_kept)
{
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn syn;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_not(rsk_syn_hidden());
	connection(listener, fd, s);
	cr_assert_not(rsk_syn_learn(s[1], fd[1], &syn));
	/* Nor does an end know of which no send was seen. */
	cr_assert_not(rsk_syn_learn(s[0], fd[0], &syn));
}

Test(syn, the_program_keeps_them_itself)
{
	int listener, on = 1, fd[2];
	struct rsk_stream *s[2];
	uint8_t segment[256];
	socklen_t len = sizeof(segment);
	struct rsk_syn syn;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_eq(setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	rsk_syn_is_the_programs();
	rsk_syn_keep(listener);
	cr_assert_not(rsk_syn_hidden());
	connection(listener, fd, s);
	cr_assert_not(rsk_syn_learn(s[1], fd[1], &syn));
	cr_assert_eq(getsockopt(fd[1], IPPROTO_TCP, TCP_SAVED_SYN, segment, &len), 0);
	cr_assert_gt(len, 40, "it is still there");
}

Test(syn, a_listener_that_keeps_them_already_is_left_alone)
{
	int listener, on = 1;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_eq(setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	rsk_syn_keep(listener);
	cr_assert_not(rsk_syn_hidden());
}
