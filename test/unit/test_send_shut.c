// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_send_shut.c - tests sends behind shutdown(SHUT_WR) while the ring is in use, so that the
 * kernel's socket has no FIN yet.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>

#include "control_word.h"
#include "hooked.h"
#include "remote_kit.h"

static ssize_t send_nothing(int fd)
{
	char byte = 'x';
	struct iovec iov = { &byte, 0 };
	struct rsk_op op;
	ssize_t n;

	cr_assert_neq(rsk_op_begin(&op, fd, RSK_OP_SEND), RSK_KERNEL);
	n = rsk_op_send(&op, &iov, 1, MSG_NOSIGNAL);
	rsk_op_end(&op, n);
	return n;
}

Test(send_shut, nothing_is_an_error_too)
{
	struct kit_stream ks;
	struct kit k;
	char byte = 'x';

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, true);
	cr_assert_eq(send_nothing(ks.fd), -RSK_EKERNEL, "the kernel reports what there is");
	atomic_store(&ks.s->wr_shut, 1);
	cr_assert_eq(send(ks.fd, &byte, 0, MSG_NOSIGNAL), 0, "the kernel does not know yet");
	cr_assert_eq(send_nothing(ks.fd), -EPIPE);
}
