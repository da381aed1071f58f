/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker.c - the main loop of a process of the differential fuzzer, and what its operations share;
 * see worker.h.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <rsock/clock.h>

int fd_of[MAX_HANDLES];
char name[32], folder[64];
int scale = 1;

static atomic_int sigpipes;

/* Operations that run in threads of their own until they are joined. */
static struct async {
	struct op op;
	pthread_t thread;
	atomic_int tid;
	atomic_bool done;
} asyncs[8];

static const struct {
	const char *name;
	void (*run)(struct op *op);
} table[] = {
	{ "send", op_send },
	{ "recv", op_recv },
	{ "bsend", op_bulk_send },
	{ "brecv", op_bulk_recv },
	{ "bcheck", op_bulk_check },
	{ "stdio", op_stdio },
	{ "splicein", op_splice_in },
	{ "copyrange", op_copy_range },
	{ "listen", op_listen },
	{ "connect", op_connect },
	{ "accept", op_accept },
	{ "pipe", op_pipe },
	{ "socketpair", op_socketpair },
	{ "file", op_file },
	{ "close", op_close },
	{ "dup", op_dup },
	{ "shutdown", op_shutdown },
	{ "nonblock", op_nonblock },
	{ "inq", op_inq },
	{ "outq", op_outq },
	{ "getopt", op_getopt },
	{ "setopt", op_setopt },
	{ "getfl", op_getfl },
	{ "poll", op_poll },
	{ "settle", op_settle },
	{ "epnew", op_epoll_new },
	{ "epctl", op_epoll_ctl },
	{ "epwait", op_epoll_wait },
	{ "fork", op_fork },
	{ "exec", op_exec },
	{ "child", op_child },
	{ "pass", op_pass },
	{ "take", op_take },
};

void say(struct op *op, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(op->answer + op->used, sizeof(op->answer) - op->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		op->used += (size_t)n < sizeof(op->answer) - op->used ?
				    (size_t)n :
				    sizeof(op->answer) - op->used - 1;
}

void say_result(struct op *op, long ret)
{
	if (ret < 0)
		say(op, "-1 %s ", strerrorname_np(errno));
	else
		say(op, "%ld ", ret);
}

int handle(long h)
{
	return h >= 0 && h < MAX_HANDLES ? fd_of[h] : -1;
}

void handle_set(struct op *op, long h, int fd)
{
	if (h >= 0 && h < MAX_HANDLES)
		fd_of[h] = fd;
	if (fd < 0)
		say_result(op, -1);
	else
		say(op, "fd=%d ", fd);
}

void crc(uint32_t *sum, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		*sum = (*sum ^ p[i]) * 0x01000193u;
}

void pattern(uint32_t key, uint64_t pos, uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint64_t x = (pos + i + ((uint64_t)key << 40)) * 0x9e3779b97f4a7c15u;

		buf[i] = (uint8_t)((x ^ (x >> 29)) >> 32);
	}
}

int64_t now_ms(void)
{
	return (int64_t)(rsk_monotonic_ns() / 1000000);
}

void op_parse(struct op *op, const char *line)
{
	char *save = NULL;

	memset(op->arg, 0, sizeof(op->arg));
	op->used = 0;
	op->answer[0] = '\0';
	op->count = 0;
	snprintf(op->line, sizeof(op->line), "%s", line);
	for (char *w = strtok_r(op->line, " \n", &save); w && op->count < MAX_ARGS;
	     w = strtok_r(NULL, " \n", &save)) {
		op->word[op->count] = w;
		if (op->count)
			op->arg[op->count - 1] = strtol(w, NULL, 0);
		op->count++;
	}
}

void op_run(struct op *op)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (op->count && !strcmp(op->word[0], table[i].name)) {
			table[i].run(op);
			return;
		}
	say(op, "no operation of this name");
}

static void on_sigpipe(int sig)
{
	(void)sig;
	atomic_fetch_add(&sigpipes, 1);
}

static void *async_main(void *arg)
{
	struct async *a = arg;

	atomic_store(&a->tid, (int)syscall(SYS_gettid));
	op_run(&a->op);
	atomic_store(&a->done, true);
	return NULL;
}

/* async SLOT NAME ARGS...: answers when the thread is about to make the call. */
static void async_begin(struct op *op, const char *line)
{
	struct async *a = &asyncs[op->arg[0] & 7];
	const char *rest = strchr(strchr(line, ' ') + 1, ' ') + 1;

	atomic_store(&a->done, false);
	atomic_store(&a->tid, 0);
	op_parse(&a->op, rest);
	if (pthread_create(&a->thread, NULL, async_main, a)) {
		say(op, "no thread");
		return;
	}
	while (!atomic_load(&a->tid))
		sched_yield();
	say(op, "begun # %d", atomic_load(&a->tid));
}

static void async_join(struct op *op)
{
	struct async *a = &asyncs[op->arg[0] & 7];
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += PATIENCE_MS / 1000;
	if (pthread_timedjoin_np(a->thread, NULL, &ts))
		say(op, "HANG: still in the call");
	else
		say(op, "%s", a->op.answer);
}

void control_join(const char *as)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(name, sizeof(name), "%s", as);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/control", folder);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		_exit(90);
	dup2(fd, CONTROL_FD);
	close(fd);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/inbox.%s", folder, name);
	unlink(addr.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		_exit(91);
	dup2(fd, INBOX_FD);
	close(fd);
	if (write(CONTROL_FD, name, strlen(name)) < 0)
		_exit(92);
}

static void serve(void)
{
	static char line[1024];
	static struct op op;
	ssize_t n;

	while ((n = read(CONTROL_FD, line, sizeof(line) - 1)) > 0) {
		int before = atomic_load(&sigpipes);

		line[n] = '\0';
		op_parse(&op, line);
		if (!op.count)
			continue;
		if (!strcmp(op.word[0], "exit"))
			exit((int)op.arg[0]);
		if (!strcmp(op.word[0], "async"))
			async_begin(&op, line);
		else if (!strcmp(op.word[0], "join"))
			async_join(&op);
		else
			op_run(&op);
		if (atomic_load(&sigpipes) != before)
			say(&op, " sigpipe %d", atomic_load(&sigpipes) - before);
		if (write(CONTROL_FD, op.answer, op.used ? op.used : 1) < 0)
			break;
	}
}

/* Continues after an exec of itself: `worker resume FOLDER NAME handle:fd ...`. */
static void resume(int argc, char **argv)
{
	snprintf(name, sizeof(name), "%s", argv[3]);
	for (int i = 4; i < argc; i++) {
		int h, fd;

		if (sscanf(argv[i], "%d:%d", &h, &fd) == 2 && h >= 0 && h < MAX_HANDLES)
			fd_of[h] = fd;
	}
	if (write(CONTROL_FD, "executed", 8) < 0)
		_exit(93);
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_sigpipe, .sa_flags = SA_RESTART };

	if (argc > 3 && !strcmp(argv[1], "io"))
		return child_main(argc, argv);
	if (argc < 4)
		return 2;
	if (!strcmp(argv[1], "start"))
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	sigaction(SIGPIPE, &act, NULL);
	signal(SIGCHLD, SIG_DFL);
	for (int i = 0; i < MAX_HANDLES; i++)
		fd_of[i] = -1;
	if (getenv("DIFFER_SCALE"))
		scale = atoi(getenv("DIFFER_SCALE"));
	snprintf(folder, sizeof(folder), "%s", argv[2]);
	if (!strcmp(argv[1], "resume"))
		resume(argc, argv);
	else
		control_join(argv[3]);
	serve();
	return 0;
}
