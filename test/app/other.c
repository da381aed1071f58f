/* SPDX-License-Identifier: BSD-2-Clause */
/* other.c - tests what is not TCP between two processes: MPTCP, UDP, AF_UNIX, pipes, files. */
#include "app.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <sys/un.h>

static char buf[65536];

CASE(mptcp, 0, "IPPROTO_MPTCP, where the kernel has it")
{
	struct app_addr addr;
	int fd = socket(AF_INET, SOCK_STREAM, 262);

	LOG("socket %s", fd < 0 ? app_errname(errno) : "made");
	if (fd < 0)
		return;
	app_addr_make(&addr, COLD, SRV, 0);
	if (SRV) {
		MUST(bind(fd, &addr.sa, addr.len));
		MUST(listen(fd, 5));
		MUST(getsockname(fd, &addr.sa, &addr.len));
		app_flag_set(0, ntohs(addr.in.sin_port));
		fd = app_accept(fd);
	} else {
		addr.in.sin_port = htons((uint16_t)app_flag_wait(0));
		MUST(connect(fd, &addr.sa, addr.len));
	}
	LOG("good %d", app_pingpong(fd, 500, CLI));
	app_sync();
	R(close(fd));
}

CASE(udp, 0, "UDP is left alone")
{
	struct app_addr addr, from = { .len = sizeof(from.ss) };
	int fd = (int)R(socket(AF_INET, SOCK_DGRAM, 0));

	app_addr_make(&addr, COLD, true, 0);
	MUST(bind(fd, &addr.sa, addr.len));
	MUST(getsockname(fd, &addr.sa, &addr.len));
	app_flag_set(app_side, ntohs(addr.in.sin_port));
	addr.in.sin_port = htons((uint16_t)app_flag_wait(!app_side));
	if (CLI) {
		for (int i = 0; i < 500; i++) {
			if (sendto(fd, "datagram", 8, 0, &addr.sa, addr.len) != 8 ||
			    recv(fd, buf, 100, 0) != 8)
				LOG("round %d", i);
		}
		R(connect(fd, &addr.sa, addr.len));
		R(send(fd, "", 0, 0));
		R(send(fd, "connected", 9, 0));
	} else {
		for (int i = 0; i < 500; i++) {
			if (recvfrom(fd, buf, 100, 0, &from.sa, &from.len) != 8 ||
			    sendto(fd, buf, 8, 0, &from.sa, from.len) != 8)
				LOG("round %d", i);
		}
		R(recv(fd, buf, 100, 0));
		RB(buf, recv(fd, buf, 4, MSG_TRUNC));
		R(recv(fd, buf, 4, MSG_DONTWAIT));
	}
	app_sync();
	R(close(fd));
}

CASE(unix_sockets, 0, "AF_UNIX stream, datagram and seqpacket pairs are left alone")
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

	for (int i = 0; i < 3; i++) {
		int sv[2];

		R(socketpair(AF_UNIX, types[i], 0, sv));
		for (int k = 0; k < 500; k++)
			if (write(sv[k % 2], "unix", 4) != 4 || read(sv[!(k % 2)], buf, 100) != 4)
				LOG("round %d", k);
		R(shutdown(sv[0], SHUT_WR));
		R(recv(sv[1], buf, 1, MSG_DONTWAIT));
		R(close(sv[0]));
		R(close(sv[1]));
	}
	app_sync();
}

CASE(unix_listener, 0, "a unix listener and its clients in two processes")
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(addr);
	int fd = (int)R(socket(AF_UNIX, SOCK_STREAM, 0));

	if (SRV) {
		/* Autobind: five hexadecimal digits, passed to the client as a number. */
		MUST(bind(fd, (struct sockaddr *)&addr, sizeof(sa_family_t)));
		MUST(listen(fd, 5));
		MUST(getsockname(fd, (struct sockaddr *)&addr, &len));
		char text[6] = { 0 };

		memcpy(text, addr.sun_path + 1, 5);
		app_flag_set(0, strtoul(text, NULL, 16) + 1);
		fd = app_accept(fd);
	} else {
		snprintf(addr.sun_path + 1, 6, "%05x", (unsigned int)app_flag_wait(0) - 1);
		len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6);
		MUST(connect(fd, (struct sockaddr *)&addr, len));
	}
	LOG("good %d", app_pingpong(fd, 500, CLI));
	app_sync();
	R(close(fd));
}

CASE(pipes_files, 0, "pipes, FIFOs' kin, files and eventfds are left alone")
{
	int p[2];
	int file = (int)MUST(memfd_create("file", 0));

	MUST(pipe(p));
	for (int i = 0; i < 500; i++) {
		MUST(write(p[1], "pipe", 4));
		MUST(read(p[0], buf, 100));
		MUST(pwrite(file, "file", 4, i * 4));
	}
	R(lseek(file, 0, SEEK_END));
	R(ftruncate(file, 7));
	RB(buf, pread(file, buf, 100, 1));
	R(dup2(p[0], file));
	app_sync();
}
