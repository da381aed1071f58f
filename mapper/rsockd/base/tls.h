/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tls.h - mutual TLS 1.3 for connections of libevent between hosts: each end has a certificate that
 * the configured authority has signed. The end that connects checks that the other end's names the
 * address; the end that accepts asks whether it names somebody (rsk_tls_names()). pma_serve.c and
 * pma_link.c use it. One thread.
 */
#ifndef RSK_TLS_H
#define RSK_TLS_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

struct rsk_tls;

/*
 * Loads the libraries, and reads the files. Returns NULL with a line in @error if that fails.
 * Blocks.
 */
struct rsk_tls *rsk_tls_new(const struct rsk_conf_tls *conf, char *error, size_t n);
/* After the last connection is closed. NULL: nothing happens. */
void rsk_tls_free(struct rsk_tls *t);

/*
 * From now on an accepted connection @fd for which may() is false is closed at its first message,
 * before anything of it costs time.
 */
void rsk_tls_accept_only(struct rsk_tls *t, bool (*may)(void *ctx, int fd), void *ctx);

/*
 * A connection that is accepted or made by the caller; the caller gives it a descriptor and owns
 * it. NULL: no memory.
 */
struct bufferevent *rsk_tls_accepting(struct rsk_tls *t, struct event_base *base);
struct bufferevent *rsk_tls_connecting(struct rsk_tls *t, struct event_base *base,
				       const struct rsk_pm_addr *to);

/*
 * Is the name, exactly, a DNS name of the other end's certificate (or, without one, its CN)? False
 * for a connection without TLS.
 */
bool rsk_tls_names(struct bufferevent *connection, const char *name);

#endif
