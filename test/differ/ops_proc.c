/* SPDX-License-Identifier: BSD-2-Clause */
/* ops_proc.c - the worker's operations fork, exec, spawned children, and passing descriptors. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The elements of argv are of type char *, so these are arrays. */
static struct {
	char worker[16], resume[8], io[4], head[8], count[4];
} words = { "differ_worker", "resume", "io", "head", "-c" };

/* fork NAME: the child connects to the controller under that name. */
void op_fork(struct op *op)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
		control_join(op->word[1]);
		op->used = 0;
		say(op, "forked");
		return;
	}
	say(op, "%s", pid < 0 ? "no child" : "forked");
}

/* exec: executes itself; the new program gets the handles. */
void op_exec(struct op *op)
{
	static char text[MAX_HANDLES][16];
	char *argv[MAX_HANDLES + 8];
	int n = 0;

	argv[n++] = words.worker;
	argv[n++] = words.resume;
	argv[n++] = folder;
	argv[n++] = name;
	for (int i = 0; i < MAX_HANDLES; i++)
		if (fd_of[i] >= 0 && !(fcntl(fd_of[i], F_GETFD) & FD_CLOEXEC)) {
			snprintf(text[i], sizeof(text[i]), "%d:%d", i, fd_of[i]);
			argv[n++] = text[i];
		}
	argv[n] = NULL;
	execv("/proc/self/exe", argv);
	say_result(op, -1);
}

/* How the child is started. */
enum how {
	FORK,
	VFORK,
	SPAWN,
	SPAWN_DUP2,
	FORK_CAT,
};

static pid_t begin(enum how how, int fd, int out, char **argv, char **env)
{
	static char exe[] = "/proc/self/exe";
	posix_spawn_file_actions_t acts;
	pid_t pid = -1;

	if (how == FORK || how == VFORK || how == FORK_CAT) {
		/* A vforked child may not do this according to the standard, but programs do it. */
		pid = how == VFORK ? vfork() : fork(); /* NOLINT */
		if (!pid) {
			dup2(out, 1);
			if (how == FORK_CAT) {
				dup2(fd, 0);
				execv("/usr/bin/head", argv);
			} else {
				execve(exe, argv, env);
			}
			_exit(99);
		}
		return pid;
	}
	posix_spawn_file_actions_init(&acts);
	posix_spawn_file_actions_adddup2(&acts, out, 1);
	if (how == SPAWN_DUP2)
		posix_spawn_file_actions_adddup2(&acts, fd, 0);
	if ((errno = posix_spawn(&pid, exe, &acts, NULL, argv, env)))
		pid = -1;
	posix_spawn_file_actions_destroy(&acts);
	return pid;
}

/*
 * child H HOW PRELOAD r LEN | child H HOW PRELOAD w LEN KEY POS: answers with the child's output
 * and exit status.
 */
void op_child(struct op *op)
{
	enum how how = (enum how)op->arg[1];
	char number[16], got[512] = "", head[32];
	char *none[] = { NULL };
	int fd = handle(op->arg[0]), p[2], status = -1;
	uint32_t sum = 0x811c9dc5;
	size_t sum_len = 0;
	ssize_t n;

	snprintf(number, sizeof(number), "%d", how == SPAWN_DUP2 ? 0 : fd);
	char *argv[] = { words.worker,
			 words.io,
			 number,
			 op->word[4],
			 op->word[5],
			 op->count > 6 ? op->word[6] : NULL,
			 op->count > 7 ? op->word[7] : NULL,
			 NULL };
	snprintf(head, sizeof(head), "%s", op->word[5]);
	char *cat[] = { words.head, words.count, head, NULL };

	if (pipe2(p, O_CLOEXEC))
		return;
	pid_t pid = begin(how, fd, p[1], how == FORK_CAT ? cat : argv, op->arg[2] ? environ : none);

	close(p[1]);
	for (;;) {
		struct pollfd q = { .fd = p[0], .events = POLLIN };

		if (poll(&q, 1, PATIENCE_MS) <= 0) {
			say(op, "HANG: the child says nothing ");
			kill(pid, SIGKILL);
			break;
		}
		n = read(p[0], got, sizeof(got) - 1);
		if (n <= 0)
			break;
		if (how == FORK_CAT) {
			crc(&sum, got, (size_t)n);
		} else {
			got[n] = '\0';
			say(op, "%s", got);
		}
		sum_len += (size_t)n;
	}
	close(p[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (how == FORK_CAT)
		say(op, "received %zu sum=%08x", sum_len, sum);
	say(op, " status %x", (unsigned)status);
}

int child_main(int argc, char **argv)
{
	int fd = atoi(argv[2]);
	size_t len = (size_t)atol(argv[4]), done = 0;
	uint8_t *buf = malloc(MAX_BYTES);
	uint32_t sum = 0x811c9dc5;
	ssize_t n = 0;

	while (done < len) {
		size_t want = len - done < MAX_BYTES ? len - done : MAX_BYTES;
		bool in = argv[3][0] == 'r';
		struct pollfd p = { .fd = fd, .events = in ? POLLIN : POLLOUT };

		if (poll(&p, 1, PATIENCE_MS - 500) <= 0) {
			errno = ETIMEDOUT;
			n = -1;
			break;
		}
		if (in) {
			n = read(fd, buf, want);
		} else {
			pattern(argc > 5 ? (uint32_t)atol(argv[5]) : 0,
				(uint64_t)(argc > 6 ? atol(argv[6]) : 0) + done, buf, want);
			n = write(fd, buf, want);
		}
		if (n <= 0)
			break;
		if (in)
			crc(&sum, buf, (size_t)n);
		done += (size_t)n;
	}
	printf("child %zu sum=%08x %s", done, sum, n < 0 ? strerrorname_np(errno) : "");
	free(buf);
	return 0;
}

/* pass H TO: sends the descriptor to another process's inbox. */
void op_pass(struct op *op)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_name = &addr,
			      .msg_namelen = sizeof(addr),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int fd = handle(op->arg[0]);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/inbox.%s", folder, op->word[2]);
	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS,
					 .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	say_result(op, sendmsg(INBOX_FD, &msg, 0));
}

/* take H */
void op_take(struct op *op)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(INBOX_FD, &msg, MSG_DONTWAIT);
	int fd = -1;

	say_result(op, n);
	if (n > 0 && msg.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	handle_set(op, op->arg[0], fd);
}
