// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_over_back.c - tests that the overread file's bytes go back into the kernel's queue before
 * all that the peer writes, also when it writes at that very moment. Its copy of the peer's socket
 * is the test's, and the peer writes whenever what it has written is counted: the first count is
 * before the file is read, then there is one directly before and one directly after our write.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "over.h"
#include "remote_kit.h"
#include "return_unread.h"

#define COUNTS 16

static struct {
	int other;
	uint32_t counts;
	const char *after[COUNTS];  /* the peer writes it after that count */
	const char *before[COUNTS]; /* ... before it */
	bool shut;		    /* and then ends, before the third count */
	bool shut_before;	    /* ends before the second one */
	const char *received;	    /* writes it after what has come is counted first */
	int fd;			    /* the stream's own socket, which another process has too: */
	size_t reads_queue;	    /* it reads so much there, as we have read the file */
	bool reads_all;		    /* ... or the file and then the queue, before us */
	uint32_t receiveds, overs;
} peer;

static void write_it(const char *text)
{
	if (text)
		cr_assert_eq(send(peer.other, text, strlen(text), 0), (ssize_t)strlen(text));
}

int __wrap_rsk_return_unread_borrow(struct rsk_stream *s);
int __wrap_rsk_return_unread_borrow(struct rsk_stream *s)
{
	(void)s;
	return fcntl(peer.other, F_DUPFD_CLOEXEC, 0);
}

int __real_rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos);
int __wrap_rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos);
int __wrap_rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos)
{
	uint32_t i = peer.counts++;
	int rc;

	if (i < COUNTS)
		write_it(peer.before[i]);
	if ((i == 2 && peer.shut) || (i == 1 && peer.shut_before))
		shutdown(peer.other, SHUT_WR);
	rc = __real_rsk_kernel_written(fd, connecting_side, pos);
	if (i < COUNTS)
		write_it(peer.after[i]);
	return rc;
}

int __real_rsk_kernel_received(int fd, uint64_t *pos);
int __wrap_rsk_kernel_received(int fd, uint64_t *pos);
int __wrap_rsk_kernel_received(int fd, uint64_t *pos)
{
	int rc = __real_rsk_kernel_received(fd, pos);

	if (!peer.receiveds++)
		write_it(peer.received);
	return rc;
}

ssize_t __real_rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n,
			     size_t cap, bool peek);
ssize_t __wrap_rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n,
			     size_t cap, bool peek);
ssize_t __wrap_rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n,
			     size_t cap, bool peek)
{
	char text[64];
	ssize_t rc;

	if (!peer.overs && peer.reads_all) {
		cr_assert_gt(read(atomic_load(&s->over.fd), text, sizeof(text)), 0);
		recv(peer.fd, text, sizeof(text), MSG_DONTWAIT);
	}
	rc = __real_rsk_over_recv(s, fd, iov, n, cap, peek);
	if (!peer.overs++ && peer.reads_queue)
		recv(peer.fd, text, peer.reads_queue, MSG_DONTWAIT);
	return rc;
}

static void put_file(const struct kit_stream *ks, const char *text)
{
	cr_assert_eq(rsk_over_open(ks->s), 0);
	cr_assert_eq(rsk_over_add(ks->s, text, strlen(text)), 0);
	rsk_over_seal(ks->s, ks->fd);
}

/* A stream on TCP with @text in the overread file. */
static struct kit_stream with_file(const char *text)
{
	static struct kit k;
	struct kit_stream ks;

	if (!k.r) {
		kit_init();
		kit_link(&k, true);
		kit_rail_up(&k, 0);
	}
	ks = kit_stream(&k, false);
	put_file(&ks, text);
	memset(&peer, 0, sizeof(peer));
	peer.other = ks.other;
	peer.fd = ks.fd;
	return ks;
}

/* Reads @n bytes, as our hooks do: first the file, then the socket. */
static void take(const struct kit_stream *ks, void *to, size_t n)
{
	for (size_t at = 0; at < n;) {
		struct iovec iov = { (char *)to + at, n - at };
		ssize_t got = rsk_over_is(ks->s) ?
				      rsk_over_recv(ks->s, ks->fd, &iov, 1, n - at, false) :
				      0;

		if (got == 0)
			got = recv(ks->fd, (char *)to + at, n - at, 0);
		cr_assert_gt(got, 0, "%zu of %zu bytes: %s", at, n, strerror(errno));
		at += (size_t)got;
	}
}

static void reads(const struct kit_stream *ks, const char *want)
{
	size_t n = strlen(want);
	char text[256];

	cr_assert_leq(n, sizeof(text));
	take(ks, text, n);
	cr_assert_arr_eq(text, want, n, "%.*s", (int)n, text);
	cr_assert_eq(recv(ks->fd, text, 1, MSG_DONTWAIT), peer.shut ? 0 : -1);
}

Test(over_back, a_peer_that_writes_meanwhile_comes_after)
{
	static const struct {
		const char *file, *queue;
		const char *after[COUNTS], *before[COUNTS];
		const char *reads;
		bool shut;
	} cases[] = {
		/* nothing comes between */
		{ "queued", "", { 0 }, { 0 }, "queued" },
		{ "queued", "tcp", { 0 }, { 0 }, "queuedtcp" },
		/* before it is counted: our bytes begin behind that for certain */
		{ "a", "", { 0 }, { 0, "ab" }, "aab" },
		{ "queued", "tcp", { 0 }, { 0, "served" }, "queuedtcpserved" },
		/* directly before our write, or directly after it */
		{ "queued", "", { 0, "served" }, { 0 }, "queuedserved" },
		{ "queued", "", { 0 }, { 0, 0, "served" }, "queuedserved" },
		{ "queued", "tcp", { 0, "ser" }, { 0, 0, "ved" }, "queuedtcpserved" },
		{ "queued", "tcp", { 0, "erv" }, { 0, "s", "ed" }, "queuedtcpserved" },
		/* the peer's are like ours: wherever ours are, the rest is the same */
		{ "aaa", "", { 0, "aa" }, { 0, 0, "a" }, "aaaaaa" },
		{ "abab", "", { 0, "ab" }, { 0 }, "ababab" },
		/* in each attempt but the last */
		{ "queued", "", { 0, "1", 0, "2" }, { [6] = "3" }, "queued123" },
		/* the peer ends behind its bytes, and its count cannot be had any more */
		{ "queued", "", { 0, "served" }, { 0 }, "queuedserved", true },
		{ "queued", "", { 0 }, { 0 }, "queued", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kit_stream ks;
		int rc;

		ks = with_file(cases[i].file);
		write_it(cases[i].queue[0] ? cases[i].queue : NULL);
		memcpy(peer.after, cases[i].after, sizeof(peer.after));
		memcpy(peer.before, cases[i].before, sizeof(peer.before));
		peer.shut = cases[i].shut;
		rc = rsk_over_back(ks.s, ks.fd, true);
		/* A peer that has ended takes no write: what has been read back is kept. */
		cr_assert_eq(rc, peer.shut && peer.after[1] ? -EBUSY : 0, "%zu: %d", i, rc);
		cr_assert_eq(rsk_over_unread(ks.s) > 0, rc < 0, "%zu", i);
		reads(&ks, cases[i].reads);
		close(ks.fd);
		close(ks.other);
	}
}

/* Between the counts of what was written and of what has come: neither read nor missed. */
Test(over_back, a_peer_that_writes_while_it_is_counted)
{
	struct kit_stream ks = with_file("queued");

	peer.received = "served";
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), 0);
	reads(&ks, "queuedserved");
}

/*
 * Another process of the family reads at the same time, as from the kernel's queue alone: it may
 * have any bytes, but nothing that it has not read comes behind newer bytes.
 */
Test(over_back, another_process_reads_meanwhile)
{
	struct kit_stream ks = with_file("FILE");

	write_it("queue678");
	peer.reads_queue = 5;
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), 0);
	reads(&ks, "FILEqueue678");
	ks = with_file("FILE");
	write_it("queue678");
	peer.reads_all = true;
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), 0);
	reads(&ks, "queue678");
}

/*
 * After requests and answers the kernel acknowledges late, and a peer without TCP_NODELAY sends
 * nothing more before.
 */
Test(over_back, an_acknowledgement_that_is_late)
{
	for (int turns = 0; turns < 40; turns += 13) {
		struct kit_stream ks = with_file("queued");
		char c;

		for (int i = 0; i < turns; i++) {
			cr_assert_eq(send(ks.other, "q", 1, 0), 1);
			cr_assert_eq(recv(ks.fd, &c, 1, 0), 1);
			cr_assert_eq(send(ks.fd, "a", 1, 0), 1);
			cr_assert_eq(recv(ks.other, &c, 1, 0), 1);
		}
		peer.after[1] = "served";
		cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), 0, "%d turns", turns);
		reads(&ks, "queuedserved");
	}
}

/* Nothing has changed: the file, which other processes have too, is as it was. */
Test(over_back, what_it_does_not_begin)
{
	static const int on = 1;
	struct kit_stream ks = with_file("queued");

	peer.shut_before = true;
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), -EBUSY, "the peer ends before our write");
	cr_assert_eq(rsk_over_unread(ks.s), 6);
	peer.shut = true;
	reads(&ks, "queued");
	ks = with_file("queued");
	cr_assert_eq(setsockopt(ks.other, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), -EBUSY, "what is written comes later");
	cr_assert_eq(rsk_over_unread(ks.s), 6);
	for (int inl = 0; inl < 2; inl++) {
		ks = with_file("queued");
		cr_assert_eq(setsockopt(ks.fd, SOL_SOCKET, SO_OOBINLINE, &inl, sizeof(inl)), 0);
		write_it("tcp");
		cr_assert_eq(send(ks.other, "!", 1, MSG_OOB), 1);
		write_it("more");
		cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), -EBUSY, "urgent data");
		cr_assert_eq(rsk_over_unread(ks.s), 6);
	}
}

/* All processes that have the socket see that something is missing, and so does the peer. */
Test(over_back, the_connection_is_reset)
{
	struct kit_stream ks = with_file("a");
	int parents = dup(ks.fd);
	char byte;

	peer.after[1] = "ab";
	peer.after[2] = "newer";
	rsk_fd_fall_back(ks.fd, RSK_REASON_EXEC);
	errno = 0;
	cr_assert_eq(recv(parents, &byte, 1, MSG_DONTWAIT), -1);
	cr_assert_eq(errno, ECONNRESET);
	cr_assert_eq(recv(ks.other, &byte, 1, 0), -1);
	cr_assert_eq(errno, ECONNRESET);
}

/* The peer's bytes are such that two orders are possible: better an error than the wrong one. */
Test(over_back, an_order_that_cannot_be_known_is_an_error)
{
	struct kit_stream ks;

	ks = with_file("a");
	peer.after[1] = "ab";
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, true), -EIO);
	cr_assert_not(rsk_over_is(ks.s));
}

/* ... and it takes no longer the more alike they are. */
Test(over_back, a_peer_cannot_make_it_long, .timeout = 20)
{
	static char ours[16385], theirs[16385];
	struct kit_stream ks;

	memset(ours, 'a', sizeof(ours) - 1);
	memset(theirs, 'a', sizeof(theirs) - 1);
	ks = with_file(ours);
	for (int i = 1; i < COUNTS; i += 2)
		peer.after[i] = theirs;
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, false), -EIO);
	cr_assert_eq(peer.counts, 3, "%u: another attempt", peer.counts);
}

/* A peer that writes all the time: its bytes and ours are kept for a relay, or the stream ends. */
Test(over_back, a_peer_that_never_stops)
{
	for (int may_keep = 0; may_keep < 2; may_keep++) {
		struct kit_stream ks;
		int rc;

		ks = with_file("queued");
		for (int i = 1; i < COUNTS; i += 2)
			peer.after[i] = "x";
		rc = rsk_over_back(ks.s, ks.fd, may_keep);
		cr_assert_eq(rc, may_keep ? -EBUSY : -EIO);
		cr_assert_eq(peer.counts, 9, "%u", peer.counts);
		if (may_keep)
			reads(&ks, "queuedxxxx");
		close(ks.fd);
		close(ks.other);
	}
}

/* There is no place for what has been read back: the stream ends, no byte is missing unseen. */
Test(over_back, no_file_may_be_made)
{
	const struct rlimit none = { 0, RLIM_INFINITY };
	struct kit_stream ks;

	ks = with_file("queued");
	for (int i = 1; i < COUNTS; i += 2)
		peer.after[i] = "x";
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	cr_assert_eq(rsk_over_back(ks.s, ks.fd, true), -EIO);
}

/* ---- at no moment in particular ---- */

static atomic_bool stop;

static void *counts_up(void *arg)
{
	uint32_t *n = arg;

	while (!atomic_load(&stop)) {
		if (send(peer.other, n, sizeof(*n), MSG_DONTWAIT) != sizeof(*n))
			break;
		++*n;
	}
	return NULL;
}

Test(over_back, a_thread_writes_as_fast_as_it_can, .timeout = 60)
{
	struct kit_stream ks = with_file("queued");

	for (int i = 0; i < 300; i++) {
		uint32_t sent = 0, is;
		char text[6];
		pthread_t t;
		int rc;

		atomic_store(&stop, false);
		cr_assert_eq(pthread_create(&t, NULL, counts_up, &sent), 0);
		rc = rsk_over_back(ks.s, ks.fd, true);
		atomic_store(&stop, true);
		pthread_join(t, NULL);
		cr_assert(rc == 0 || rc == -EBUSY, "%d: %d", i, rc);
		take(&ks, text, sizeof(text));
		cr_assert_arr_eq(text, "queued", 6, "%d", i);
		for (uint32_t n = 0; n < sent; n++) {
			take(&ks, &is, sizeof(is));
			cr_assert_eq(is, n, "%d", i);
		}
		/* If its last byte was the last one of all, nothing has closed it yet. */
		rsk_over_close(ks.s, ks.fd);
		put_file(&ks, "queued");
	}
}
