/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon.h - what the tool asks of rsockd, over its control socket (HTTP, JSON; mapper/rsockd/http/api.h). */
#ifndef RSK_TOOLS_DAEMON_H
#define RSK_TOOLS_DAEMON_H

#include <jansson.h>

#define DAEMON_SOCKET "/run/rsockd/control.sock"

/*
 * One request; @body: an object for POST, its reference is taken; NULL for GET. *answer is a new reference.
 * Returns EXIT_OK; EXIT_NO: the daemon refused, which was told; EXIT_UNKNOWN: it cannot be reached, the same;
 * EXIT_FAILED. Waits for as long as the daemon takes.
 */
int daemon_ask(const char *socket_path, const char *method, const char *path, json_t *body,
	       json_t **answer);

/*
 * The object that the daemon's questions have in common: "ip" and "port" of a host and a service, each by name or
 * number. NULL: there is no such thing, which was told.
 */
json_t *daemon_question(const char *host, const char *service);

#endif
