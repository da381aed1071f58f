// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rdma_ports.c - tests the reading of RDMA devices from a tree as the kernel makes it, and
 * which of them become RNICs without configuration.
 */
#include "rdma_ports.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf.h"
#include "discover.h"

static char root[] = "/tmp/rdma_ports.XXXXXX", class_path[64];
static struct rsk_rdma_ports ports;

static void make_dirs(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s", path);
		*p = '/';
	}
}

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *fmt, ...)
{
	char path[256];
	va_list args;
	FILE *f;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	make_dirs(path);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

/* @bus: the device's path below devices/. */
static void device(const char *bus, const char *name, const char *desc)
{
	char target[128], link[128];

	put(desc, "%s/devices/%s/infiniband/%s/node_desc", root, bus, name);
	snprintf(target, sizeof(target), "../../devices/%s/infiniband/%s", bus, name);
	snprintf(link, sizeof(link), "%s/class/infiniband/%s", root, name);
	make_dirs(link);
	cr_assert_eq(symlink(target, link), 0);
}

static void port(const char *name, unsigned int number, const char *state, const char *rate)
{
	put(state, "%s/class/infiniband/%s/ports/%u/state", root, name, number);
	put(rate, "%s/class/infiniband/%s/ports/%u/rate", root, name, number);
}

static void gid(const char *name, unsigned int number, unsigned int index, const char *link)
{
	put(link, "%s/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%u", root, name, number, index);
}

static void begin(void)
{
	cr_assert_not_null(mkdtemp(root));
	snprintf(class_path, sizeof(class_path), "%s/class/infiniband", root);
}

static int drop(const char *path, const struct stat *st, int what, struct FTW *at)
{
	return remove(path);
}

static void end(void)
{
	nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

/* One device of each kind. */
static void make_host(void)
{
	begin();
	device("pci0000:00/0000:00:02.0", "mlx5_0", "host mlx5_0\n");
	port("mlx5_0", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	gid("mlx5_0", 1, 0, "eth0\n");
	gid("mlx5_0", 1, 1, "eth0\n");
	gid("mlx5_0", 1, 2, "eth0.5\n");
	gid("mlx5_0", 1, 3, "");
	device("pci0000:00/0000:00:03.0", "bnxt_re0", "bnxt\n");
	port("bnxt_re0", 1, "4: ACTIVE\n", "2.5 Gb/sec (1X SDR)\n");
	gid("bnxt_re0", 1, 0, "eth1\n");
	port("bnxt_re0", 2, "1: DOWN\n", "nonsense\n");
	gid("bnxt_re0", 2, 0, "eth2\n");
	device("virtual", "siw0", "whatever\n");
	port("siw0", 1, "4: ACTIVE\n", "10 Gb/sec (4X)\n");
	gid("siw0", 1, 0, "eth0\n");
	device("pci0000:00/0000:00:04.0", "siw1", "Software iWARP stack\n");
	port("siw1", 1, "4: ACTIVE\n", "10 Gb/sec (4X)\n");
	gid("siw1", 1, 0, "eth3\n");
	device("pci0000:00/0000:00:05.0", "rxe0", "rxe\n");
	port("rxe0", 1, "4: ACTIVE\n", "2.5 Gb/sec (1X SDR)\n");
	put("eth4\n", "%s/rxe0/parent", class_path);
	device("pci0000:00/0000:00:06.0", "odd name", "x\n");
	port("odd name", 1, "4: ACTIVE\n", "1 Gb/sec\n");
	gid("odd name", 1, 0, "eth5\n");
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
}

static void is(size_t i, const char *name, unsigned int number, const char *link, bool works,
	       bool soft, uint64_t bps)
{
	const struct rsk_rdma_port *p = &ports.at[i];

	cr_assert_lt(i, ports.n);
	cr_assert_str_eq(p->device, name);
	cr_assert_str_eq(p->link, link);
	cr_assert(p->number == number && p->works == works && p->soft == soft && p->bps == bps,
		  "%zu: %s/%u %d %d %lu", i, name, p->number, p->works, p->soft,
		  (unsigned long)p->bps);
}

Test(rdma_ports, as_the_kernel_shows_them, .init = make_host, .fini = end)
{
	is(0, "bnxt_re0", 1, "eth1", true, false, 2500000000);
	is(1, "bnxt_re0", 2, "eth2", false, false, 0);
	is(2, "mlx5_0", 1, "eth0", true, false, 100000000000);
	is(3, "mlx5_0", 1, "eth0.5", true, false, 100000000000);
	is(4, "odd name", 1, "eth5", true, false, 1000000000);
	is(5, "rxe0", 1, "eth4", true, true, 2500000000);
	is(6, "siw0", 1, "eth0", true, true, 10000000000);
	is(7, "siw1", 1, "eth3", true, true, 10000000000);
	cr_assert_eq(ports.n, 8);
	cr_assert(ports.at[0].ports == 2 && ports.at[2].ports == 1);
}

Test(rdma_ports, of_software_only_where_no_real_one_is, .init = make_host, .fini = end)
{
	cr_assert_not(rsk_rdma_ports_soft(&ports, "eth0"), "a real one beside it");
	cr_assert(rsk_rdma_ports_soft(&ports, "eth3") && rsk_rdma_ports_soft(&ports, "eth4"));
	cr_assert_not(rsk_rdma_ports_soft(&ports, "eth1"));
	cr_assert_not(rsk_rdma_ports_soft(&ports, "eth9"), "no RDMA device there");
}

static struct rsk_rdma_links had;

static bool lacks(const struct rsk_rdma_ports *now, const char *link)
{
	return rsk_rdma_links_lack(&had, now, link, false);
}

Test(rdma_ports, links_that_have_lost_theirs, .init = make_host, .fini = end)
{
	static struct rsk_rdma_ports now;

	cr_assert_not(lacks(&ports, "eth0"));
	rsk_rdma_links_add(&had, &ports);
	rsk_rdma_links_add(&had, &ports);
	cr_assert_leq(had.n, ports.n, "each once");
	cr_assert_not(lacks(&ports, "eth0"));
	for (size_t i = 0; i < ports.n; i++)
		if (strcmp(ports.at[i].link, "eth3") != 0)
			now.at[now.n++] = ports.at[i];
	now.unplaced = 1;
	cr_assert(lacks(&now, "eth3"), "it is known to have had one");
	cr_assert_not(lacks(&now, "eth0"));
	cr_assert_not(lacks(&ports, "eth3"), "it is back");
	now.n = 0;
	for (size_t i = 0; had.n < RSK_RDMA_PORTS_MOST; i++) {
		snprintf(now.at[0].link, IF_NAMESIZE, "x%zu", i);
		now.n = 1;
		rsk_rdma_links_add(&had, &now);
	}
	snprintf(now.at[0].link, IF_NAMESIZE, "last");
	rsk_rdma_links_add(&had, &now);
	now.n = 0;
	cr_assert(lacks(&now, "eth0") && !lacks(&now, "last"));
}

/* A link that never had a port is judged where all ports are known, and there is or was one. */
Test(rdma_ports, links_that_never_had_one, .init = make_host, .fini = end)
{
	static const struct rsk_rdma_ports none;

	cr_assert_eq(ports.unplaced, 0, "rxe0 is on the link that it names");
	cr_assert_not(lacks(&none, "eth9"), "most hosts have no RDMA");
	cr_assert(rsk_rdma_links_lack(&had, &none, "eth9", true), "it is required");
	cr_assert_not(rsk_rdma_links_lack(&had, &ports, "eth0", true));
	rsk_rdma_links_add(&had, &ports);
	cr_assert(lacks(&ports, "eth9"));
	cr_assert(lacks(&none, "eth9"), "others had one");
	cr_assert_not(lacks(&ports, "eth0"));
}

static void may_be_anywhere(const char *why)
{
	had.n = 0;
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert_gt(ports.n, 0, "%s", why);
	rsk_rdma_links_add(&had, &ports);
	cr_assert_not(lacks(&ports, "eth9"), "%s", why);
	cr_assert_not(rsk_rdma_links_lack(&had, &ports, "eth9", true), "%s", why);
}

/* As InfiniBand, and iWARP of older kernels. */
Test(rdma_ports, a_port_that_names_no_link, .init = make_host, .fini = end)
{
	device("pci0000:00/0000:00:07.0", "mlx4_0", "x\n");
	port("mlx4_0", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	gid("mlx4_0", 1, 0, "eth6\n");
	port("mlx4_0", 2, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	gid("mlx4_0", 2, 0, "");
	may_be_anywhere("the second port");
}

Test(rdma_ports, a_device_that_cannot_be_read, .init = make_host, .fini = end)
{
	put("", "%s/class/infiniband/file", root);
	may_be_anywhere("no directory");
}

static bool counts(size_t i, uint64_t sent, uint64_t received)
{
	struct rsk_counted c = rsk_rdma_port_counters(class_path, &ports.at[i]);

	return c.known && c.sent == sent && c.received == received;
}

Test(rdma_ports, counters, .init = make_host, .fini = end)
{
	static const char *const nonsense[] = { "",   "N/A (no PMA)\n",	       "-1\n", "12x\n",
						"\n", "18446744073709551616\n" };
	char path[128];

	cr_assert_not(rsk_rdma_port_counters(class_path, &ports.at[2]).known, "no counters");
	put("18446744073709551615\n", "%s/mlx5_0/ports/1/counters/port_xmit_data", class_path);
	cr_assert_not(rsk_rdma_port_counters(class_path, &ports.at[2]).known, "only one");
	put("77\n", "%s/mlx5_0/ports/1/counters/port_rcv_data", class_path);
	cr_assert(counts(2, UINT64_MAX, 77));
	put("5\n", "%s/bnxt_re0/ports/2/counters/port_xmit_data", class_path);
	put("6\n", "%s/bnxt_re0/ports/2/counters/port_rcv_data", class_path);
	cr_assert(counts(1, 5, 6), "of the second port");
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		put(nonsense[i], "%s/mlx5_0/ports/1/counters/port_rcv_data", class_path);
		cr_assert_not(rsk_rdma_port_counters(class_path, &ports.at[2]).known, "%s",
			      nonsense[i]);
	}
	put("78\n", "%s/mlx5_0/ports/1/counters/port_rcv_data", class_path);
	cr_assert(counts(2, UINT64_MAX, 78));
	snprintf(path, sizeof(path), "%s/mlx5_0", class_path);
	cr_assert_eq(remove(path), 0);
	cr_assert_not(rsk_rdma_port_counters(class_path, &ports.at[2]).known, "the device is gone");
}

Test(rdma_ports, link_layers, .init = make_host, .fini = end)
{
	put("InfiniBand\n", "%s/mlx5_0/ports/1/link_layer", class_path);
	put("Ethernet\n", "%s/bnxt_re0/ports/1/link_layer", class_path);
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert(ports.at[2].infiniband && ports.at[3].infiniband);
	cr_assert_not(ports.at[0].infiniband || ports.at[1].infiniband);
}

/* ---- how a device is attached ---- */

static void attach(const char *device, const char *speed, const char *width, const char *numa)
{
	put(speed, "%s/%s/device/current_link_speed", class_path, device);
	put(width, "%s/%s/device/current_link_width", class_path, device);
	put(numa, "%s/%s/device/numa_node", class_path, device);
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
}

Test(rdma_ports, buses, .init = make_host, .fini = end)
{
	static const char *const unknown[][3] = {
		{ "Unknown\n", "16\n", "-1\n" },     { "Unknown speed\n", "0\n", "64\n" },
		{ "8.0 GT/s PCIe\n", "0\n", "\n" },  { "8.0 GT/s PCIe\n", "255\n", "1x\n" },
		{ "8.0 GT/s PCIe\n", "-4\n", "" },   { "7.0 GT/s PCIe\n", "4\n", "99999999999\n" },
		{ "nan GT/s PCIe\n", "4\n", "x\n" }, { "8.0 Gb/s\n", "4 lanes\n", "4294967296\n" },
	};
	struct rsk_bus bus = rsk_rdma_ports_bus(&ports, "eth0");

	cr_assert(bus.bps == 0 && bus.numa == 0, "the files are absent");
	/* 8 GT/s x 4 x 128/130 x 256/280 */
	attach("mlx5_0", "8.0 GT/s PCIe\n", "4\n", "1\n");
	bus = rsk_rdma_ports_bus(&ports, "eth0");
	cr_assert(bus.bps / 1000000 == 28807 && bus.numa == 2, "%lu", (unsigned long)bus.bps);
	cr_assert_eq(rsk_rdma_ports_bus(&ports, "eth0.5").bps, bus.bps, "software beside it");
	cr_assert_eq(rsk_rdma_ports_bus(&ports, "eth9").bps, 0);
	cr_assert_eq(rsk_bus_bps("5 GT/s", "8") / 1000000, 29257, "as older kernels show it");
	cr_assert_eq(rsk_bus_bps("64.0 GT/s PCIe", "16") / 1000000, 863085);
	/* The device below a software device is not its own. */
	attach("siw1", "8.0 GT/s PCIe\n", "4\n", "0\n");
	bus = rsk_rdma_ports_bus(&ports, "eth3");
	cr_assert(bus.bps == 0 && bus.numa == 0);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		attach("mlx5_0", unknown[i][0], unknown[i][1], unknown[i][2]);
		bus = rsk_rdma_ports_bus(&ports, "eth0");
		cr_assert(bus.bps == 0 && bus.numa == 0, "%zu", i);
	}
}

Test(rdma_ports, processors_of_numa_nodes, .init = begin, .fini = end)
{
	static struct rsk_numa numa;
	uint8_t cpus[8] = { 0 };
	char path[128];

	snprintf(path, sizeof(path), "%s/node", root);
	rsk_numa_read(path, &numa);
	cr_assert(numa.n == 0 && !rsk_numa_nodes_of(&numa, cpus, 8));
	put("0-2,9\n", "%s/node0/cpulist", path);
	put("3-4,8,99999999999-\n", "%s/node1/cpulist", path);
	put("\n", "%s/node2/cpulist", path);
	put("60-99999999\n", "%s/node63/cpulist", path);
	put("5\n", "%s/node64/cpulist", path);
	rsk_numa_read(path, &numa);
	cr_assert_eq(numa.n, 3, "node 2 has memory only, node 64 is beyond the bound");
	cr_assert(numa.node[2] == 1 && numa.node[8] == 2 && numa.node[9] == 1 && !numa.node[5]);
	cr_assert_eq(numa.node[RSK_NUMA_CPUS_MOST - 1], 64);
	cpus[0] = 1u << 0 | 1u << 2;
	cr_assert_eq(rsk_numa_nodes_of(&numa, cpus, 8), 1);
	cpus[1] = 1u << 0;
	cr_assert_eq(rsk_numa_nodes_of(&numa, cpus, 8), 3);
	cpus[7] = 1u << 7;
	cr_assert_eq(rsk_numa_nodes_of(&numa, cpus, 8), 0, "all nodes");
	cr_assert_eq(rsk_numa_nodes_of(&numa, cpus, 2), 3);
	cpus[0] |= 1u << 5;
	cr_assert_eq(rsk_numa_nodes_of(&numa, cpus, 2), 0, "one of them is not known");
}

Test(rdma_ports, nothing_there, .init = begin, .fini = end)
{
	ports.n = 7;
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert_eq(ports.n, 0);
	put("", "%s/class/infiniband/file", root);
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert_eq(ports.n, 0);
	device("virtual", "empty0", "x\n");
	device("virtual", "portless0", "x\n");
	put("", "%s/portless0/ports/none", class_path);
	put("", "%s/portless0/ports/0/state", class_path);
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert_eq(ports.n, 0);
}

Test(rdma_ports, more_than_there_is_room_for, .init = begin, .fini = end)
{
	char name[IF_NAMESIZE];

	device("virtual", "big0", "x\n");
	port("big0", 1, "4: ACTIVE\n", "1 Gb/sec\n");
	for (unsigned int i = 0; i < RSK_RDMA_PORTS_MOST + 10; i++) {
		snprintf(name, sizeof(name), "eth%u", i);
		gid("big0", 1, i, name);
	}
	cr_assert_eq(rsk_rdma_ports_read(class_path, &ports), 0);
	cr_assert_eq(ports.n, RSK_RDMA_PORTS_MOST);
	cr_assert_gt(ports.unplaced, 0, "there may be more");
}

/* ---- discovery ---- */

static struct rsk_ifaces links;

static void link_up(int index, const char *name, unsigned int more)
{
	char buf[256] __attribute__((aligned(4))) = { 0 };
	struct nlmsghdr *m = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(m, sizeof(*info));

	m->nlmsg_type = RTM_NEWLINK;
	info->ifi_index = index;
	info->ifi_flags = IFF_UP | IFF_RUNNING | more;
	mnl_attr_put_strz(m, IFLA_IFNAME, name);
	cr_assert_geq(rsk_ifaces_take(&links, buf, m->nlmsg_len, 0), 0);
}

static void address(unsigned int index, const char *text)
{
	char buf[256] __attribute__((aligned(4))) = { 0 };
	struct nlmsghdr *m = mnl_nlmsg_put_header(buf);
	struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(m, sizeof(*info));
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;
	uint8_t ip[16];

	m->nlmsg_type = RTM_NEWADDR;
	info->ifa_family = (unsigned char)family;
	info->ifa_index = index;
	cr_assert_eq(inet_pton(family, text, ip), 1);
	mnl_attr_put(m, IFA_ADDRESS, family == AF_INET ? 4 : 16, ip);
	cr_assert_geq(rsk_ifaces_take(&links, buf, m->nlmsg_len, 0), 0);
}

Test(rdma_ports, become_rnics_by_themselves, .init = make_host, .fini = end)
{
	static const char text[] = "services: [{name: s, ports: ['80']}]\n";
	struct rsk_discovered found, again;
	struct rsk_conf *c;
	char error[256];

	link_up(1, "lo", IFF_LOOPBACK);
	address(1, "127.0.0.1");
	link_up(2, "eth0", 0);
	address(2, "10.0.0.2");
	address(2, "10.0.0.1");
	address(2, "fe80::1");
	address(2, "fd00::1");
	link_up(3, "eth0.5", 0);
	address(3, "10.5.0.1");
	link_up(4, "eth1", 0);
	address(4, "10.1.0.1");
	link_up(5, "eth2", 0);
	address(5, "10.2.0.1"); /* its port is down */
	link_up(6, "eth4", 0);
	address(6, "10.4.0.1");
	link_up(7, "eth5", 0);
	address(7, "10.5.5.1");
	link_up(8, "eth3", 0); /* without an address */
	rsk_discover(&ports, &links, &found);
	cr_assert_eq(found.n, 3);
	cr_assert(!strcmp(found.ports[0].device, "bnxt_re0") && found.ports[0].number == 1);
	cr_assert(!strcmp(found.ports[1].device, "mlx5_0") && found.ports[1].number == 0);
	cr_assert_eq(found.ports[1].n_ips, 4, "of its VLAN, too, but nothing of one link only");
	cr_assert_str_eq(found.ports[2].device, "rxe0");
	cr_assert_eq(rsk_conf_parse_with(text, strlen(text), &found, &c, error, sizeof(error)), 0,
		     "%s", error);
	cr_assert(c->daemon.discover && rsk_conf_validate(c));
	cr_assert(c->n_rnics == 3 && c->n_ports == 3);
	cr_assert_str_eq(c->ports[0].name, "bnxt_re0/1");
	cr_assert_str_eq(c->ports[1].name, "mlx5_0");
	cr_assert(c->ports[1].bps == 100000000000 && c->ports[1].n_ips == 4);
	rsk_conf_free(c);
	/* The same again; then other addresses. */
	rsk_discover(&ports, &links, &again);
	cr_assert(rsk_discovered_equal(&found, &again));
	address(8, "10.3.0.1");
	rsk_discover(&ports, &links, &again);
	cr_assert_not(rsk_discovered_equal(&found, &again));
	cr_assert_eq(again.n, 4);
	rsk_ifaces_fini(&links);
}

Test(rdma_ports, not_where_some_are_named_or_none_is_wanted)
{
	static const char *const texts[] = { "discover-devices: no\n",
					     "rnics: [{name: r, addresses: [10.0.0.9]}]\n" };
	static struct rsk_discovered found = {
		.n = 1,
		.ports = { { .device = "rxe0", .n_ips = 1, .ips = { { .ip = { 10 }, .ipv = 4 } } } }
	};
	struct rsk_conf *c;
	char error[256];

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(rsk_conf_parse_with(texts[i], strlen(texts[i]), &found, &c, error,
						 sizeof(error)),
			     0, "%s", error);
		cr_assert_not(c->daemon.discover);
		cr_assert_eq(c->n_rnics, i);
		rsk_conf_free(c);
	}
}
