// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_epoll_threads.c - tests epoll sets that several threads use at once. Every server thread
 * echoes what comes on its streams, each of which is also in the next thread's set. Every client
 * thread removes its registrations and adds them again for each message, and one thread makes sets
 * that hold all streams for a moment. In the second test all server threads wait on one set, which
 * another process seems to hold now and then, as after a fork. Under ThreadSanitizer it shows what
 * the locks do not cover.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "epoll.h"
#include "epollset.h"
#include "kin.h"
#include "pairing.h"
#include "stream.h"
#include "hooked.h"
#include "plain_host.h"

enum {
	THREADS = 4, /* on each side */
	STREAMS = 8,
	MESSAGES = 2000,
	BYTES = 64,
	LOOK_MS = 20 /* how often servers check whether they are to end */
};

static int server_fd[STREAMS], client_fd[STREAMS], server_set[THREADS];
static atomic_bool done;
static atomic_ullong echoed, retaken[2];

static void connect_pair(int *client, int *server)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	cr_assert_eq(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	*client = socket(AF_INET, SOCK_STREAM, 0);
	rsk_fd_new(*client);
	cr_assert_eq(connect(*client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	rsk_fd_connected(*client, (struct sockaddr *)&sa, sizeof(sa));
	*server = accept(listener, NULL, NULL);
	cr_assert_geq(*server, 0);
	rsk_fd_accepted(*server, false, listener, 0);
	setsockopt(*client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
}

static int new_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	cr_assert_geq(set, 0);
	rsk_fd_epoll(set);
	return set;
}

static void control(int set, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	cr_assert_eq(rsk_epoll_ctl(set, op, fd, &ev), 0);
}

static void echo(int fd)
{
	char buf[BYTES * 4];
	ssize_t n;

	while ((n = hooked_fall_back(fd, false, buf, sizeof(buf))) > 0) {
		cr_assert_eq(hooked_fall_back(fd, true, buf, (size_t)n), n);
		atomic_fetch_add(&echoed, (unsigned long long)n);
	}
	cr_assert_eq(n, -EAGAIN, "%zd", n);
}

static void *serve(void *arg)
{
	int set = server_set[(uintptr_t)arg];
	const struct timespec look = { .tv_nsec = LOOK_MS * 1000000 };
	struct epoll_event evs[STREAMS];

	while (!atomic_load(&done)) {
		int n = rsk_epoll_wait(set, evs, STREAMS, &look, NULL);

		cr_assert_geq(n, 0);
		for (int i = 0; i < n; i++)
			echo(server_fd[evs[i].data.u64]);
	}
	return NULL;
}

/* Writes when there is room, then reads until all is echoed. */
static void exchange(int set, int fd)
{
	char buf[BYTES] = "";
	size_t left = BYTES;
	struct epoll_event ev;
	ssize_t n;

	control(set, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
	cr_assert_eq(rsk_epoll_wait(set, &ev, 1, NULL, NULL), 1);
	cr_assert_eq(ev.events, EPOLLOUT);
	cr_assert_eq(hooked_fall_back(fd, true, buf, BYTES), BYTES);
	control(set, EPOLL_CTL_DEL, fd, 0, 0);
	control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
	while (left) {
		cr_assert_eq(rsk_epoll_wait(set, &ev, 1, NULL, NULL), 1);
		cr_assert(ev.events == EPOLLIN && ev.data.u64 == 2);
		n = hooked_fall_back(fd, false, buf, left);
		cr_assert_gt(n, 0, "%zd", n);
		left -= (size_t)n;
	}
	control(set, EPOLL_CTL_DEL, fd, 0, 0);
}

static void *ask(void *arg)
{
	int set = new_set();

	for (int i = 0; i < MESSAGES; i++)
		for (uintptr_t k = (uintptr_t)arg; k < STREAMS; k += THREADS)
			exchange(set, client_fd[k]);
	return NULL;
}

static void *come_and_go(void *arg)
{
	const struct timespec now = { 0 };
	struct epoll_event evs[STREAMS];

	(void)arg;
	while (!atomic_load(&done)) {
		int set = new_set();

		for (int k = 0; k < STREAMS; k++)
			control(set, EPOLL_CTL_ADD, server_fd[k], EPOLLIN | EPOLLET, 0);
		cr_assert_geq(rsk_epoll_wait(set, evs, STREAMS, &now, NULL), 0);
		control(set, EPOLL_CTL_DEL, server_fd[0], 0, 0);
		cr_assert_eq(rsk_fd_closing(set), 0);
		cr_assert_eq(close(set), 0);
		sched_yield();
	}
	return NULL;
}

/* As a fork does, of which the child lives for a while; but the streams stay on the ring. */
static void *fork_and_reap(void *arg)
{
	struct rsk_epoll *set = rsk_epoll_of(server_set[0]);
	bool held = false;

	(void)arg;
	while (!atomic_load(&done)) {
		if (!rsk_pairing_try())
			continue;
		held = !held;
		rsk_epoll_fork(&set, &server_set[0], 1);
		atomic_store(&rsk_epoll_kin(set)->others, held);
		rsk_epoll_fork_over(&set, 1, false);
		for (int k = 0; k < STREAMS; k++) {
			struct rsk_stream *s = rsk_stream_of(server_fd[k]);

			if (rsk_stream_phase(s) == RSK_PHASE_PAIRED) {
				cr_assert_eq(rsk_epoll_retake(s), 0);
				rsk_epoll_stream_event(s);
				atomic_fetch_add(&retaken[held], 1);
			}
			rsk_stream_unpin(s);
		}
		rsk_pairing_give();
		usleep(1000);
	}
	return NULL;
}

static void all_echoed(void *(*besides)(void *))
{
	pthread_t servers[THREADS], clients[THREADS], churn;

	for (uintptr_t t = 0; t < THREADS; t++) {
		pthread_create(&servers[t], NULL, serve, (void *)t);
		pthread_create(&clients[t], NULL, ask, (void *)t);
	}
	pthread_create(&churn, NULL, besides, NULL);
	for (int t = 0; t < THREADS; t++)
		pthread_join(clients[t], NULL);
	atomic_store(&done, true);
	for (int t = 0; t < THREADS; t++)
		pthread_join(servers[t], NULL);
	pthread_join(churn, NULL);
	cr_assert_eq(atomic_load(&echoed), (unsigned long long)STREAMS * MESSAGES * BYTES);
	cr_assert(rsk_fdtab_validate());
	for (int t = 0; t < THREADS; t++)
		cr_assert(rsk_epoll_validate(rsk_epoll_of(server_set[t])), "set %d", t);
}

Test(epoll_threads, set_held_by_another_process, .timeout = 110)
{
	rsk_engine_init(&plain_host);
	server_set[0] = new_set();
	for (int t = 1; t < THREADS; t++)
		server_set[t] = server_set[0];
	for (uint32_t k = 0; k < STREAMS; k++) {
		connect_pair(&client_fd[k], &server_fd[k]);
		control(server_set[0], EPOLL_CTL_ADD, server_fd[k],
			k & 1 ? EPOLLIN : EPOLLIN | EPOLLET, k);
	}
	all_echoed(fork_and_reap);
	cr_assert_gt(atomic_load(&retaken[true]), 0);
	cr_assert_gt(atomic_load(&retaken[false]), 0);
}

Test(epoll_threads, sets_of_several, .timeout = 110)
{
	uint32_t paired = 0;

	rsk_engine_init(&plain_host);
	for (int t = 0; t < THREADS; t++)
		server_set[t] = new_set();
	for (uint32_t k = 0; k < STREAMS; k++) {
		connect_pair(&client_fd[k], &server_fd[k]);
		control(server_set[k % THREADS], EPOLL_CTL_ADD, server_fd[k], EPOLLIN, k);
		control(server_set[(k + 1) % THREADS], EPOLL_CTL_ADD, server_fd[k],
			k & 1 ? EPOLLIN : EPOLLIN | EPOLLET, k);
	}
	all_echoed(come_and_go);
	for (int k = 0; k < STREAMS; k++) {
		struct rsk_stream *s = rsk_stream_of(server_fd[k]);

		paired += rsk_stream_phase(s) == RSK_PHASE_PAIRED;
		rsk_stream_unpin(s);
	}
	cr_assert_gt(paired, 0, "nothing was paired");
}
