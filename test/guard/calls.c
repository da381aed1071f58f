/*
 * calls STATE [ROW] - makes calls of one kind many times, for callgrind to count their
 * instructions; guard.py starts it.
 *
 * Plain sockets, and one process that holds both ends of everything, so that no call ever waits:
 * what is received is there before, what is sent is read afterwards, and neither is counted. STATE
 * is the state of the TCP connection:
 *
 *   direct     both ends are libc's: many small messages back and forth, then the rows
 *   many       the same with 50 connections at once, for event loops
 *   new        the same, without the messages
 *   lookup    the other end is unknown to the library (raw system calls), as that of a
 *              program without it
 *   accepted   the same, with our end the accepting one
 *   given-up   lookup, for longer than the library goes on
 *   other      no such connection: UDP, Unix sockets, files, and connections that are
 *              made and closed
 *
 * Each row leaves a callgrind dump with its instructions, one dump per further burst with the
 * system calls of that burst, and a line of output: name, calls in the first dump, reads of the
 * clock in those, calls in the others. The last line: bytes sent and received by our end.
 */
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <valgrind/callgrind.h>

#define SYSCALL_BURSTS 4
#define CALL_NS 2000 /* assumed duration of a call */
#define LOOKUP_NS 50000000ull
#define GIVE_UP_LOOKS 150
#define HUNG_S 60

static const char *only; /* only the row of this name */

static void calls(const struct row *row)
{
	long wrong = 0;

	for (int i = 0; i < row->burst; i++) {
		clock_ns += CALL_NS;
		wrong |= row->call() ^ row->want;
	}
	if (wrong)
		die(row->name);
}

static void run_row(const struct row *row)
{
	unsigned long reads = 0;
	char dump[80];

	for (int i = -1; i < row->bursts; i++) {
		row->before(row->burst);
		if (i < 0) {
			calls(row); /* a first burst that is not counted */
		} else {
			reads -= clock_reads;
			CALLGRIND_TOGGLE_COLLECT;
			calls(row);
			CALLGRIND_TOGGLE_COLLECT;
			reads += clock_reads;
		}
		row->after(row->burst);
	}
	snprintf(dump, sizeof(dump), "instructions\t%s", row->name);
	CALLGRIND_DUMP_STATS_AT(dump);
	/* System calls are counted even while callgrind does not collect. */
	snprintf(dump, sizeof(dump), "syscalls\t%s", row->name);
	for (int i = 0; i < SYSCALL_BURSTS; i++) {
		row->before(row->burst);
		CALLGRIND_ZERO_STATS;
		calls(row);
		CALLGRIND_DUMP_STATS_AT(dump);
		row->after(row->burst);
	}
	printf("row\t%s\t%d\t%lu\t%d\n", row->name, row->burst * row->bursts, reads,
	       row->burst * SYSCALL_BURSTS);
}

static void run(const struct row *rows)
{
	for (const struct row *row = rows; row->name; row++)
		if (!only || !strcmp(only, row->name))
			run_row(row);
}

/* ---- states ---- */

static void be_direct(void)
{
	connect_ends(false, false);
	back_and_forth(400);
	run(tcp_rows);
}

static void be_many(void)
{
	connect_many(500);
	run(many_rows);
}

static void be_new(void)
{
	connect_ends(false, false);
	run(tcp_rows);
}

/* Past the first moments, in which a stream that has earned promotion looks up its peer often. */
static void look_up(bool near_accepts)
{
	connect_ends(true, near_accepts);
	back_and_forth(100);
	clock_ns += LOOKUP_NS;
	back_and_forth(100);
}

static void be_lookup(void)
{
	look_up(false);
	run(tcp_rows);
}

static void be_accepted(void)
{
	look_up(true);
	run(tcp_rows);
}

static void be_given_up(void)
{
	uint64_t waited_ns = LOOKUP_NS;

	look_up(false);
	for (int i = 0; i < GIVE_UP_LOOKS; i++) {
		waited_ns += waited_ns / 7; /* lookups are an eighth of the time apart */
		clock_ns += waited_ns / 7;
		back_and_forth(16);
	}
	run(tcp_rows);
}

static void be_other(void)
{
	socklen_t len = sizeof(t.udp);
	int pair[2];

	run(nothing_rows);
	t.near = must(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
	t.far = must(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
	t.udp = t.address;
	t.udp.sin_port = 0;
	must(bind(t.near, (struct sockaddr *)&t.udp, len), "bind");
	must(bind(t.far, (struct sockaddr *)&t.udp, len), "bind");
	must(getsockname(t.far, (struct sockaddr *)&t.udp, &len), "getsockname");
	run(udp_rows);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
	t.near = pair[0];
	t.far = pair[1];
	run(unix_rows);
	t.near = must(memfd_create("calls", MFD_CLOEXEC), "memfd_create");
	run(file_rows);
	run(connection_rows);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*be)(void);
	} states[] = {
		{ "direct", be_direct },     { "new", be_new },		  { "lookup", be_lookup },
		{ "accepted", be_accepted }, { "given-up", be_given_up }, { "other", be_other },
		{ "many", be_many },
	};

	alarm(HUNG_S);
	new_listener();
	t.ep = must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	only = argc == 3 ? argv[2] : NULL;
	for (size_t i = 0; argc >= 2 && argc <= 3 && i < sizeof(states) / sizeof(states[0]); i++) {
		if (strcmp(argv[1], states[i].name))
			continue;
		states[i].be();
		printf("bytes\t%llu\t%llu\n", (unsigned long long)t.sent,
		       (unsigned long long)t.received);
		return 0;
	}
	fprintf(stderr, "usage: calls direct|many|new|lookup|accepted|given-up|other [ROW]\n");
	return 2;
}
