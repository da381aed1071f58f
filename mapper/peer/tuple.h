/* SPDX-License-Identifier: BSD-2-Clause */
/* tuple.h - from sockets and socket addresses to canonical tuples. */
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
 * The tuple of a connected TCP socket.
 * Returns 0, -EAFNOSUPPORT, -ENOTCONN, -EBADF and so on.  Three system calls, does
 * not block, signal-safe.
 */
int rsk_tuple_from_fd(int fd, struct rsk_tuple *out);

/* The same without the namespace, which is 0: two system calls. */
int rsk_tuple_names(int fd, struct rsk_tuple *out);

/*
 * The cookie of the network namespace a socket lives in (SO_NETNS_COOKIE, kernel
 * 5.14).  Older kernels: 0, so that tuples still compare; sock_diag then is the only
 * guard, and it looks in the caller's namespace alone.
 */
uint64_t rsk_netns_of_fd(int fd);

/*
 * The peer alone, of an address that connect() has taken; the local end is zeroes. -EAFNOSUPPORT: none, or no
 * IPv4 or IPv6. Pure.
 */
int rsk_tuple_peer(const struct sockaddr *peer, socklen_t len, struct rsk_tuple *out);

/* The kernel's number of a socket, which it never gives again (SO_COOKIE); 0: it does not say. */
uint64_t rsk_cookie_of(int fd);

/*
 * Could both ends be on this host?  A cheap test before anything is posted: the two
 * addresses are equal or both loopback.  False does not prove the contrary (two
 * addresses of one host): ask the registry all the same where true is not given.
 */
bool rsk_tuple_is_loopback(const struct rsk_tuple *t);

/* "127.0.0.1:80", "[::1]:80", or "-" of port 0, into buf; returns its length.  Signal-safe, no malloc. */
#define RSK_ADDR_TEXT 64
unsigned int rsk_addr_text(uint16_t family, const uint8_t addr[static 16], uint16_t port,
			   char buf[static RSK_ADDR_TEXT]);

#endif /* RSK_MAPPER_TUPLE_H */
