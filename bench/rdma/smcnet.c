/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * smcnet.c - configures SMC-R in a guest and reads its counters. Run by bench/rdma_stage.py.
 *
 * 	smcnet setup NETDEV RNIC EID
 *
 * Sets SMC-R up over that device, as smc_pnet and smcr of smc-tools do: one physical network ID for
 * both, and a user EID, which hosts with RoCE v2 devices (SMC-Rv2) must have in common.
 *
 * 	smcnet stats
 *
 * Prints what the kernel has counted since the module was loaded, as JSON.
 *
 * It uses generic netlink, families SMC_PNETID and SMC_GEN_NETLINK (linux/smc.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/smc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NET_ID "BENCH"
#define BUFFER 16384

struct counters {
	uint64_t connections; /* by SMC-R; a host that is both ends counts both */
	uint64_t tx_bytes;
	uint64_t rx_bytes;
	uint64_t fallbacks; /* connections that became TCP */
	uint64_t handshake_errors;
	uint32_t reason; /* of the last fallback kind that the kernel reported */
};

struct request {
	struct mnl_socket *nl; /* owned */
	char buf[BUFFER] __attribute__((aligned(NLMSG_ALIGNTO)));
};

static struct nlmsghdr *begin(struct request *r, uint16_t family, uint8_t command, uint16_t flags)
{
	struct nlmsghdr *m = mnl_nlmsg_put_header(r->buf);
	struct genlmsghdr *g;

	m->nlmsg_type = family;
	m->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	m->nlmsg_seq = (uint32_t)time(NULL);
	g = mnl_nlmsg_put_extra_header(m, sizeof(*g));
	g->cmd = command;
	g->version = 1;
	return m;
}

/*
 * Sends a message and passes every answer to @each; 0 or -errno. The answers overwrite the request.
 */
static int talk(struct request *r, struct nlmsghdr *m, mnl_cb_t each, void *arg)
{
	unsigned int port = mnl_socket_get_portid(r->nl), seq = m->nlmsg_seq;
	ssize_t n;
	int rc;

	if (mnl_socket_sendto(r->nl, m, m->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(r->nl, r->buf, sizeof(r->buf));
		if (n < 0)
			return -errno;
		rc = mnl_cb_run(r->buf, (size_t)n, seq, port, each, arg);
	} while (rc > MNL_CB_STOP);
	return rc < 0 ? -errno : 0;
}

static uint64_t number_in(const struct nlattr *a)
{
	switch (mnl_attr_get_payload_len(a)) {
	case sizeof(uint64_t):
		return mnl_attr_get_u64(a);
	case sizeof(uint32_t):
		return mnl_attr_get_u32(a);
	default:
		return 0;
	}
}

static int on_family(const struct nlmsghdr *m, void *arg)
{
	uint16_t *family = arg;
	const struct nlattr *a;

	mnl_attr_for_each(a, m, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(a) == CTRL_ATTR_FAMILY_ID)
			*family = mnl_attr_get_u16(a);
	}
	return MNL_CB_OK;
}

/* 0 and the family's number; -ENOENT: the module smc is not loaded. */
static int family_of(struct request *r, const char *name, uint16_t *family)
{
	struct nlmsghdr *m = begin(r, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	int rc;

	*family = 0;
	mnl_attr_put_strz(m, CTRL_ATTR_FAMILY_NAME, name);
	rc = talk(r, m, on_family, family);
	return rc || *family ? rc : -ENOENT;
}

/* An entry that exists already is no error. */
static int add(struct request *r, struct nlmsghdr *m)
{
	int rc = talk(r, m, NULL, NULL);

	return rc == -EEXIST ? 0 : rc;
}

static int setup(struct request *r, const char *netdev, const char *rnic, const char *eid)
{
	char padded[SMC_MAX_EID_LEN + 1]; /* padded with blanks, as the kernel requires */
	struct nlmsghdr *m;
	uint16_t family;
	int rc;

	if (strlen(eid) > SMC_MAX_EID_LEN)
		return -ENAMETOOLONG;
	snprintf(padded, sizeof(padded), "%-*s", SMC_MAX_EID_LEN, eid);
	rc = family_of(r, SMCR_GENL_FAMILY_NAME, &family);
	if (rc)
		return rc;
	m = begin(r, family, SMC_PNETID_ADD, NLM_F_ACK);
	mnl_attr_put_strz(m, SMC_PNETID_NAME, NET_ID);
	mnl_attr_put_strz(m, SMC_PNETID_ETHNAME, netdev);
	mnl_attr_put_strz(m, SMC_PNETID_IBNAME, rnic);
	mnl_attr_put_u8(m, SMC_PNETID_IBPORT, 1);
	rc = add(r, m);
	if (rc)
		return rc;
	rc = family_of(r, SMC_GENL_FAMILY_NAME, &family);
	if (rc)
		return rc;
	m = begin(r, family, SMC_NETLINK_ADD_UEID, NLM_F_ACK);
	mnl_attr_put_strz(m, SMC_NLA_EID_TABLE_ENTRY, padded);
	return add(r, m);
}

static void take_tech(struct counters *c, const struct nlattr *nest)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, nest)
	{
		switch (mnl_attr_get_type(a)) {
		case SMC_NLA_STATS_T_CLNT_V1_SUCC:
		case SMC_NLA_STATS_T_CLNT_V2_SUCC:
		case SMC_NLA_STATS_T_SRV_V1_SUCC:
		case SMC_NLA_STATS_T_SRV_V2_SUCC:
			c->connections += number_in(a);
			break;
		case SMC_NLA_STATS_T_RX_BYTES:
			c->rx_bytes += number_in(a);
			break;
		case SMC_NLA_STATS_T_TX_BYTES:
			c->tx_bytes += number_in(a);
			break;
		default:
			break;
		}
	}
}

static int on_stats(const struct nlmsghdr *m, void *arg)
{
	struct counters *c = arg;
	const struct nlattr *top, *a;

	mnl_attr_for_each(top, m, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(top) != SMC_GEN_STATS)
			continue;
		mnl_attr_for_each_nested(a, top)
		{
			switch (mnl_attr_get_type(a)) {
			case SMC_NLA_STATS_SMCR_TECH:
				take_tech(c, a);
				break;
			case SMC_NLA_STATS_CLNT_HS_ERR_CNT:
			case SMC_NLA_STATS_SRV_HS_ERR_CNT:
				c->handshake_errors += number_in(a);
				break;
			default:
				break;
			}
		}
	}
	return MNL_CB_OK;
}

/*
 * Handles one message, which has a fallback reason of one end; the totals of both ends are in the
 * first message.
 */
static int on_fallbacks(const struct nlmsghdr *m, void *arg)
{
	struct counters *c = arg;
	const struct nlattr *top, *a;

	mnl_attr_for_each(top, m, sizeof(struct genlmsghdr))
	{
		uint64_t total = 0;

		if (mnl_attr_get_type(top) != SMC_GEN_FBACK_STATS)
			continue;
		mnl_attr_for_each_nested(a, top)
		{
			switch (mnl_attr_get_type(a)) {
			case SMC_NLA_FBACK_STATS_SRV_CNT:
			case SMC_NLA_FBACK_STATS_CLNT_CNT:
				total += number_in(a);
				break;
			case SMC_NLA_FBACK_STATS_RSN_CODE:
				c->reason = mnl_attr_get_u32(a);
				break;
			default:
				break;
			}
		}
		c->fallbacks = total > c->fallbacks ? total : c->fallbacks;
	}
	return MNL_CB_OK;
}

static int stats(struct request *r)
{
	struct counters c = { 0 };
	uint16_t family;
	int rc;

	rc = family_of(r, SMC_GENL_FAMILY_NAME, &family);
	if (rc)
		return rc;
	rc = talk(r, begin(r, family, SMC_NETLINK_GET_STATS, NLM_F_DUMP), on_stats, &c);
	if (rc)
		return rc;
	rc = talk(r, begin(r, family, SMC_NETLINK_GET_FBACK_STATS, NLM_F_DUMP), on_fallbacks, &c);
	if (rc)
		return rc;
	printf("{\"connections\": %" PRIu64 ", \"fallbacks\": %" PRIu64 ", \"reason\": %" PRIu32
	       ", \"handshake_errors\": %" PRIu64 ", \"tx_bytes\": %" PRIu64
	       ", \"rx_bytes\": %" PRIu64 "}\n",
	       c.connections, c.fallbacks, c.reason, c.handshake_errors, c.tx_bytes, c.rx_bytes);
	return 0;
}

int main(int argc, char **argv)
{
	struct request r = { .nl = mnl_socket_open(NETLINK_GENERIC) };
	bool asked = argc == 2 && !strcmp(argv[1], "stats");
	int rc;

	if (!asked && (argc != 5 || strcmp(argv[1], "setup") != 0)) {
		fprintf(stderr, "usage: smcnet setup NETDEV RNIC EID | smcnet stats\n");
		return 2;
	}
	if (!r.nl || mnl_socket_bind(r.nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		perror("smcnet: netlink");
		return 1;
	}
	rc = asked ? stats(&r) : setup(&r, argv[2], argv[3], argv[4]);
	mnl_socket_close(r.nl);
	if (rc)
		fprintf(stderr, "smcnet: %s: %s\n", argv[1], strerror(-rc));
	return rc ? 1 : 0;
}
