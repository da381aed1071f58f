/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - requests of the commands map, policy and drain to rsockd over its control socket
 * (HTTP, JSON; mapper/rsockd/http/api.h).
 */
#ifndef RSK_TOOLS_DAEMON_H
#define RSK_TOOLS_DAEMON_H

#include <jansson.h>

#define DAEMON_SOCKET "/run/rsockd/control.sock"

/*
 * Sends one request. @body: an object for POST, whose reference is taken; NULL for GET. *answer
 * is a new reference. Returns EXIT_OK; or, with a message on standard error, EXIT_NO (the daemon
 * refused), EXIT_UNKNOWN (it cannot be reached) or EXIT_FAILED. There is no timeout.
 */
int daemon_ask(const char *socket_path, const char *method, const char *path, json_t *body,
	       json_t **answer);

/*
 * The members that the daemon's requests have in common: "ip" and "port" of a host and a service,
 * each given by name or number. Resolves the names. *out is a new reference. Returns EXIT_OK; or,
 * with a message on standard error, EXIT_UNKNOWN (there is no such host or service) or EXIT_FAILED.
 */
int daemon_question(const char *host, const char *service, json_t **out);

#endif
