/* ends.c - both ends of a connection in one process, and its clock; used by rows.c and calls.c. */
#include "calls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rsock/sys.h>

#define TRIP_NS 2000 /* assumed duration of a message there and one back */
#define READ_NS 50   /* and of a read of the clock */
#define SECOND_NS 1000000000ull

/*
 * The clock and the processor number of this program, also for a library in it: the counts must not
 * depend on the machine's. Reading the clock advances it, otherwise a loop could wait for ever.
 */
uint64_t clock_ns;
unsigned long clock_reads;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!clock_ns) {
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, ts);
		clock_ns = (uint64_t)ts->tv_sec * SECOND_NS + (uint64_t)ts->tv_nsec;
	}
	clock_reads++;
	clock_ns += READ_NS;
	ts->tv_sec = (time_t)(clock_ns / SECOND_NS);
	ts->tv_nsec = (long)(clock_ns % SECOND_NS);
	return 0;
}

int sched_getcpu(void)
{
	return 0;
}

/* ---- the two ends ---- */

struct ends t;

void die(const char *what)
{
	fprintf(stderr, "calls: %s: %s\n", what, strerrordesc_np(errno));
	exit(1);
}

int must(int rc, const char *what)
{
	if (rc < 0)
		die(what);
	return rc;
}

void new_listener(void)
{
	socklen_t len = sizeof(t.address);

	t.address = (struct sockaddr_in){ .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	t.listener = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	must(bind(t.listener, (struct sockaddr *)&t.address, len), "bind");
	must(getsockname(t.listener, (struct sockaddr *)&t.address, &len), "getsockname");
	must(listen(t.listener, 2 * BURST), "listen");
}

/*
 * A socket that only the kernel knows of: made by raw system call instructions, since syscall() is
 * hooked as well.
 */
static int raw_connect(void)
{
	int fd = rsk_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd, "socket");
	must(rsk_sys_connect(fd, &t.address, sizeof(t.address)), "connect");
	return fd;
}

int plain_connect(void)
{
	int fd = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

	must(connect(fd, (struct sockaddr *)&t.address, sizeof(t.address)), "connect");
	return fd;
}

void connect_ends(bool raw, bool near_accepts)
{
	int one = 1;

	t.raw = raw;
	if (near_accepts) {
		t.far = raw ? raw_connect() : plain_connect();
		t.near = must(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), "accept");
	} else {
		t.near = plain_connect();
		t.far = raw ? rsk_sys_accept4(t.listener, NULL, NULL, SOCK_CLOEXEC) :
			      accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);
		must(t.far, "accept");
	}
	/* Small messages in one direction must not wait for an acknowledgement. */
	must(setsockopt(t.near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "nodelay");
	must(raw ? rsk_sys_setsockopt(t.far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) :
		   setsockopt(t.far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)),
	     "nodelay");
}

void far_send(int messages)
{
	for (int i = 0; i < messages; i++) {
		ssize_t n = t.raw ? rsk_sys_write(t.far, t.buf, BYTES) :
				    send(t.far, t.buf, BYTES, 0);

		if (n != BYTES)
			die("far end's send");
	}
	t.received += (uint64_t)messages * BYTES;
}

void far_recv(int messages)
{
	size_t left = (size_t)messages * BYTES;

	t.sent += left;
	while (left) {
		ssize_t n = t.raw ? rsk_sys_read(t.far, t.buf, left) : recv(t.far, t.buf, left, 0);

		if (n <= 0)
			die("far end's recv");
		left -= (size_t)n;
	}
}

/* The kernel may deliver late, on a busy machine. */
void there(int messages)
{
	int n = 0;

	do
		must(ioctl(t.near, FIONREAD, &n), "FIONREAD");
	while (n < messages * BYTES);
}

void back_and_forth(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		clock_ns += TRIP_NS;
		if (send(t.near, t.buf, BYTES, 0) != BYTES)
			die("send");
		far_recv(1);
		far_send(1);
		there(1);
		if (recv(t.near, t.buf, BYTES, 0) != BYTES)
			die("recv");
	}
}

void connect_many(int rounds)
{
	for (int i = 0; i < MANY; i++) {
		connect_ends(false, false);
		t.fd[i] = t.near;
		t.other[i] = t.far;
		back_and_forth(rounds);
	}
}

void with_each(void (*what)(int n))
{
	for (int i = 0; i < MANY; i++) {
		t.near = t.fd[i];
		t.far = t.other[i];
		what(1);
	}
}
