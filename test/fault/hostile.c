/*
 * hostile.c - bin/fault_hostile, the programs of fault_hostile.py: a victim, honest clients and
 * hostile ones:
 *
 *	serve poll|epoll|select|block	echo server, prints its port, ends when stdin ends
 *	honest PORT SECONDS SEED	checks every byte it gets back; new connections all the time
 *	scribble PORT SECONDS SEED	preloaded: pairs, then overwrites all memory that it shares
 *					with the victim
 *	doorbells PORT SECONDS SEED	preloaded: pairs, then spoils all doorbells that it can
 *					reach
 *	control PID SECONDS SEED	not preloaded: connects to the victim's listener and sends
 *					anything
 *	slow PID SECONDS SEED		the same with descriptors that take a minute to close
 *	slow-other PID SECONDS SEED	the same as another user
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rsock/clock.h>
#include <rsock/splitmix.h>

#include "ctl.h"
#include "hostile.h"

#define CONNS 256
#define BUF_BYTES 65536
#define ROUNDS_PER_CONNECTION 400

struct echo {
	int fd;
	size_t len, off;
	uint8_t buf[BUF_BYTES];
};

double now_s(void)
{
	return (double)rsk_monotonic_ns() / 1e9;
}

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the victim ---- */

static bool echo_some(struct echo *c)
{
	ssize_t n;

	if (c->off == c->len) {
		n = recv(c->fd, c->buf, sizeof(c->buf), 0);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		c->len = (size_t)n;
		c->off = 0;
	}
	n = send(c->fd, c->buf + c->off, c->len - c->off, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->off += (size_t)n;
	return true;
}

static void *echo_thread(void *arg)
{
	struct echo *c = arg;

	while (echo_some(c))
		;
	close(c->fd);
	free(c);
	return NULL;
}

static struct echo *welcome(int listener, bool nonblock)
{
	int fd = accept4(listener, NULL, NULL, nonblock ? SOCK_NONBLOCK : 0);
	struct echo *c;

	if (fd < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		die("calloc");
	c->fd = fd;
	return c;
}

static short wants(const struct echo *c)
{
	return c->off == c->len ? POLLIN : POLLOUT;
}

static void serve_poll(int listener)
{
	static struct echo *conns[CONNS];
	struct pollfd fds[CONNS + 2];
	nfds_t n = 0;

	for (;;) {
		fds[0] = (struct pollfd){ .fd = 0, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = listener, .events = n < CONNS ? POLLIN : 0 };
		for (nfds_t i = 0; i < n; i++)
			fds[2 + i] =
				(struct pollfd){ .fd = conns[i]->fd, .events = wants(conns[i]) };
		if (poll(fds, n + 2, -1) < 0 && errno != EINTR)
			die("poll");
		if (fds[0].revents)
			return;
		for (nfds_t i = n; i-- > 0;) {
			if (!fds[2 + i].revents || echo_some(conns[i]))
				continue;
			close(conns[i]->fd);
			free(conns[i]);
			conns[i] = conns[--n];
		}
		if (fds[1].revents && (conns[n] = welcome(listener, true)))
			n++;
	}
}

static void serve_select(int listener)
{
	static struct echo *conns[FD_SETSIZE]; /* by fd */

	for (;;) {
		int high = listener;
		fd_set in, out;

		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_SET(0, &in);
		FD_SET(listener, &in);
		for (int fd = 0; fd < FD_SETSIZE; fd++) {
			if (!conns[fd])
				continue;
			if (wants(conns[fd]) == POLLIN)
				FD_SET(fd, &in);
			else
				FD_SET(fd, &out);
			high = fd > high ? fd : high;
		}
		if (select(high + 1, &in, &out, NULL, NULL) < 0)
			continue;
		if (FD_ISSET(0, &in))
			return;
		for (int fd = 0; fd <= high; fd++) {
			if (!conns[fd] || !(FD_ISSET(fd, &in) || FD_ISSET(fd, &out)) ||
			    echo_some(conns[fd]))
				continue;
			free(conns[fd]);
			conns[fd] = NULL;
			close(fd);
		}
		if (FD_ISSET(listener, &in)) {
			struct echo *c = welcome(listener, true);

			if (c && c->fd >= FD_SETSIZE)
				die("too many");
			if (c)
				conns[c->fd] = c;
		}
	}
}

#define MOST_CONNS 4096
/* first value of an event's data for connections: 0 is the listener, 1 stdin */
#define FIRST_CONN 2

static void serve_epoll(int listener)
{
	static struct echo *conns[MOST_CONNS]; /* by fd */
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev))
		die("epoll");
	ev.data.u64 = 1;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &ev))
		die("epoll_ctl(stdin)");
	for (;;) {
		struct echo *c;

		if (epoll_wait(epoll, &ev, 1, -1) < 1)
			continue;
		if (ev.data.u64 == 1)
			return;
		if (!ev.data.u64) {
			c = welcome(listener, true);
			if (!c)
				continue;
			if (c->fd >= MOST_CONNS)
				die("too many");
			conns[c->fd] = c;
			ev = (struct epoll_event){ .events = EPOLLIN,
						   .data.u64 = FIRST_CONN + (unsigned int)c->fd };
			if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &ev))
				die("epoll_ctl");
			continue;
		}
		c = conns[ev.data.u64 - FIRST_CONN];
		if (echo_some(c)) {
			ev.events = (uint32_t)wants(c);
			epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &ev);
			continue;
		}
		conns[c->fd] = NULL;
		close(c->fd);
		free(c);
	}
}

static void serve_block(int listener)
{
	for (;;) {
		struct pollfd fds[2] = { { .fd = 0, .events = POLLIN },
					 { .fd = listener, .events = POLLIN } };
		struct echo *c;
		pthread_t thread;

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			return;
		c = welcome(listener, false);
		if (!c)
			continue;
		if (pthread_create(&thread, NULL, echo_thread, c))
			die("pthread_create");
		pthread_detach(thread);
	}
}

static int serve(const char *how)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&sa, &len))
		die("listen");
	printf("%u\n", ntohs(sa.sin_port));
	fflush(stdout);
	if (!strcmp(how, "poll"))
		serve_poll(fd);
	else if (!strcmp(how, "epoll"))
		serve_epoll(fd);
	else if (!strcmp(how, "select"))
		serve_select(fd);
	else
		serve_block(fd);
	return 0;
}

/* ---- clients ---- */

static int dial(int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct timeval patience = { .tv_sec = 10 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		die("connect");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		die("setsockopt");
	return fd;
}

/* Sends one message and receives it back. Returns 0; -1: the connection ended; -2: wrong bytes. */
static int round_trip(int fd, uint64_t seed, uint64_t *pos, uint8_t *buf, size_t len)
{
	pattern_fill(seed, *pos, buf, len);
	for (size_t done = 0; done < len;) {
		ssize_t n = send(fd, buf + done, len - done, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(fd, buf + done, len - done, 0);

		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	if (pattern_check(seed, *pos, buf, len) != UINT64_MAX)
		return -2;
	*pos += len;
	return 0;
}

static int honest(int port, double until, uint64_t seed)
{
	static uint8_t buf[BUF_BYTES];
	uint64_t state = seed, rounds = 0;

	while (now_s() < until) {
		int fd = dial(port), rc = 0;
		uint64_t pos = 0;

		for (int i = 0; i < ROUNDS_PER_CONNECTION && !rc && now_s() < until; i++, rounds++)
			rc = round_trip(fd, seed, &pos, buf,
					rsk_splitmix_next(&state) %
							(i % 16 ? 3000 : BUF_BYTES / 2) +
						1);
		if (rc) {
			fprintf(stderr, "honest: round %lu: %s (%s)\n", (unsigned long)rounds,
				rc == -2 ? "wrong bytes" : "the connection broke", strerror(errno));
			return 1;
		}
		close(fd);
	}
	printf("%lu\n", (unsigned long)rounds);
	return 0;
}

/* ---- a peer that overwrites shared memory ---- */

struct scribbler {
	uint64_t state;
	uint64_t writes;
};

/*
 * The next shared mapping of the library's in /proc/self/maps; used by a child of ours as well as
 * by a thread.
 */
static bool next_mapping(FILE *maps, uint8_t **at, size_t *len)
{
	char line[512];

	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		if (!strstr(line, "memfd:rsock-link") ||
		    sscanf(line, "%lx-%lx rw", &from, &to) != 2)
			continue;
		*at = (uint8_t *)from;
		*len = to - from;
		return true;
	}
	return false;
}

static void *scribble_thread(void *arg)
{
	struct scribbler *s = arg;

	for (;;) {
		FILE *maps = fopen("/proc/self/maps", "r");
		uint8_t *at;
		size_t len;

		if (!maps)
			die("maps");
		while (next_mapping(maps, &at, &len))
			for (int i = 0; i < 2000; i++, s->writes++)
				hostile_scribble(&s->state, at, len);
		fclose(maps);
	}
	return NULL;
}

static void doorbells_child(int port, uint64_t seed)
{
	static uint8_t buf[BUF_BYTES];
	uint64_t state = seed, pos = 0;
	int fd = dial(port);

	for (int i = 0; i < 300; i++)
		if (round_trip(fd, seed, &pos, buf, rsk_splitmix_next(&state) % 4000 + 1))
			break;
	hostile_doorbells(&state, fd);
}

/*
 * Its own library works on the damaged memory as well; what happens to this process does not
 * matter.
 */
static void scribble_child(int port, uint64_t seed)
{
	static uint8_t buf[BUF_BYTES];
	struct scribbler s = { .state = seed };
	uint64_t pos = 0;
	pthread_t thread;
	int fd = dial(port);

	for (int i = 0; i < 300; i++)
		if (round_trip(fd, seed, &pos, buf, rsk_splitmix_next(&s.state) % 4000 + 1))
			break;
	if (pthread_create(&thread, NULL, scribble_thread, &s))
		die("pthread_create");
	for (;;) {
		while (!round_trip(fd, seed, &pos, buf, rsk_splitmix_next(&s.state) % 4000 + 1))
			;
		close(fd);
		fd = dial(port);
	}
}

static int lives_of(void (*child)(int port, uint64_t seed), int port, double until, uint64_t seed)
{
	unsigned int lives = 0;

	while (now_s() < until) {
		pid_t pid = fork();
		/* its own library soon stops working on the damaged memory */
		double ends = now_s() + 0.4;

		if (pid < 0)
			die("fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			child(port, seed + lives * 2);
			_exit(0);
		}
		lives++;
		while (now_s() < ends && now_s() < until && waitpid(pid, NULL, WNOHANG) == 0)
			poll(NULL, 0, 10);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	printf("%u\n", lives);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc == 5 ? strtoull(argv[4], NULL, 0) : 0;
	double until = argc == 5 ? now_s() + atof(argv[3]) : 0;

	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "honest"))
		return honest(atoi(argv[2]), until, seed);
	if (argc == 5 && !strcmp(argv[1], "scribble"))
		return lives_of(scribble_child, atoi(argv[2]), until, seed);
	if (argc == 5 && !strcmp(argv[1], "doorbells"))
		return lives_of(doorbells_child, atoi(argv[2]), until, seed);
	if (argc == 5 && !strcmp(argv[1], "control"))
		return hostile_control(atoi(argv[2]), until, seed);
	if (argc == 5 && !strcmp(argv[1], "slow"))
		return hostile_slow(atoi(argv[2]), until, seed, 0);
	if (argc == 5 && !strcmp(argv[1], "slow-other"))
		return hostile_slow(atoi(argv[2]), until, seed, 4711);
	fprintf(stderr, "usage: see the top of hostile.c\n");
	return 2;
}
