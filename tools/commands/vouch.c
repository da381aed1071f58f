// SPDX-License-Identifier: BSD-2-Clause
/* vouch.c - see vouch.h. */
#include "vouch.h"

#include "local_msg.h"
#include "rsock.h"
#include "tuple.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rsock/clock.h>

static int dial(void)
{
	const char *path = getenv("RSOCK_DAEMON");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int to;

	path = path ? path : RSK_LOCAL_PATH;
	if (!*path || strlen(path) >= sizeof(sa.sun_path))
		return -EINVAL;
	memcpy(sa.sun_path, path, strlen(path));
	to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (to < 0)
		return -errno;
	if (connect(to, (const struct sockaddr *)&sa, sizeof(sa)) < 0) {
		close(to);
		return -ECONNREFUSED;
	}
	return to;
}

/*
 * Waits for the answer to @m, which has the same cookie. Other messages are discarded. *by_syn, if
 * not NULL: the answer says so.
 */
static enum rsk_reason answer_to(int to, const struct rsk_local_msg *m, uint64_t deadline_ns,
				 bool *by_syn)
{
	struct rsk_local_msg got;
	uint64_t now;

	while ((now = rsk_monotonic_ns()) < deadline_ns) {
		struct pollfd look = { .fd = to, .events = POLLIN };
		int with, rc;

		poll(&look, 1, (int)((deadline_ns - now) / 1000000) + 1);
		rc = rsk_local_msg_recv(to, true, &got, &with);
		if (rc > 0 && with >= 0)
			close(with);
		if (rc > 0 && got.type == RSK_LOCAL_ANSWER && got.cookie == m->cookie) {
			if (by_syn)
				*by_syn = got.flags & RSK_LOCAL_BY_SYN;
			return (enum rsk_reason)got.reason;
		}
		if (rc == -EPROTONOSUPPORT)
			return RSK_REASON_RSOCKD_VERSION;
		if (rc <= 0 && rc != -EAGAIN && rc != -ECONNRESET)
			break;
	}
	return RSK_REASON_NO_RSOCKD;
}

static enum rsk_reason ask(int to, struct rsk_local_msg *m, uint64_t deadline_ns, bool *by_syn)
{
	return rsk_local_msg_send(to, m, -1) < 0 ? RSK_REASON_NO_RSOCKD :
						   answer_to(to, m, deadline_ns, by_syn);
}

enum rsk_reason vouch_ask(int fd, uint64_t deadline_ns, bool *by_syn)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_LOOKUP,
				   .flags = RSK_LOCAL_CONNECTING | RSK_LOCAL_DRY,
				   .fd = fd };
	socklen_t len = sizeof(m.cookie);
	enum rsk_reason why = RSK_REASON_NO_RSOCKD;
	int to;

	if (by_syn)
		*by_syn = false;
	if (rsk_tuple_from_fd(fd, &m.tuple) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_COOKIE, &m.cookie, &len))
		return why;
	to = dial();
	if (to < 0)
		return why;
	why = ask(to, &m, deadline_ns, by_syn);
	if (why == RSK_REASON_REMOTE) {
		m = (struct rsk_local_msg){
			.type = RSK_LOCAL_RESOLVE, .tuple = m.tuple, .cookie = m.cookie, .fd = fd
		};
		why = ask(to, &m, deadline_ns, by_syn);
	}
	close(to);
	return why;
}
