/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_left.c - TCP_INQ: adds a control message to each recvmsg() with the number of bytes left.
 * hook_msg.c and hook_sock.c call it.
 */
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>

#include "hook.h"
#include "real.h"

/* The hooks of the other families. */
#define RSK_EXIT(name, params, args, family, raw, note)
#define RSK_SYM(ret, name, params, args, family, raw, note) ret rsk_hook_##name params;
#include "symbols.def"

/*
 * Some socket of this process was set to TCP_INQ. Set by any thread, never cleared; read relaxed at
 * each call.
 */
static _Atomic(bool) rsk_asked;

void rsk_left_ask(void)
{
	atomic_store_explicit(&rsk_asked, true, memory_order_relaxed);
}

bool rsk_left_asked(void)
{
	return atomic_load_explicit(&rsk_asked, memory_order_relaxed);
}

/* As the kernel's put_cmsg(). @room: of msg_control, as the caller gave it. */
static void rsk_put_left(struct msghdr *msg, size_t room, int left)
{
	struct cmsghdr head = { .cmsg_len = CMSG_LEN(sizeof(left)),
				.cmsg_level = SOL_TCP,
				.cmsg_type = TCP_CM_INQ };
	size_t used = CMSG_SPACE(sizeof(left));

	if (room < head.cmsg_len)
		msg->msg_flags |= MSG_CTRUNC;
	if (room < sizeof(head) || !msg->msg_control)
		return;
	if (room < head.cmsg_len)
		head.cmsg_len = room;
	if (!rsk_writes(msg->msg_control, head.cmsg_len))
		return;
	memcpy(msg->msg_control, &head, sizeof(head));
	memcpy((char *)msg->msg_control + CMSG_LEN(0), &left, head.cmsg_len - CMSG_LEN(0));
	msg->msg_controllen = room < used ? room : used;
}

/*
 * As the kernel's tcp_inq_hint(): the end counts as a byte, and continues to. False: TCP_INQ is not
 * set.
 */
static bool rsk_is_left(int fd, int *left)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	socklen_t len = sizeof(int);
	int on = 0;

	if (rsk_real.getsockopt(fd, SOL_TCP, TCP_INQ, &on, &len) < 0 || !on)
		return false;
	*left = 0;
	rsk_hook_ioctl(fd, SIOCINQ, left);
	if (rsk_hook_poll(&p, 1, 0) > 0 && (p.revents & POLLRDHUP))
		++*left;
	return true;
}

/* The bytes are consumed by now: a thread that is cancelled in here would lose them. */
void rsk_left_tell(int fd, struct msghdr *msg, size_t room)
{
	int left, saved = errno, state = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (rsk_is_left(fd, &left))
		rsk_put_left(msg, room, left);
	pthread_setcancelstate(state, NULL);
	errno = saved;
}
