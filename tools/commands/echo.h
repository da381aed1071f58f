/* SPDX-License-Identifier: BSD-2-Clause */
/* echo.h - two ends of our own: a server that sends back what it gets (RFC 862), and a client that times it. */
#ifndef RSK_TOOLS_ECHO_H
#define RSK_TOOLS_ECHO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ECHO_ROUNDS 2000u

/* A TCP connection to the first address that answers, TCP_NODELAY. The fd, or -errno; -EHOSTUNREACH: no such name. */
int echo_connect(const char *host, const char *port, uint64_t timeout_ns);

/*
 * One message of 64 bytes there and back. 0; -ETIMEDOUT, -ECONNRESET (also where it is closed), -EBADMSG (what came
 * is not what was sent: no echo server), other -errno.
 */
int echo_round(int fd, uint32_t number, uint64_t timeout_ns);

/* ECHO_ROUNDS of them, timed: the median and the 99th percentile, ns. 0 or as above. */
int echo_measure(int fd, uint64_t timeout_ns, uint64_t *p50_ns, uint64_t *p99_ns);

/* Listening sockets on all addresses of @host (NULL: the loopback ones) with one port; how many, or -errno. */
int echo_listen(const char *host, const char *port, int fds[static 4]);

/* Serves until the process is ended, or, if @once, until the first client has gone. 0 or -errno. */
int echo_serve(const int *listeners, int n, bool once);

#endif /* RSK_TOOLS_ECHO_H */
