/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * echo.h - an echo server (RFC 862) and a client that measures it, for rsock check --serve and
 * --echo.
 */
#ifndef RSK_TOOLS_ECHO_H
#define RSK_TOOLS_ECHO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define ECHO_ROUNDS 2000u

/*
 * Connects to the first address of @host that answers, with TCP_NODELAY. Returns the nonblocking
 * fd, or -errno; -EHOSTUNREACH: no such name.
 */
int echo_connect(const char *host, const char *port, uint64_t timeout_ns);

/*
 * Sends a message of 64 bytes and receives its echo. 0; -ETIMEDOUT; -ECONNRESET, also for an
 * orderly close; -EBADMSG: other bytes came back, it is no echo server; other -errno.
 */
int echo_round(int fd, uint32_t number, uint64_t timeout_ns);

/* Measures ECHO_ROUNDS rounds: median and 99th percentile in ns. 0, or an error of echo_round(). */
int echo_measure(int fd, uint64_t timeout_ns, uint64_t *p50_ns, uint64_t *p99_ns);

/*
 * Opens listening sockets on up to 4 addresses of @host (NULL: the loopback ones), all on one
 * port. Returns their number, or -errno.
 */
int echo_listen(const char *host, const char *port, int fds[static 4]);

/* Serves until the process is killed or, if @once, until a client has ended. 0 or -errno. */
int echo_serve(const int *listeners, int n, bool once);

#endif /* RSK_TOOLS_ECHO_H */
