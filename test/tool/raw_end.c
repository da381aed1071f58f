// SPDX-License-Identifier: BSD-2-Clause
/*
 * raw_end.c - bin/tool_raw_end PORT (tool_reasons.py): round trips of 64 bytes by raw system calls,
 * with the note of the Go linker. To the library it looks like a Go program with cgo: libc's loader
 * has mapped the library, which sees none of the program's calls.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/syscall.h>

__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
	".balign 4\n"
	".long 4, 4, 4\n"
	".asciz \"Go\\0\"\n"
	".ascii \"test\"\n"
	".popsection\n");

static long call(long nr, long a, long b, long c)
{
	long ret;

#if defined(__x86_64__)
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	ret = x0;
#else
#error "say how this machine makes a system call"
#endif
	return ret;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char block[64] = { 0 };
	long fd;

	if (argc != 2)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[1]));
	fd = call(SYS_socket, AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || call(SYS_connect, fd, (long)&to, sizeof(to)) < 0)
		return 1;
	for (;;) {
		long left = sizeof(block);

		if (call(SYS_write, fd, (long)block, sizeof(block)) != (long)sizeof(block))
			return 0;
		while (left) {
			long n = call(SYS_read, fd, (long)block, left);

			if (n <= 0)
				return 0;
			left -= n;
		}
	}
}
