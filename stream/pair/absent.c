// SPDX-License-Identifier: BSD-2-Clause
/* absent.c - see absent.h. */
#include "absent.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "owner.h"

/*
 * True if the peer's address is one of this network namespace: the kernel lets a socket be bound to
 * no other.
 */
static bool peer_is_here(const struct rsk_tuple *t)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_scope_id = t->scope };
	struct sockaddr_in in = { .sin_family = AF_INET };
	bool v4 = t->family == AF_INET;
	int fd, rc;

	if (memcmp(t->local, t->peer, sizeof(t->peer)) == 0)
		return true;
	memcpy(&in.sin_addr, t->peer, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, t->peer, sizeof(in6.sin6_addr));
	fd = rsk_sys_socket(t->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	rc = v4 ? rsk_sys_bind(fd, &in, sizeof(in)) : rsk_sys_bind(fd, &in6, sizeof(in6));
	rsk_sys_close(fd);
	return rc == 0;
}

enum rsk_reason rsk_absent_why(const struct rsk_tuple *mine, bool rsockd)
{
	struct rsk_owner theirs;

	switch (rsk_owner_is(mine, rsk_sys_geteuid(), &theirs)) {
	case -EPERM:
		/* inode 0, no owner: it is not accepted yet, or closed. */
		return theirs.inode ? RSK_REASON_OTHER_USER : RSK_REASON_NO_PEER;
	case -EOPNOTSUPP:
		return RSK_REASON_UNVERIFIED;
	case -ENOENT:
		if (peer_is_here(mine))
			return RSK_REASON_TRANSLATED;
		return rsockd ? RSK_REASON_NO_PEER : RSK_REASON_NO_RSOCKD;
	default:
		return RSK_REASON_NO_PEER;
	}
}

enum rsk_reason rsk_absent_link(int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return RSK_REASON_FD_LIMIT;
	case -ENOMEM:
	case -ENOSPC:
		return RSK_REASON_MEMORY;
	case -EPERM:
		return RSK_REASON_OTHER_USER;
	case -EPROTONOSUPPORT:
		return RSK_REASON_VERSION;
	default:
		return RSK_REASON_LINK_ERROR;
	}
}

enum rsk_reason rsk_absent_registry(int err)
{
	enum rsk_reason why = rsk_absent_link(err);

	return why == RSK_REASON_FD_LIMIT || why == RSK_REASON_MEMORY ? why :
									RSK_REASON_NO_REGISTRY;
}
