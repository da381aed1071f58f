/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * early_lib.c - a library preloaded beside librsock.so that uses sockets before librsock is ready:
 * in the first allocation of the process, and in its constructor. It prints the result on fd 2;
 * test_boot.c starts it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

/* glibc's malloc and calloc, under the names that a replacement may call. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);

/*
 * Each call must do what libc's does: a socket is made, used, found unconnected, and closed once.
 */
static bool calls_work(void)
{
	struct pollfd p = { .events = POLLOUT };
	char byte = 0;
	int fd = socket(AF_INET, SOCK_STREAM, 0), other;
	bool ok = fd >= 0;

	errno = 0;
	ok = ok && recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == ENOTCONN;
	ok = ok && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK);
	p.fd = fd;
	ok = ok && poll(&p, 1, 0) == 1;
	other = dup(fd);
	ok = ok && other > fd && close(other) == 0 && close(fd) == 0;
	errno = 0;
	return ok && close(fd) == -1 && errno == EBADF;
}

static void say(const char *text, size_t bytes)
{
	if (write(STDERR_FILENO, text, bytes) < 0)
		_exit(99);
}

#define SAY(what, ok)                                                                              \
	((ok) ? say(what " works\n", sizeof(what " works")) :                                      \
		say(what " FAILS\n", sizeof(what " FAILS")))

static void first_allocation(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	SAY("allocation", calls_work());
}

void *malloc(size_t bytes)
{
	first_allocation();
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	first_allocation();
	return __libc_calloc(n, bytes);
}

__attribute__((constructor)) static void constructor(void)
{
	SAY("constructor", calls_work());
}
