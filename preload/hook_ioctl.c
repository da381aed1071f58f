/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_ioctl.c - hooks of fcntl() and ioctl(): duplicates, blocking mode, signal-driven I/O, queue
 * lengths.
 */
#include <linux/sockios.h>

#define RSK_EXPORT_ioctl 1
#include "export.h"
#include "hook.h"

/* The third argument as the kernel gets it: it ignores the upper half for an int. */
#define RSK_LAST_ARG(arg, last)                                                                    \
	do {                                                                                       \
		va_list ap;                                                                        \
		va_start(ap, last);                                                                \
		(arg) = va_arg(ap, unsigned long);                                                 \
		va_end(ap);                                                                        \
	} while (0)

static int rsk_fcntl_dup(int fd, int cmd, unsigned long arg)
{
	int ret;

	ret = rsk_before_dup(fd);
	if (ret < 0)
		return (int)rsk_result(ret);
	ret = rsk_real.fcntl(fd, cmd, arg);
	if (ret >= 0)
		rsk_after_dup(fd, ret);
	return ret;
}

static int rsk_fcntl_setfl(int fd, unsigned long arg)
{
	int ret;

	/* Done before: an event after the change must find its signal. */
	if ((arg & O_ASYNC) && rsk_live())
		rsk_fd_refuse(fd, RSK_REASON_ASYNC);
	ret = rsk_real.fcntl(fd, F_SETFL, arg);
	if (ret == 0 && rsk_known(fd))
		rsk_fd_set_nonblock(fd, !!(arg & O_NONBLOCK));
	return ret;
}

int rsk_hook_fcntl(int fd, int cmd, ...)
{
	unsigned long arg;

	RSK_LAST_ARG(arg, cmd);
	if (rsk_live() && rsk_fd_not_yours(fd))
		return (int)rsk_result(-EBADF);
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return rsk_fcntl_dup(fd, cmd, arg);
	case F_SETFL:
		return rsk_fcntl_setfl(fd, arg);
	default:
		return rsk_real.fcntl(fd, cmd, arg);
	}
}

/*
 * FIONREAD and SIOCOUTQ of a stream also count what the ring holds. @alone, if not NULL: may know
 * the value without the kernel.
 */
static int rsk_ioctl_queue(int fd, unsigned long request, int *value,
			   bool (*alone)(struct rsk_op *op, int *value),
			   void (*add)(struct rsk_op *op, int *value))
{
	RSK_SCOPE(s);
	bool engine = rsk_op_begin(&s.op, fd, RSK_OP_CTL) == RSK_ENGINE;

	if (engine && alone && rsk_writable(value) && alone(&s.op, value)) {
		s.ret = 0;
		return 0;
	}
	s.ret = rsk_real.ioctl(fd, request, value);
	if (s.ret == 0 && engine)
		add(&s.op, value);
	return (int)s.ret;
}

/*
 * The result may be a new descriptor (TIOCGPTPEER, KVM_CREATE_VM, NS_GET_PARENT), or just a number.
 */
static int rsk_ioctl_of_other(int fd, unsigned long request, unsigned long arg)
{
	int ret = rsk_real.ioctl(fd, request, arg);

	if (ret > 0 && rsk_known(ret))
		rsk_fd_check(ret);
	return ret;
}

int rsk_hook_ioctl(int fd, unsigned long request, ...)
{
	unsigned long arg;
	int ret;

	RSK_LAST_ARG(arg, request);
	if (!rsk_known(fd))
		return rsk_ioctl_of_other(fd, request, arg);
	if (rsk_fd_not_yours(fd))
		return (int)rsk_result(-EBADF);
	/* The kernel's request is 32 bits wide; some programs sign-extend it. */
	switch ((unsigned int)request) {
	case SIOCINQ:
		if (rsk_tracked(fd))
			return rsk_ioctl_queue(fd, request, (int *)arg, rsk_op_inq_alone,
					       rsk_op_inq);
		break;
	case SIOCOUTQ:
		if (rsk_tracked(fd))
			return rsk_ioctl_queue(fd, request, (int *)arg, NULL, rsk_op_outq);
		break;
	case FIONBIO:
		ret = rsk_real.ioctl(fd, request, arg);
		if (ret == 0)
			rsk_fd_set_nonblock(fd, *(int *)arg != 0);
		return ret;
	case FIOASYNC:
		if (rsk_readable((int *)arg) && *(int *)arg)
			rsk_fd_refuse(fd, RSK_REASON_ASYNC);
		break;
	default:
		break;
	}
	return rsk_real.ioctl(fd, request, arg);
}
