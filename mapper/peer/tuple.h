/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tuple.h - converts sockets and socket addresses to canonical tuples. Used by the library, rsockd
 * and the tools.
 */
#ifndef RSK_MAPPER_TUPLE_H
#define RSK_MAPPER_TUPLE_H

#include <rsock/tuple.h>

/*
 * Builds the tuple of a pair of socket addresses (len: what the kernel said).
 * Returns 0, -EAFNOSUPPORT (not IPv4 or IPv6, too short, one end v4-mapped and the
 * other not).  The netns field is set to 0.  Pure.
 */
int rsk_tuple_from_addrs(const struct sockaddr_storage *local, socklen_t local_len,
			 const struct sockaddr_storage *peer, socklen_t peer_len,
			 struct rsk_tuple *out);

/*
 * Makes the tuple of a connected TCP socket. Returns 0, -EAFNOSUPPORT, -ENOTCONN, -EBADF and so on.
 * Three system calls, does not block, signal-safe.
 */
int rsk_tuple_from_fd(int fd, struct rsk_tuple *out);

/* The same without the namespace, which is set to 0: two system calls. */
int rsk_tuple_names(int fd, struct rsk_tuple *out);

/*
 * Returns the cookie of the network namespace of a socket (SO_NETNS_COOKIE, kernel 5.14). Older
 * kernels: 0, so that tuples still compare; sock_diag then is the only guard, and it looks in the
 * caller's namespace alone.
 */
uint64_t rsk_netns_of_fd(int fd);

/*
 * Makes the tuple of an address that connect() has taken: only the peer, the local end is zero.
 * Returns 0 or -EAFNOSUPPORT (no address, or neither IPv4 nor IPv6). Pure.
 */
int rsk_tuple_peer(const struct sockaddr *peer, socklen_t len, struct rsk_tuple *out);

/*
 * Returns the kernel's number of a socket, which is never reused (SO_COOKIE); 0: the kernel has
 * none.
 */
uint64_t rsk_cookie_of(int fd);

/*
 * Writes "127.0.0.1:80", "[::1]:80", or "-" if the port is 0, into buf; returns the length.
 * Signal-safe, no malloc.
 */
#define RSK_ADDR_TEXT 64
unsigned int rsk_addr_text(uint16_t family, const uint8_t addr[static 16], uint16_t port,
			   char buf[static RSK_ADDR_TEXT]);

#endif /* RSK_MAPPER_TUPLE_H */
