/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - tests several threads that move one stream's bytes at once. */
#include "app.h"

static char buf[1 << 20];
static int the_fd;
static _Atomic int counted, stop;
static _Atomic uint64_t summed;

static void send_stream(void *arg)
{
	(void)arg;
	LOG("sent %d", app_send_pattern(the_fd, 4u << 20, 7000, (unsigned int)app_side));
}

CASE(duplex, DIRECT, "one thread reads, one writes, on both sides")
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	app_thread_start(&thread, send_stream, NULL);
	bool ok = app_recv_pattern(the_fd, 4u << 20, 9000, (unsigned int)!app_side);

	app_thread_join(&thread);
	LOG("received %d", ok);
	app_sync();
	app_close(the_fd);
}

static void write_records(void *arg)
{
	char record[100];

	memset(record, *(const char *)arg, sizeof(record));
	for (int i = 0; i < 20000; i++)
		app_write_all(the_fd, record, sizeof(record));
}

CASE(two_writers, DIRECT, "two threads write records: nothing lost, nothing doubled")
{
	struct app_thread thread[2];
	char kind[2] = { 'a', 'b' };
	uint64_t count[256] = { 0 };
	ssize_t n;

	the_fd = app_open(WARM);
	if (CLI) {
		for (int i = 0; i < 2; i++)
			app_thread_start(&thread[i], write_records, &kind[i]);
		for (int i = 0; i < 2; i++)
			app_thread_join(&thread[i]);
		MUST(shutdown(the_fd, SHUT_WR));
	} else {
		while ((n = read(the_fd, buf, 50000)) > 0)
			for (ssize_t i = 0; i < n; i++)
				count[(unsigned char)buf[i]]++;
		LOG("end %zd, a %llu, b %llu", n, (unsigned long long)count['a'],
		    (unsigned long long)count['b']);
	}
	app_sync();
	app_close(the_fd);
}

static void read_sum(void *arg)
{
	unsigned char part[3000];
	ssize_t n;

	(void)arg;
	while ((n = read(the_fd, part, sizeof(part))) > 0) {
		uint64_t sum = 0;

		for (ssize_t i = 0; i < n; i++)
			sum += part[i];
		atomic_fetch_add(&summed, sum);
		atomic_fetch_add(&counted, (int)n);
	}
	LOG("a reader ends with %zd", n);
}

CASE(two_readers, DIRECT, "two threads read: each byte goes to one of them")
{
	struct app_thread thread[2];
	uint64_t sum = 0;

	the_fd = app_open(WARM);
	for (int turn = 0; turn < 8; turn++) {
		app_pattern(buf, 1 << 17, (uint64_t)turn << 17, 1);
		for (int i = 0; i < 1 << 17; i++)
			sum += (unsigned char)buf[i];
		if (CLI)
			app_write_all(the_fd, buf, 1 << 17);
	}
	if (CLI) {
		MUST(shutdown(the_fd, SHUT_WR));
	} else {
		for (int i = 0; i < 2; i++)
			app_thread_start(&thread[i], read_sum, NULL);
		for (int i = 0; i < 2; i++)
			app_thread_join(&thread[i]);
		LOG("bytes %d, sum %d", counted, summed == sum);
	}
	app_sync();
	app_close(the_fd);
}

static void churn(void *arg)
{
	uint64_t rounds = 0;

	(void)arg;
	while (!stop) {
		int extra = dup(the_fd);

		if (extra >= 0)
			close(extra);
		rounds++;
	}
	LOG("churned %d", rounds > 0);
}

CASE(dup_churn, DIRECT, "one thread dups and closes all the time while the stream flows")
{
	struct app_thread thread;

	the_fd = app_open(WARM);
	app_thread_start(&thread, churn, NULL);
	if (CLI)
		app_send_pattern(the_fd, 4u << 20, 5000, 1);
	else
		LOG("received %d", app_recv_pattern(the_fd, 4u << 20, 6000, 1));
	stop = 1;
	app_thread_join(&thread);
	app_sync();
	app_close(the_fd);
}

#define FIRST 8
#define FIRST_TURNS 200

static void first_socket(void *arg)
{
	struct app_addr to;
	uint32_t word = 0, right = 0;
	int fd;

	(void)arg;
	app_addr_make(&to, 0, false, app_port());
	atomic_fetch_add(&counted, 1);
	while (atomic_load(&counted) < FIRST)
		continue;
	fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(fd, &to.sa, to.len));
	for (uint32_t i = 0; i < FIRST_TURNS; i++) {
		app_write_all(fd, &i, sizeof(i));
		right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
	}
	MUST(close(fd));
	atomic_fetch_add(&summed, right);
}

static void echo_words(void *arg)
{
	int fd = *(int *)arg;
	uint32_t word;

	while (app_read_full(fd, &word, sizeof(word)) == sizeof(word))
		app_write_all(fd, &word, sizeof(word));
	MUST(close(fd));
}

/* Of which under a filter one begins the library (preload/boot.h); the others do not wait. */
CASE(first_sockets, 0, "threads make the process's first sockets at the same time")
{
	struct app_thread thread[FIRST];
	int fds[FIRST], listener = SRV ? app_listen(0) : -1;

	for (int i = 0; i < FIRST; i++) {
		if (SRV)
			fds[i] = app_accept(listener);
		app_thread_start(&thread[i], SRV ? echo_words : first_socket, &fds[i]);
	}
	for (int i = 0; i < FIRST; i++)
		app_thread_join(&thread[i]);
	LOG("right %llu", (unsigned long long)summed);
	app_sync();
}
