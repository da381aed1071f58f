/*
 * calls.h - shared by the parts of guard_calls: the two ends and their clock (ends.c), the calls
 * that are counted (rows.c), and the counting (calls.c).
 */
#ifndef GUARD_CALLS_H
#define GUARD_CALLS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define BYTES 64 /* of each message */
#define BURST 64
#define MANY 50 /* connections at once */

struct ends {
	int listener, near, far, ep; /* near: ours, whose calls are counted */
	bool raw;		     /* far is not known to libc */
	bool watched;		     /* near is in ep */
	bool edge;		     /* ... edge triggered */
	int fd[BURST], other[BURST]; /* of connections made and closed */
	int i;
	struct sockaddr_in address, udp;
	uint64_t sent, received;
	char buf[BYTES * BURST];
};

extern struct ends t;
extern uint64_t clock_ns;
extern unsigned long clock_reads;

__attribute__((noreturn)) void die(const char *what);
int must(int rc, const char *what);

void new_listener(void);
int plain_connect(void);
void connect_ends(bool raw, bool near_accepts);
/*
 * The far end's part for @messages messages; there() returns when they have arrived at the near
 * end.
 */
void far_send(int messages);
void far_recv(int messages);
void there(int messages);
void back_and_forth(int rounds);
/* MANY connections: fd[] are the near ends, other[] the far ones. */
void connect_many(int rounds);
/* calls @what with a connection's near and far end, once each */
void with_each(void (*what)(int n));

/* before() a burst of call(), and after(); each call returns want. */
struct row {
	const char *name;
	void (*before)(int n);
	long (*call)(void);
	void (*after)(int n);
	long want;
	int burst, bursts;
};

/* Each array ends with a row that has no name. */
extern const struct row tcp_rows[], nothing_rows[], udp_rows[], unix_rows[], file_rows[],
	connection_rows[], many_rows[];

#endif /* GUARD_CALLS_H */
