// SPDX-License-Identifier: BSD-2-Clause
/* daemon.c - see daemon.h. */
#include "daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "json.h"
#include "rsock.h"

#define ANSWER_MOST (16u << 20)

static int reach(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

static int send_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		text += sent;
		n -= (size_t)sent;
	}
	return 0;
}

/*
 * Receives until the connection ends, which in HTTP/1.0 is the end of the answer. Returns
 * allocated, zero-terminated text; NULL on error.
 */
static char *receive_all(int fd, size_t *n)
{
	size_t room = 65536;
	char *text = malloc(room + 1), *more;
	ssize_t got = 1;

	*n = 0;
	while (text && got) {
		if (*n == room) {
			more = room < ANSWER_MOST ? realloc(text, 2 * room + 1) : NULL;
			if (!more)
				break;
			text = more;
			room *= 2;
		}
		got = recv(fd, text + *n, room - *n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		*n += (size_t)got;
	}
	if (!text || got) {
		free(text);
		return NULL;
	}
	text[*n] = 0;
	return text;
}

static char *exchange(int fd, const char *method, const char *path, const char *body, size_t *n)
{
	char head[512];
	int rc;

	snprintf(head, sizeof(head),
		 "%s %s HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		 "Content-Length: %zu\r\n\r\n",
		 method, path, body ? strlen(body) : 0);
	rc = send_all(fd, head, strlen(head));
	if (rc == 0 && body)
		rc = send_all(fd, body, strlen(body));
	return rc < 0 ? NULL : receive_all(fd, n);
}

static int understand(const char *text, json_t **answer)
{
	const char *body = strstr(text, "\r\n\r\n");
	json_error_t error;
	long status = 0;

	if (strncmp(text, "HTTP/1.", 7) == 0 && strlen(text) > 12)
		status = strtol(text + 9, NULL, 10);
	*answer = body ? json_loads(body + 4, 0, &error) : NULL;
	if (!*answer)
		return failure("the daemon's answer is not valid");
	if (status == 200)
		return EXIT_OK;
	fprintf(stderr, "rsock: rsockd: %s\n",
		json_string_value(json_object_get(*answer, "error")));
	json_decref(*answer);
	*answer = NULL;
	return EXIT_NO;
}

int daemon_ask(const char *socket_path, const char *method, const char *path, json_t *body,
	       json_t **answer)
{
	char *request = body ? json_dumps(body, JSON_COMPACT) : NULL, *text;
	bool lost = body && !request;
	size_t n = 0;
	int fd, rc;

	*answer = NULL;
	json_decref(body);
	if (lost)
		return failure("no memory");
	fd = reach(socket_path);
	if (fd < 0) {
		free(request);
		fprintf(stderr, "rsock: rsockd cannot be reached at %s: %s\n", socket_path,
			strerror(-fd));
		return EXIT_UNKNOWN;
	}
	text = exchange(fd, method, path, request, &n);
	close(fd);
	free(request);
	if (!text || !n) {
		free(text);
		fprintf(stderr, "rsock: rsockd at %s did not answer\n", socket_path);
		return EXIT_UNKNOWN;
	}
	rc = understand(text, answer);
	free(text);
	return rc;
}

int daemon_question(const char *host, const char *service, json_t **out)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char ip[NI_MAXHOST], port[NI_MAXSERV];
	int rc = getaddrinfo(host, service, &hints, &found);

	*out = NULL;
	if (rc == 0) {
		rc = getnameinfo(found->ai_addr, found->ai_addrlen, ip, sizeof(ip), port,
				 sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
		freeaddrinfo(found);
	}
	if (rc) {
		fprintf(stderr, "rsock: %s, %s: %s\n", host, service, gai_strerror(rc));
		return EXIT_UNKNOWN;
	}
	/* The request does not name the interface of a link-local address. */
	ip[strcspn(ip, "%")] = 0;
	*out = json_pack("{s:s,s:i}", "ip", ip, "port", (int)strtol(port, NULL, 10));
	return *out ? EXIT_OK : failure("no memory");
}
