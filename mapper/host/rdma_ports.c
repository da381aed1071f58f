// SPDX-License-Identifier: BSD-2-Clause
/* rdma_ports.c - see rdma_ports.h. */
#include "rdma_ports.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 128

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Reads a file's first line, without its end; false if there is none. */
static bool read_line(int at, const char *name, char line[static LINE])
{
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, LINE - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	return *line;
}

/* Calls @each for each entry except those that begin with "."; closes @at. */
static void each_entry(int at, void (*each)(void *ctx, int at, const char *name), void *ctx)
{
	DIR *dir = fdopendir(at);
	const struct dirent *entry;

	if (!dir) {
		close(at);
		return;
	}
	while ((entry = readdir(dir)))
		if (*entry->d_name != '.')
			each(ctx, dirfd(dir), entry->d_name);
	closedir(dir);
}

/* ---- a device ---- */

/*
 * A software device is on no bus, but some kernels place it on the bus of the network card below
 * it. Then it is recognised by a file that only rxe has, or by the description of siw.
 */
static bool is_soft(int class, const char *name, int device)
{
	char target[512], line[LINE];
	ssize_t n = readlinkat(class, name, target, sizeof(target) - 1);

	target[n < 0 ? 0 : n] = 0;
	if (strstr(target, "/devices/virtual/") || read_line(device, "parent", line))
		return true;
	return read_line(device, "node_desc", line) &&
	       (!strcmp(line, "rxe") || !strcmp(line, "Software iWARP stack"));
}

/* Parses "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)". */
static uint64_t bps_of(const char *line)
{
	char *end;
	double gbit = strtod(line, &end);

	if (end == line || strncmp(end, " Gb/sec", 7) != 0 || !(gbit > 0 && gbit < 1e6))
		return 0;
	return (uint64_t)(gbit * 1e9);
}

struct found {
	struct rsk_rdma_ports *out;
	struct rsk_rdma_port port;
	size_t unplaced; /* ports of this device without a link */
};

static void add_link(struct found *f, const char *link)
{
	struct rsk_rdma_ports *out = f->out;

	if (strlen(link) >= IF_NAMESIZE || out->n == RSK_RDMA_PORTS_MOST)
		return;
	for (size_t i = out->n; i && strcmp(out->at[i - 1].device, f->port.device) == 0; i--)
		if (out->at[i - 1].number == f->port.number &&
		    strcmp(out->at[i - 1].link, link) == 0)
			return;
	out->at[out->n] = f->port;
	snprintf(out->at[out->n].link, IF_NAMESIZE, "%s", link);
	out->n++;
}

/* One of a port's GIDs: the file contains the interface that it is on. */
static void on_gid(void *ctx, int at, const char *name)
{
	char line[LINE];

	if (read_line(at, name, line))
		add_link(ctx, line);
}

static void on_port(void *ctx, int at, const char *name)
{
	struct found *f = ctx;
	size_t before = f->out->n;
	char line[LINE], *end;
	int fd, gids;

	f->port.number = (unsigned int)strtoul(name, &end, 10);
	if (*end || !f->port.number || (fd = open_dir(at, name)) < 0)
		return;
	f->port.works = read_line(fd, "state", line) && strncmp(line, "4:", 2) == 0;
	f->port.bps = read_line(fd, "rate", line) ? bps_of(line) : 0;
	f->port.infiniband = read_line(fd, "link_layer", line) && strcmp(line, "InfiniBand") == 0;
	gids = open_dir(fd, "gid_attrs/ndevs");
	if (gids >= 0)
		each_entry(gids, on_gid, f);
	f->unplaced += f->out->n == before;
	close(fd);
}

static void count_port(void *ctx, int at, const char *name)
{
	*(unsigned int *)ctx += isdigit((unsigned char)*name) != 0;
}

static void on_device(void *ctx, int at, const char *name)
{
	struct found f = { .out = ctx };
	char line[LINE];
	int fd, ports;

	f.out->unplaced++;
	if (strlen(name) >= sizeof(f.port.device) || (fd = open_dir(at, name)) < 0)
		return;
	f.out->unplaced--;
	snprintf(f.port.device, sizeof(f.port.device), "%s", name);
	f.port.soft = is_soft(at, name, fd);
	if (!f.port.soft)
		f.port.bus = rsk_bus_read(fd);
	ports = open_dir(fd, "ports");
	if (ports >= 0)
		each_entry(ports, count_port, &f.port.ports);
	ports = open_dir(fd, "ports");
	if (ports >= 0)
		each_entry(ports, on_port, &f);
	/* An rxe device without an address has no GID yet. */
	if (read_line(fd, "parent", line)) {
		f.port.number = 1;
		f.unplaced = 0;
		add_link(&f, line);
	}
	f.out->unplaced += f.unplaced;
	close(fd);
}

static int in_order(const void *a, const void *b)
{
	const struct rsk_rdma_port *x = a, *y = b;
	int rc = strcmp(x->device, y->device);

	if (rc == 0 && x->number != y->number)
		rc = x->number < y->number ? -1 : 1;
	return rc ? rc : strcmp(x->link, y->link);
}

int rsk_rdma_ports_read(const char *path, struct rsk_rdma_ports *out)
{
	int fd;

	out->n = out->unplaced = 0;
	fd = open_dir(AT_FDCWD, path);
	if (fd == -ENOENT)
		return 0;
	out->unplaced = fd < 0;
	if (fd < 0)
		return fd;
	each_entry(fd, on_device, out);
	out->unplaced += out->n == RSK_RDMA_PORTS_MOST; /* there may be more */
	qsort(out->at, out->n, sizeof(out->at[0]), in_order);
	return 0;
}

/* A device without the counter has a file with a text, such as "N/A (no PMA)". */
static bool counter(int at, const char *name, uint64_t *out)
{
	char line[LINE], *end;

	if (!read_line(at, name, line) || !isdigit((unsigned char)*line))
		return false;
	errno = 0;
	*out = strtoull(line, &end, 10);
	return !errno && !*end;
}

struct rsk_counted rsk_rdma_port_counters(const char *path, const struct rsk_rdma_port *port)
{
	struct rsk_counted out = { 0 };
	char dir[512];
	int fd;

	snprintf(dir, sizeof(dir), "%s/%s/ports/%u/counters", path, port->device, port->number);
	fd = open_dir(AT_FDCWD, dir);
	if (fd < 0)
		return out;
	out.known = counter(fd, "port_xmit_data", &out.sent) &&
		    counter(fd, "port_rcv_data", &out.received);
	close(fd);
	return out;
}

bool rsk_rdma_ports_soft(const struct rsk_rdma_ports *p, const char *link)
{
	bool soft = false;

	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->at[i].link, link) != 0)
			continue;
		if (!p->at[i].soft)
			return false;
		soft = true;
	}
	return soft;
}

struct rsk_bus rsk_rdma_ports_bus(const struct rsk_rdma_ports *p, const char *link)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->at[i].soft && strcmp(p->at[i].link, link) == 0)
			return p->at[i].bus;
	return (struct rsk_bus){ 0 };
}

static bool has_port(const struct rsk_rdma_ports *p, const char *link)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->at[i].link, link) == 0)
			return true;
	return false;
}

static bool has_had(const struct rsk_rdma_links *l, const char *link)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->name[i], link) == 0)
			return true;
	return false;
}

void rsk_rdma_links_add(struct rsk_rdma_links *l, const struct rsk_rdma_ports *p)
{
	for (size_t i = 0; i < p->n && l->n < RSK_RDMA_PORTS_MOST; i++)
		if (!has_had(l, p->at[i].link))
			memcpy(l->name[l->n++], p->at[i].link, IF_NAMESIZE);
}

bool rsk_rdma_links_lack(const struct rsk_rdma_links *l, const struct rsk_rdma_ports *p,
			 const char *link, bool required)
{
	if (has_port(p, link))
		return false;
	return has_had(l, link) || (!p->unplaced && (required || l->n));
}
