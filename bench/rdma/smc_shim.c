/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * smc_shim.c - preloaded by bench/rdma.py: turns a program's TCP sockets into SMC sockets
 * (linux/net/smc), which carry the stream by RDMA if both ends agree and fall back to TCP
 * otherwise. The caller finds out which of the two it was by smcnet stats.
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SMCPROTO_SMC 0	/* net/smc: over IPv4 */
#define SMCPROTO_SMC6 1 /* over IPv6 */

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	if ((domain == AF_INET || domain == AF_INET6) &&
	    (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
	    (!protocol || protocol == IPPROTO_TCP)) {
		protocol = domain == AF_INET ? SMCPROTO_SMC : SMCPROTO_SMC6;
		domain = AF_SMC;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}
