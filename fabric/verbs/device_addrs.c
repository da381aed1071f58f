// SPDX-License-Identifier: BSD-2-Clause
/*
 * device_addrs.c - lists the addresses at which this host's RDMA devices can be reached. Called
 * through the module's table, on the progress thread.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "dev.h"

static uint32_t ones(const uint8_t *mask, size_t bytes)
{
	uint32_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += (uint32_t)__builtin_popcount(mask[i]);
	return n;
}

/* Describes an interface's address. Returns false if no rail can use it. */
static bool describe(const struct ifaddrs *i, struct rsk_verbs_device_addr *p)
{
	const struct sockaddr_in *four = (const void *)i->ifa_addr,
				 *mask = (const void *)i->ifa_netmask;
	const struct sockaddr_in6 *six = (const void *)i->ifa_addr,
				  *mask6 = (const void *)i->ifa_netmask;

	if (!i->ifa_addr || !i->ifa_netmask || !(i->ifa_flags & IFF_UP) ||
	    (i->ifa_flags & IFF_LOOPBACK))
		return false;
	*p = (struct rsk_verbs_device_addr){ .addr.family = i->ifa_addr->sa_family };
	if (i->ifa_addr->sa_family == AF_INET) {
		memcpy(p->addr.ip, &four->sin_addr, 4);
		p->prefix_bits = ones((const uint8_t *)&mask->sin_addr, 4);
		return true;
	}
	if (i->ifa_addr->sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
		return false;
	memcpy(p->addr.ip, &six->sin6_addr, 16);
	p->prefix_bits = ones((const uint8_t *)&mask6->sin6_addr, 16);
	return true;
}

/* Finds the device that has the address, as rdma_cm does. */
static bool device_of(struct rsk_verbs *v, const struct sockaddr *sa, struct ibv_context **ctx,
		      uint8_t *port)
{
	struct rdma_cm_id *id;

	if (rsk_cm->create_id(v->channel, &id, NULL, RDMA_PS_TCP))
		return false;
	*ctx = rsk_cm->bind_addr(id, (struct sockaddr *)(uintptr_t)sa) ? NULL : id->verbs;
	*port = id->port_num;
	rsk_cm->destroy_id(id);
	return *ctx && rsk_context_own(v, *ctx) == 0;
}

static bool has_file(const struct ibv_context *ctx, const char *name, char *line, int room)
{
	char path[sizeof(ctx->device->ibdev_path) + 16];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "%s/%s", ctx->device->ibdev_path, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	got = fgets(line, room, file);
	fclose(file);
	return got;
}

/*
 * A software device is on no bus, but some kernels place it on the bus of the network card below
 * it. Then it is recognised by a file that only rxe has, or by the description of siw. (The same
 * check as in ../../mapper/host/rdma_ports.c.)
 */
static bool is_soft(const struct ibv_context *ctx)
{
	char target[512], line[64];
	ssize_t n = readlink(ctx->device->ibdev_path, target, sizeof(target) - 1);

	target[n < 0 ? 0 : n] = 0;
	if (strstr(target, "/devices/virtual/") || has_file(ctx, "parent", line, sizeof(line)))
		return true;
	return has_file(ctx, "node_desc", line, sizeof(line)) &&
	       (!strcmp(line, "rxe\n") || !strcmp(line, "Software iWARP stack\n"));
}

uint32_t rsk_verbs_addresses(struct rsk_verbs *v, struct rsk_verbs_device_addr *out, uint32_t most)
{
	enum {
		DEVICES = 16
	};
	struct {
		struct ibv_context *ctx;
		uint8_t port;
	} seen[DEVICES];
	uint32_t n = 0, devices = 0, d;
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && n < most; i = i->ifa_next) {
		struct ibv_context *ctx;
		uint8_t port;

		if (!describe(i, &out[n]) || !device_of(v, i->ifa_addr, &ctx, &port))
			continue;
		for (d = 0; d < devices; d++)
			if (seen[d].ctx == ctx && seen[d].port == port)
				break;
		if (d == DEVICES)
			continue;
		seen[d].ctx = ctx;
		seen[d].port = port;
		devices += d == devices;
		out[n].soft = is_soft(ctx);
		out[n++].device = (uint16_t)d;
	}
	freeifaddrs(all);
	return n;
}
