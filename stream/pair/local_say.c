// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_say.c - what this process tells rsockd: its statistics and listening sockets, the streams
 * that use mappings, and where it accepts rails. local.c, which asks about streams and hears the
 * answers, calls it, and pm_transaction.c for mappings; see local.h and local_say.h.
 */
#include "local_say.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "link_requests.h"
#include "local.h"
#include "log.h"
#include "pm_msg.h"
#include "pm_transaction.h"
#include "port_reservations.h"
#include "progress.h"
#include "resolve_list.h"
#include "syn.h"
#include "tuple.h"

#define SOON_NS 5000000000ull

struct rsk_rsockd rsk_rsockd = { .fd = -1 };

/*
 * It has closed the connection, perhaps with messages of ours unread, which is an error that is
 * reported once. If it is of another version, that is what it has said before.
 */
static int last_word(int why)
{
	struct rsk_local_msg m;
	int with = -1, rc = -ECONNRESET;

	if (rsk_rsockd.heard || (why != 0 && why != -EPIPE && why != -ECONNRESET))
		return why;
	for (int i = 0; i < 2 && rc == -ECONNRESET; i++)
		rc = rsk_local_msg_recv(rsk_rsockd.fd, true, &m, &with);
	if (rc == -EPROTONOSUPPORT)
		rsk_rsockd.other_version = rsk_magic_version(m.magic, RSK_LOCAL_LETTERS);
	if (rc > 0 && with >= 0)
		rsk_sys_close(with);
	return rc == -EPROTONOSUPPORT ? rc : why;
}

void rsk_local_drop(int why)
{
	bool soon = rsk_tick_ns() - rsk_rsockd.began_ns < SOON_NS;

	why = last_word(why);
	if (why == -EPROTONOSUPPORT)
		rsk_log(RSK_LOG_INFO, "rsockd has version %u of its messages, this process %d",
			rsk_rsockd.other_version, RSK_LOCAL_VERSION);
	else
		rsk_log(RSK_LOG_INFO, "rsockd is gone: %d", why);
	rsk_rsockd.closed_soon = soon && !rsk_rsockd.heard ? rsk_rsockd.closed_soon + 1 : 0;
	rsk_own_close(rsk_rsockd.fd);
	rsk_rsockd.fd = -1;
	rsk_local_out_clear(&rsk_rsockd.out);
	rsk_reservations_came(-1, 0);
}

bool rsk_local_say(struct rsk_local_msg *m, int fd)
{
	int rc = rsk_local_out_say(&rsk_rsockd.out, rsk_rsockd.fd, m, fd);

	if (rc < 0 && rc != -EAGAIN)
		rsk_local_drop(rc);
	if (rsk_rsockd.out.n && !rsk_progress_is_me()) /* the progress thread checks by itself */
		rsk_progress_call();
	return rc == 0;
}

static bool say_link(struct rsk_stream *s, int fd, uint64_t handle,
		     const struct rsk_verbs_addr *here, const struct rsk_verbs_addr *from,
		     uint32_t flags)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_LINK,
				   .flags = flags,
				   .tuple = s->tuple,
				   .cookie = rsk_cookie_of(fd),
				   .fd = fd,
				   .link = handle };

	if (s->connecting_side) {
		m.flags |= RSK_LOCAL_CONNECTING;
	} else if (here) {
		memcpy(m.ip, here->ip, sizeof(m.ip));
		m.port = here->port;
		m.ipv = here->family == AF_INET ? RSK_PM_IPV4 : RSK_PM_IPV6;
		if (from && from->family == here->family)
			memcpy(m.from_ip, from->ip, sizeof(m.from_ip));
	}
	return rsk_local_say(&m, -1);
}

bool rsk_local_link(struct rsk_stream *s, int fd, uint64_t handle,
		    const struct rsk_verbs_addr *here, const struct rsk_verbs_addr *from,
		    uint32_t flags)
{
	return rsk_rsockd.fd >= 0 && say_link(s, fd, handle, here, from, flags);
}

bool rsk_local_link_refused(struct rsk_stream *s, int fd, uint64_t handle)
{
	return rsk_rsockd.fd >= 0 && say_link(s, fd, handle, NULL, NULL, RSK_LOCAL_REFUSED);
}

void rsk_local_say_rdma(void)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_RDMA, .port = rsk_remote_port() };

	if (rsk_rsockd.fd >= 0 && m.port != rsk_rsockd.rdma && rsk_local_say(&m, -1))
		rsk_rsockd.rdma = m.port;
}

/*
 * Set by a thread that frees a stream, taken by the holder of the lock. A handle that finds no
 * place is given back when the process ends.
 */
static _Atomic(uint64_t) unlinked[256];

void rsk_local_unlink_later(uint64_t handle)
{
	for (size_t i = 0; i < sizeof(unlinked) / sizeof(unlinked[0]); i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&unlinked[i], &none, handle))
			break;
	}
	rsk_progress_call();
}

void rsk_local_unlink_unused(uint64_t handle)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_UNLINK, .link = handle };
	bool used = rsk_remote_ops->uses(handle);
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high && !used; i++) {
		struct rsk_stream *s = rsk_fd_tracked((int)i) ? rsk_stream_of((int)i) : NULL;

		if (!s)
			continue;
		used = rsk_pm_transaction_uses(s, handle);
		rsk_stream_unpin(s);
	}
	/* At once: a LINK that is said later must not lose its session by this. */
	if (!used && rsk_rsockd.fd >= 0)
		rsk_local_say(&m, -1);
}

void rsk_local_tell(void)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_UNLINK };

	for (size_t i = 0; i < sizeof(unlinked) / sizeof(unlinked[0]); i++) {
		m.link = atomic_exchange(&unlinked[i], 0);
		if (m.link && rsk_rsockd.fd >= 0)
			rsk_local_say(&m, -1);
	}
	rsk_local_say_rdma();
}

int rsk_local_fd(uint32_t *number, bool *waits)
{
	*number = rsk_rsockd.number;
	*waits = rsk_rsockd.out.n != 0;
	return rsk_rsockd.fd;
}

void rsk_local_say_listening(int fd)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_LISTEN, .fd = fd };
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct rsk_tuple at;

	if (rsk_sys_getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    rsk_tuple_peer((struct sockaddr *)&sa, len, &at) < 0)
		return;
	m.tuple = rsk_tuple_mirror(&at);
	m.cookie = rsk_cookie_of(fd);
	rsk_rsockd.missed |= !rsk_local_say(&m, -1);
	if (rsk_resolve_list_between())
		rsk_syn_keep(fd);
}

/* Streams that use mappings which an earlier rsockd granted. */
static void say_all_links(void)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high && rsk_rsockd.fd >= 0; i++) {
		struct rsk_stream *s = rsk_fd_tracked((int)i) ? rsk_stream_of((int)i) : NULL;

		if (!s)
			continue;
		if (s->pairing.mapping && rsk_stream_phase(s) == RSK_PHASE_PAIRED)
			say_link(s, (int)i, s->pairing.mapping, rsk_remote_ops->here(s->link), NULL,
				 RSK_LOCAL_AGAIN);
		rsk_stream_unpin(s);
	}
}

void rsk_local_say_all_listening(void)
{
	uint32_t high = rsk_fd_high();

	rsk_rsockd.missed = false;
	for (uint32_t i = 0; i < high && rsk_rsockd.fd >= 0; i++) {
		socklen_t len = sizeof(int);
		int listens = 0;

		if (rsk_fd_marked(rsk_fd_word((int)i)) &&
		    rsk_sys_getsockopt((int)i, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
		    listens)
			rsk_local_say_listening((int)i);
	}
}

void rsk_local_say_hello(void)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_HELLO,
				   .flags = rsk_remote_able() ? RSK_LOCAL_ABLE : 0 };
	int fd = rsk_stats_fd();

	rsk_rsockd.shown = rsk_local_say(&m, fd) && fd >= 0;
}

void rsk_local_handshake(void)
{
	rsk_rsockd.fd = rsk_local_dial();
	if (rsk_rsockd.fd < 0) {
		rsk_rsockd.closed_soon = rsk_rsockd.other_version = 0;
		return;
	}
	rsk_rsockd.number++;
	rsk_rsockd.rdma = 0;
	rsk_rsockd.heard = false;
	rsk_rsockd.began_ns = rsk_tick_ns();
	rsk_rsockd.uid = rsk_sys_geteuid();
	rsk_local_say_hello();
	rsk_local_say_rdma();
	rsk_resolve_list_check();
	if (rsk_rsockd.fd >= 0)
		rsk_local_say_all_listening();
	say_all_links();
	rsk_progress_call(); /* to poll the new socket */
}
