// SPDX-License-Identifier: BSD-2-Clause
/* inherited.c - see inherited.h. */
#include "inherited.h"

#include <errno.h>

#include "holders.h"
#include "log.h"
#include "owner.h"
#include "stream.h"

/*
 * A look reads the links of all descriptors of the host, about a microsecond each, in a call of the
 * program's. It is not made again as long as the process that it has found keeps the socket.
 */
#define LOOK_NS 20000000u
#define LOOKS_MOST 16u
/* So many in vain: a process that cannot be read may be about to end, and a look be too slow. */
#define VAIN_MOST 4u

bool rsk_inherited_look(struct rsk_stream *s)
{
	uint32_t inode = atomic_load(&s->inherited.inode);
	struct rsk_holder who = { 0 };
	int rc;

	if (!inode)
		return true;
	if (s->inherited.pid && rsk_owner_holds(s->inherited.pid, s->inherited.fd, inode) == 0)
		return true;
	s->inherited.pid = 0;
	if (s->inherited.looks == LOOKS_MOST) {
		rsk_stream_untrack(s, RSK_REASON_SHARED_HOLDER);
		return false;
	}
	s->inherited.looks++;
	rc = rsk_holders_look(inode, s->inherited.uid, rsk_now_ns() + LOOK_NS, &who);
	if (rc == 0)
		atomic_store(&s->inherited.inode, 0);
	if (rc > 0) {
		s->inherited.pid = who.pid;
		s->inherited.fd = who.fd;
	}
	if (rc >= 0 || rc == -EAGAIN || rc == -EMFILE ||
	    ((rc == -EACCES || rc == -ETIME) && s->inherited.looks < VAIN_MOST))
		return true;
	rsk_log(RSK_LOG_INFO, "a socket that came through exec: who else has it is not known (%d)",
		rc);
	rsk_stream_untrack(s, RSK_REASON_INHERITED);
	return false;
}
