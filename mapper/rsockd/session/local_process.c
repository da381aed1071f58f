// SPDX-License-Identifier: BSD-2-Clause
/*
 * local_process.c - one process at the local socket: finds it by number, sends to it, proves a
 * socket that it names, and converts policy's answer for it. local.c, local_ask.c,
 * local_rendezvous.c and rails.c call it; see local_parts.h.
 */
#include <errno.h>
#include <sys/socket.h>

#include "local_msg.h"
#include "local_parts.h"
#include "owner.h"
#include "user.h"

struct rsk_local_process *rsk_local_process(const struct rsk_local *l, uint32_t number)
{
	struct rsk_local_process *p;

	HASH_FIND(hh, l->processes, &number, sizeof(number), p);
	return p;
}

/* If the queue is full the message is dropped: the process has to read. */
bool rsk_local_tell(struct rsk_local *l, struct rsk_local_process *p, struct rsk_local_msg *m,
		    int fd)
{
	int rc = rsk_local_msg_send(p->fd, m, fd);

	if (rc < 0 && rc != -EAGAIN)
		shutdown(p->fd, SHUT_RDWR); /* the event that this causes removes it */
	return rc == 0;
}

void rsk_local_answer(struct rsk_local *l, struct rsk_local_process *p,
		      const struct rsk_rendezvous_table_end *end, enum rsk_reason why)
{
	struct rsk_local_msg m = { .type = RSK_LOCAL_ANSWER,
				   .tuple = end->tuple,
				   .cookie = end->cookie,
				   .fd = end->fd,
				   .reason = why };

	rsk_local_tell(l, p, &m, -1);
}

enum rsk_reason rsk_local_proof(const struct rsk_local *l, const struct rsk_local_process *p,
				const struct rsk_local_msg *m)
{
	struct rsk_owner own;
	int rc;

	/*
	 * Whoever is elsewhere and names a socket here does not hold it: there, its user's number
	 * may be another user's.
	 */
	if (m->tuple.netns != l->netns || p->netns != l->netns)
		return RSK_REASON_OTHER_NETNS;
	rc = rsk_owner_lookup(&m->tuple, &own);
	if (rc == -ENOENT)
		return RSK_REASON_CLOSED;
	if (rc < 0)
		return RSK_REASON_UNVERIFIED;
	return rsk_user_same(own.uid, p->uid) && own.cookie == m->cookie ? RSK_REASON_DIRECT :
									   RSK_REASON_NOT_HOLDER;
}

enum rsk_reason rsk_local_verdict(enum rsk_pma_verdict verdict)
{
	switch (verdict) {
	case RSK_PMA_MAP:
		return RSK_REASON_MAPPED;
	case RSK_PMA_NO_DEVICE:
		return RSK_REASON_NO_RNIC;
	case RSK_PMA_SOFT_RNIC:
		return RSK_REASON_SOFT_RNIC;
	case RSK_PMA_REMOTE_FULL:
		return RSK_REASON_PEER_FULL;
	default:
		return RSK_REASON_POLICY;
	}
}
