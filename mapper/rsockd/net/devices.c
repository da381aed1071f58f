// SPDX-License-Identifier: BSD-2-Clause
/* devices.c - see devices.h. */
#include "devices.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define UEVENTS 1 /* multicast group of the kernel's own messages (group 2 has udev's) */
#define UEVENT_BYTES 8192
#define READS_MOST 64

static bool look(struct rsk_devices *d)
{
	struct rsk_discovered *now = d->before;
	int rc = rsk_rdma_ports_read(RSK_RDMA_CLASS, d->ports);

	if (rc < 0)
		fprintf(stderr, "rsockd: RDMA devices: %s\n", strerror(-rc));
	rsk_rdma_links_add(d->had, d->ports);
	d->before = d->found;
	d->found = now;
	rsk_discover(d->ports, d->links, d->found);
	return !rsk_discovered_equal(d->before, d->found);
}

bool rsk_devices_check(struct rsk_devices *d)
{
	static const struct timeval later = { .tv_sec = 1 };

	if (!d->found)
		return false;
	event_add(d->later, &later);
	return look(d);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_devices *d = arg;

	d->changed(d->ctx, look(d));
}

/* A uevent is a line "add@/devices/...", then one line for each variable; each line ends with 0. */
static bool is_of_rdma(const char *text, size_t n)
{
	static const char wanted[] = "SUBSYSTEM=infiniband";

	for (const char *end = text + n; text < end; text += strlen(text) + 1)
		if (strcmp(text, wanted) == 0)
			return true;
	return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_devices *d = arg;
	bool ours = false;

	for (int i = 0; i < READS_MOST; i++) {
		char text[UEVENT_BYTES + 1];
		struct sockaddr_nl from = { 0 };
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, text, UEVENT_BYTES, 0, (struct sockaddr *)&from, &len);

		/* the kernel dropped messages; one of them may have been of a device */
		if (n < 0 && errno == ENOBUFS)
			ours = true;
		else if (n < 0)
			break;
		if (n <= 0 || from.nl_pid != 0)
			continue;
		text[n] = 0;
		ours |= is_of_rdma(text, (size_t)n);
	}
	if (!ours)
		return;
	d->changed(d->ctx, rsk_devices_check(d));
}

static int hear(struct rsk_devices *d, struct event_base *base)
{
	d->socket = mnl_socket_open2(NETLINK_KOBJECT_UEVENT, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!d->socket || mnl_socket_bind(d->socket, UEVENTS, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	d->readable =
		event_new(base, mnl_socket_get_fd(d->socket), EV_READ | EV_PERSIST, on_readable, d);
	return d->readable && event_add(d->readable, NULL) == 0 ? 0 : -ENOMEM;
}

int rsk_devices_open(struct rsk_devices *d, struct event_base *base, const struct rsk_ifaces *links,
		     void (*changed)(void *ctx, bool found), void *ctx)
{
	int rc;

	*d = (struct rsk_devices){ .links = links,
				   .changed = changed,
				   .ctx = ctx,
				   .later = evtimer_new(base, on_later, d),
				   .ports = calloc(1, sizeof(*d->ports)),
				   .had = calloc(1, sizeof(*d->had)),
				   .found = calloc(1, sizeof(*d->found)),
				   .before = calloc(1, sizeof(*d->before)) };
	if (!d->later || !d->ports || !d->had || !d->found || !d->before) {
		rsk_devices_close(d);
		return -ENOMEM;
	}
	rc = hear(d, base);
	rsk_devices_check(d);
	return rc;
}

void rsk_devices_close(struct rsk_devices *d)
{
	if (d->readable)
		event_free(d->readable);
	if (d->later)
		event_free(d->later);
	if (d->socket)
		mnl_socket_close(d->socket);
	free(d->ports);
	free(d->had);
	free(d->found);
	free(d->before);
	*d = (struct rsk_devices){ 0 };
}

struct question {
	const struct rsk_devices *d;
	const struct rsk_pm_addr *ip;
	bool required;
	bool soft, lacks, has;
	struct rsk_bus bus;
};

static bool is_asked(const struct question *q, const struct rsk_pm_addr *ip)
{
	return ip->ipv == q->ip->ipv && memcmp(ip->ip, q->ip->ip, 16) == 0;
}

static void is_soft(void *ctx, const char *link, const struct rsk_pm_addr *ip)
{
	struct question *q = ctx;

	if (is_asked(q, ip))
		q->soft |= rsk_rdma_ports_soft(q->d->ports, link);
}

static void has_device(void *ctx, const char *link, const struct rsk_pm_addr *ip)
{
	struct question *q = ctx;

	if (!is_asked(q, ip))
		return;
	if (rsk_rdma_links_lack(q->d->had, q->d->ports, link, q->required))
		q->lacks = true;
	else
		q->has = true;
}

static void on_attached(void *ctx, const char *link, const struct rsk_pm_addr *ip)
{
	struct question *q = ctx;

	if (is_asked(q, ip))
		q->bus = rsk_rdma_ports_bus(q->d->ports, link);
}

struct rsk_bus rsk_devices_bus(void *devices, const struct rsk_pm_addr *ip)
{
	struct question q = { .d = devices, .ip = ip };

	if (q.d->found)
		rsk_ifaces_each(q.d->links, on_attached, &q);
	return q.bus;
}

bool rsk_devices_lack(const struct rsk_devices *d, const struct rsk_pm_addr *ip, bool required)
{
	struct question q = { .d = d, .ip = ip, .required = required };

	if (d->found)
		rsk_ifaces_each(d->links, has_device, &q);
	return q.lacks && !q.has;
}

bool rsk_devices_soft(void *devices, const struct rsk_pm_addr *ip)
{
	struct question q = { .d = devices, .ip = ip };

	if (q.d->found)
		rsk_ifaces_each(q.d->links, is_soft, &q);
	return q.soft;
}
