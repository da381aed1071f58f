/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.c - measures the read path over shared memory, by message size: an owner process
 * publishes continuously, and another process obtains what it can (stream/ring/mailbox.h). Run by
 * mech_mailbox.py.
 *
 * 	still_ns	a get of a message that does not change, with its check
 * 	publish_ns	an update while the message is being read
 * 	message_ns	from one valid message to the next newer one
 * 	gets		attempts for that, including torn ones and those that brought
 * 			nothing newer
 *
 * Each process has a processor of its own, if there are two. Every valid message is compared with
 * what was published; if one differs, the program exits with 1.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rsock/clock.h>

#include "mailbox.h"
#include "shm.h"

#define MAILBOX_WORDS (RSK_MAILBOX_MESSAGE / 8)
#define MAILBOX_BATCH 256u /* gets between two readings of the clock */

/* Shared by the two processes. */
struct mailbox_told {
	_Atomic(bool) stop;
	_Atomic(uint64_t) published, owner_ns;
};

struct mailbox_row {
	double still_ns, publish_ns, message_ns;
	struct rsk_mailbox_reader r; /* used only for its counters */
};

static struct rsk_seg mailbox_owners, mailbox_readers;
static struct rsk_key mailbox_key;
static struct mailbox_told *mailbox_told;

/* Pins this process to the @n'th processor that it may use. */
static void mailbox_stay_on(int n)
{
	static cpu_set_t may;
	cpu_set_t one;

	if (!CPU_COUNT(&may) && sched_getaffinity(0, sizeof(may), &may))
		return;
	n %= CPU_COUNT(&may);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
}

static void mailbox_message(uint64_t sequence, uint64_t words[static MAILBOX_WORDS])
{
	for (uint32_t i = 0; i < MAILBOX_WORDS; i++)
		words[i] = sequence * 0x9e3779b97f4a7c15u + i;
}

static bool mailbox_right(const struct rsk_mailbox_view *v, uint32_t size)
{
	uint64_t words[MAILBOX_WORDS];

	mailbox_message(v->sequence, words);
	return v->kind == RSK_MAILBOX_DATA && v->len == size &&
	       memcmp(v->message, words, size) == 0;
}

static int mailbox_say(struct rsk_mailbox *box, uint32_t size)
{
	uint64_t words[MAILBOX_WORDS];

	mailbox_message(box->sequence + 1, words);
	return rsk_mailbox_publish(box, RSK_MAILBOX_DATA, words, size);
}

/* Body of the child, which runs until it is stopped. */
static void mailbox_owner(struct rsk_mailbox *box, uint32_t size)
{
	uint64_t first = box->sequence, begun;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mailbox_stay_on(1);
	begun = rsk_monotonic_ns();
	while (!atomic_load_explicit(&mailbox_told->stop, memory_order_relaxed))
		if (mailbox_say(box, size))
			_exit(1);
	atomic_store(&mailbox_told->published, box->sequence - first);
	atomic_store(&mailbox_told->owner_ns, rsk_monotonic_ns() - begun);
	_exit(0);
}

/* Nanoseconds for each get; -EBADMSG: a message that was never published. */
static double mailbox_read(struct rsk_mailbox_reader *r, uint32_t size, uint64_t time_ns)
{
	uint64_t begun = rsk_monotonic_ns(), now;
	struct rsk_mailbox_view view = { .len = 0 };

	do {
		for (uint32_t i = 0; i < MAILBOX_BATCH; i++) {
			int rc = rsk_mailbox_start(r);

			if (rc == 0)
				rc = rsk_mailbox_take(r, &view);
			if (rc == 1 && !mailbox_right(&view, size))
				return -EBADMSG;
			if (rc != 1 && rc != -EAGAIN && rc != -EBADMSG)
				return rc ? rc : -EBUSY;
		}
		now = rsk_monotonic_ns();
	} while (now - begun < time_ns);
	return (double)(now - begun) / (double)r->gets;
}

static int mailbox_size(uint32_t size, uint64_t time_ns, struct mailbox_row *row)
{
	uint32_t bytes = RSK_MAILBOX_FRAME_BYTES + (size + 7) / 8 * 8;
	uint64_t off = rsk_seg_ctl_off(8);
	double get_ns;
	struct rsk_mailbox box;
	int status;
	pid_t pid;

	rsk_mailbox_init(&box, mailbox_owners.rail.segment + off, bytes, &mailbox_key);
	rsk_mailbox_reader_init(&row->r, &mailbox_readers.rail, off, bytes, &mailbox_key, 0);
	if (mailbox_say(&box, size))
		return -EINVAL;
	row->still_ns = mailbox_read(&row->r, size, time_ns / 4);
	if (row->still_ns < 0 || row->r.whole != 1)
		return -EBADMSG;
	rsk_mailbox_reader_init(&row->r, &mailbox_readers.rail, off, bytes, &mailbox_key, 0);
	atomic_store(&mailbox_told->stop, false);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		mailbox_owner(&box, size);
	get_ns = mailbox_read(&row->r, size, time_ns);
	atomic_store(&mailbox_told->stop, true);
	if (waitpid(pid, &status, 0) != pid || status)
		return -ECHILD;
	if (get_ns < 0)
		return (int)get_ns;
	if (!row->r.whole || !mailbox_told->published)
		return -EAGAIN;
	row->message_ns = get_ns * (double)row->r.gets / (double)row->r.whole;
	row->publish_ns = (double)mailbox_told->owner_ns / (double)mailbox_told->published;
	return 0;
}

/*
 * Sets up the segments as two processes have them: each with its own mapping of the owner's
 * segment.
 */
static int mailbox_segments(void)
{
	int fd = rsk_shm_create(&mailbox_owners, RSK_SEG_MIN_RING), rc;

	/* In this program the other process is a child, so the segment must survive fork(). */
	if (fd >= 0)
		madvise(mailbox_owners.rail.segment, mailbox_owners.rail.segment_bytes,
			MADV_DOFORK);

	if (fd < 0)
		return fd;
	rc = rsk_shm_create(&mailbox_readers, RSK_SEG_MIN_RING);
	if (rc < 0)
		return rc;
	close(rc);
	rc = rsk_shm_attach(&mailbox_readers, fd, &mailbox_owners.own);
	close(fd);
	mailbox_told = mmap(NULL, sizeof(*mailbox_told), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return mailbox_told == MAP_FAILED ? -errno : rc;
}

static int mailbox_usage(void)
{
	fprintf(stderr,
		"usage: mailbox SECONDS SIZE...\n"
		"an owner that never rests and a reader, as JSON; messages of 1 to %u bytes\n",
		RSK_MAILBOX_MESSAGE);
	return 2;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[1], NULL) : 0;
	int rc;

	if (!(seconds > 0 && seconds <= 60))
		return mailbox_usage();
	for (int i = 2; i < argc; i++) {
		unsigned long size = strtoul(argv[i], NULL, 10);

		if (!size || size > RSK_MAILBOX_MESSAGE)
			return mailbox_usage();
	}
	rsk_key_init(&mailbox_key, 42);
	mailbox_stay_on(0);
	rc = mailbox_segments();
	printf("{\"mailbox\":[");
	for (int i = 2; i < argc && !rc; i++) {
		uint32_t size = (uint32_t)strtoul(argv[i], NULL, 10);
		struct mailbox_row row;

		fflush(stdout); /* before fork() */
		rc = mailbox_size(size, (uint64_t)(seconds * 1e9 / (argc - 2)), &row);
		if (rc)
			break;
		printf("%s{\"size_bytes\":%u,\"still_ns\":%.1f,\"publish_ns\":%.1f,"
		       "\"message_ns\":%.1f,\"gets\":%llu,\"whole\":%llu,\"torn\":%llu,"
		       "\"old\":%llu,\"published\":%llu}",
		       i == 2 ? "" : ",", size, row.still_ns, row.publish_ns, row.message_ns,
		       (unsigned long long)row.r.gets, (unsigned long long)row.r.whole,
		       (unsigned long long)row.r.torn, (unsigned long long)row.r.old,
		       (unsigned long long)mailbox_told->published);
	}
	printf("]}\n");
	if (rc)
		fprintf(stderr, "mailbox: %s\n", strerror(-rc));
	return rc ? 1 : 0;
}
