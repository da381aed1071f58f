// SPDX-License-Identifier: BSD-2-Clause
/* ports.c - see ports.h. */
#include "ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pm_hash.h"
#include "pm_msg.h"

struct service_key {
	struct rsk_pm_addr service;
	uint8_t ip[16];
};

struct rsk_port {
	struct service_key key;
	struct rsk_pm_addr at; /* address and number of the port itself */
	uint64_t holds;
	int fd;
	UT_hash_handle hh, by_number;
};

static void drop(struct rsk_port *o)
{
	close(o->fd);
	free(o);
}

void rsk_ports_fini(struct rsk_ports *p)
{
	struct rsk_port *o = p->by_service, *next;

	/* The tables are emptied; their entries are still linked as a list. */
	HASH_CLEAR(hh, p->by_service);
	HASH_CLEAR(by_number, p->by_number);
	for (; o; o = next) {
		next = o->hh.next;
		drop(o);
	}
	p->n = 0;
}

static int bind_to(int fd, uint8_t ipv, const uint8_t ip[static 16], uint16_t port)
{
	struct rsk_pm_addr at = { .ipv = ipv, .port = port };
	struct sockaddr_storage sa;
	socklen_t len;

	memcpy(at.ip, ip, 16);
	len = rsk_pm_addr_to_socket(&at, &sa);
	return bind(fd, (struct sockaddr *)&sa, len) < 0 ? -errno : 0;
}

/* Assigns numbers round robin, so that a released number is not used again at once. */
static int bind_in_range(struct rsk_ports *p, int fd, uint8_t ipv, const uint8_t ip[static 16])
{
	int rc = -EADDRINUSE;

	if (!p->first)
		return bind_to(fd, ipv, ip, 0);
	for (uint32_t i = 0; rc == -EADDRINUSE && i <= (uint32_t)(p->last - p->first); i++) {
		if (p->next < p->first || p->next > p->last)
			p->next = p->first;
		rc = bind_to(fd, ipv, ip, p->next);
		p->next = p->next == UINT16_MAX ? p->first : (uint16_t)(p->next + 1);
	}
	return rc;
}

static int make(struct rsk_ports *p, const struct service_key *key)
{
	uint8_t ipv = key->service.ipv;
	struct rsk_pm_addr at = { 0 };
	struct rsk_port *o;
	int fd, rc;

	if (p->n == p->max)
		return -EMFILE;
	fd = socket(ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = bind_in_range(p, fd, ipv, key->ip);
	if (rc == 0)
		rc = rsk_pm_addr_of_fd(fd, &at);
	o = rc == 0 ? calloc(1, sizeof(*o)) : NULL;
	if (!o) {
		close(fd);
		return rc < 0 ? rc : -ENOMEM;
	}
	*o = (struct rsk_port){ .key = *key, .at = at, .fd = fd, .holds = 1 };
	HASH_ADD(hh, p->by_service, key, sizeof(o->key), o);
	HASH_ADD(by_number, p->by_number, at, sizeof(o->at), o);
	p->n++;
	return at.port;
}

int rsk_ports_take(struct rsk_ports *p, const struct rsk_pm_addr *service,
		   const uint8_t ip[static 16])
{
	struct service_key key = { .service = *service };
	struct rsk_port *o;

	memcpy(key.ip, ip, 16);
	HASH_FIND(hh, p->by_service, &key, sizeof(key), o);
	if (!o)
		return make(p, &key);
	o->holds++;
	return o->at.port;
}

void rsk_ports_put(struct rsk_ports *p, uint8_t ipv, const uint8_t ip[static 16], uint16_t port)
{
	struct rsk_pm_addr at = { .port = port, .ipv = ipv };
	struct rsk_port *o;

	memcpy(at.ip, ip, 16);
	HASH_FIND(by_number, p->by_number, &at, sizeof(at), o);
	if (!o || --o->holds)
		return;
	HASH_DELETE(hh, p->by_service, o);
	HASH_DELETE(by_number, p->by_number, o);
	p->n--;
	drop(o);
}
