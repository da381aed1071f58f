/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops_io.c - the worker's operations that send and receive, in every form; contents are reported as
 * a sum.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Functions that a fortified program calls; glibc's headers do not declare them publicly. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, struct sockaddr *addr,
		       socklen_t *addr_len);

enum send_form {
	S_WRITE,
	S_WRITEV,
	S_SEND,
	S_SENDTO,
	S_SENDMSG,
	S_SENDMMSG,
	S_SENDFILE,
	S_SENDFILE_AT,
	S_SENDFILE_ZERO,
	S_SPLICE,
	S_PWRITEV2,
	S_SYS_WRITE,
	S_SYS_SENDTO,
	S_SYS_SENDMSG,
	S_DPRINTF,
};

enum recv_form {
	R_READ,
	R_READV,
	R_RECV,
	R_RECVFROM,
	R_RECVMSG,
	R_RECVMMSG,
	R_READ_CHK,
	R_RECV_CHK,
	R_RECVFROM_CHK,
	R_PREADV2,
	R_SYS_READ,
	R_SYS_RECVFROM,
	R_SYS_RECVMSG,
};

static void three(struct iovec iov[static 3], uint8_t *buf, size_t len)
{
	size_t a = len / 3, b = len / 2 - len / 3;

	iov[0] = (struct iovec){ buf, a };
	iov[1] = (struct iovec){ buf + a, b };
	iov[2] = (struct iovec){ buf + a + b, len - a - b };
}

/* A file with these bytes after a head of 100 others. */
static int file_of(const uint8_t *buf, size_t len)
{
	static const uint8_t head[100];
	int fd = memfd_create("differ", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, head, sizeof(head)) < 0 || write(fd, buf, len) < 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static ssize_t from_file(int fd, uint8_t *buf, size_t len, bool at_offset)
{
	int file = file_of(buf, len);
	off_t at = sizeof(char[100]);
	ssize_t n;
	int error;

	if (at_offset) {
		n = sendfile(fd, file, &at, len);
	} else {
		lseek(file, at, SEEK_SET);
		n = sendfile(fd, file, NULL, len);
	}
	error = errno;
	close(file);
	errno = error;
	return n;
}

static ssize_t from_zero(int fd, size_t len)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ssize_t n = sendfile(fd, zero, NULL, len);
	int error = errno;

	close(zero);
	errno = error;
	return n;
}

static ssize_t from_pipe(int fd, const uint8_t *buf, size_t len)
{
	int p[2], error;
	ssize_t n;

	if (pipe(p) || write(p[1], buf, len) < 0)
		return -1;
	close(p[1]);
	n = splice(p[0], NULL, fd, NULL, len, 0);
	error = errno;
	close(p[0]);
	errno = error;
	return n;
}

static ssize_t send_many(int fd, uint8_t *buf, size_t len, int flags)
{
	struct iovec iov[3];
	struct mmsghdr msgs[3] = { 0 };
	ssize_t sum = 0;
	int n;

	three(iov, buf, len);
	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	n = sendmmsg(fd, msgs, 3, flags);
	for (int i = 0; i < n; i++)
		sum += msgs[i].msg_len;
	return n < 0 ? -1 : sum;
}

static ssize_t send_once(int fd, enum send_form form, uint8_t *buf, size_t len, int flags)
{
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

	three(iov, buf, len);
	switch (form) {
	case S_WRITEV:
		return writev(fd, iov, 3);
	case S_SEND:
		return send(fd, buf, len, flags);
	case S_SENDTO:
		return sendto(fd, buf, len, flags, NULL, 0);
	case S_SENDMSG:
		return sendmsg(fd, &msg, flags);
	case S_SENDMMSG:
		return send_many(fd, buf, len, flags);
	case S_SENDFILE:
	case S_SENDFILE_AT:
		return from_file(fd, buf, len, form == S_SENDFILE_AT);
	case S_SENDFILE_ZERO:
		return from_zero(fd, len);
	case S_SPLICE:
		return from_pipe(fd, buf, len);
	case S_PWRITEV2:
		return pwritev2(fd, iov, 3, -1, 0);
	case S_SYS_WRITE:
		return syscall(SYS_write, fd, buf, len);
	case S_SYS_SENDTO:
		return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
	case S_SYS_SENDMSG:
		return syscall(SYS_sendmsg, fd, &msg, flags);
	case S_DPRINTF:
		for (size_t i = 0; i < len; i++)
			buf[i] = (uint8_t)('a' + buf[i] % 26);
		return dprintf(fd, "%.*s", (int)len, (char *)buf);
	case S_WRITE:
	default:
		return write(fd, buf, len);
	}
}

/* send H FORM LEN FLAGS KEY POS: after a short count of a non-blocking socket it sends the rest. */
void op_send(struct op *op)
{
	int fd = handle(op->arg[0]);
	size_t len = (size_t)op->arg[2] < MAX_BYTES ? (size_t)op->arg[2] : MAX_BYTES;
	uint8_t *buf = malloc(MAX_BYTES);
	size_t done = 0;
	ssize_t n;

	for (;;) {
		pattern((uint32_t)op->arg[4], (uint64_t)op->arg[5] + done, buf, len - done);
		n = send_once(fd, (enum send_form)op->arg[1], buf, len - done, (int)op->arg[3]);
		if (n > 0)
			done += (size_t)n;
		if (done >= len || n == 0 || (n < 0 && (errno != EAGAIN || !done)))
			break;
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		if (poll(&p, 1, PATIENCE_MS) <= 0)
			break;
	}
	if (done)
		say(op, "%zu ", done);
	if (n < 0)
		say_result(op, n);
	free(buf);
}

static ssize_t recv_many(int fd, uint8_t *buf, size_t len, int flags, int *got_flags)
{
	struct iovec iov[3];
	struct mmsghdr msgs[3] = { 0 };
	ssize_t sum = 0;
	int n;

	three(iov, buf, len);
	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	n = recvmmsg(fd, msgs, 3, flags | MSG_WAITFORONE, NULL);
	for (int i = 0; i < n; i++) {
		if (!(flags & MSG_TRUNC) && sum < (uint8_t *)iov[i].iov_base - buf)
			memmove(buf + sum, iov[i].iov_base, msgs[i].msg_len);
		sum += msgs[i].msg_len;
		*got_flags |= msgs[i].msg_hdr.msg_flags;
	}
	return n < 0 ? -1 : sum;
}

static ssize_t recv_once(int fd, enum recv_form form, uint8_t *buf, size_t len, int flags,
			 int *got_flags)
{
	struct iovec iov[3];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	ssize_t n;

	three(iov, buf, len);
	switch (form) {
	case R_READV:
		return readv(fd, iov, 3);
	case R_RECV:
		return recv(fd, buf, len, flags);
	case R_RECVFROM:
		return recvfrom(fd, buf, len, flags, NULL, NULL);
	case R_RECVMSG:
		n = recvmsg(fd, &msg, flags);
		*got_flags = msg.msg_flags;
		return n;
	case R_RECVMMSG:
		return recv_many(fd, buf, len, flags, got_flags);
	case R_READ_CHK:
		return __read_chk(fd, buf, len, MAX_BYTES);
	case R_RECV_CHK:
		return __recv_chk(fd, buf, len, MAX_BYTES, flags);
	case R_RECVFROM_CHK:
		return __recvfrom_chk(fd, buf, len, MAX_BYTES, flags, NULL, NULL);
	case R_PREADV2:
		return preadv2(fd, iov, 3, -1, 0);
	case R_SYS_READ:
		return syscall(SYS_read, fd, buf, len);
	case R_SYS_RECVFROM:
		return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
	case R_SYS_RECVMSG:
		return syscall(SYS_recvmsg, fd, &msg, flags);
	case R_READ:
	default:
		return read(fd, buf, len);
	}
}

/* recv H FORM LEN FLAGS */
void op_recv(struct op *op)
{
	size_t len = (size_t)op->arg[2] < MAX_BYTES ? (size_t)op->arg[2] : MAX_BYTES;
	uint8_t *buf = calloc(1, MAX_BYTES);
	int flags = (int)op->arg[3], got_flags = 0;
	uint32_t sum = 0x811c9dc5;
	ssize_t n = recv_once(handle(op->arg[0]), (enum recv_form)op->arg[1], buf, len, flags,
			      &got_flags);

	say_result(op, n);
	if (n > 0 && !(flags & MSG_TRUNC)) {
		crc(&sum, buf, (size_t)n);
		say(op, "sum=%08x ", sum);
	}
	if (n > 0 && got_flags)
		say(op, "flags=%x", got_flags);
	free(buf);
}

/* bsend H LEN KEY POS: more than the buffers hold; answers when all of it is sent. */
void op_bulk_send(struct op *op)
{
	int fd = handle(op->arg[0]);
	size_t len = (size_t)op->arg[1], done = 0, piece = 1;
	uint8_t *buf = malloc(MAX_BYTES);

	while (done < len) {
		size_t want = piece % MAX_BYTES < len - done ? piece % MAX_BYTES + 1 : len - done;

		want = want < len - done ? want : len - done;
		pattern((uint32_t)op->arg[2], (uint64_t)op->arg[3] + done, buf, want);
		ssize_t n = send(fd, buf, want, 0);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			if (poll(&p, 1, 2 * PATIENCE_MS) > 0)
				continue;
		}
		if (n <= 0) {
			say_result(op, n);
			break;
		}
		done += (size_t)n;
		piece = piece * 5 + 7;
	}
	say(op, "sent %zu", done);
	free(buf);
}

/* brecv H LEN: so many bytes, in as many calls as it takes. */
void op_bulk_recv(struct op *op)
{
	int fd = handle(op->arg[0]);
	size_t len = (size_t)op->arg[1], done = 0;
	uint8_t *buf = malloc(MAX_BYTES);
	uint32_t sum = 0x811c9dc5;

	while (done < len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		size_t want = len - done < MAX_BYTES ? len - done : MAX_BYTES;

		if (poll(&p, 1, PATIENCE_MS) <= 0) {
			say(op, "nothing comes ");
			break;
		}
		ssize_t n = recv(fd, buf, want, 0);

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0) {
			say_result(op, n);
			break;
		}
		crc(&sum, buf, (size_t)n);
		done += (size_t)n;
	}
	say(op, "received %zu sum=%08x", done, sum);
	free(buf);
}

/* bcheck H LEN KEY POS: so many bytes, each compared with what the peer must have sent. */
void op_bulk_check(struct op *op)
{
	int fd = handle(op->arg[0]);
	size_t len = (size_t)op->arg[1], done = 0;
	uint8_t *buf = malloc(2 * MAX_BYTES), *right = buf + MAX_BYTES;

	while (done < len) {
		size_t want = len - done < MAX_BYTES ? len - done : MAX_BYTES;
		ssize_t n = recv(fd, buf, want, 0);

		if (n <= 0) {
			say_result(op, n);
			break;
		}
		pattern((uint32_t)op->arg[2], (uint64_t)op->arg[3] + done, right, (size_t)n);
		if (memcmp(buf, right, (size_t)n)) {
			say(op, "wrong bytes in %zu to %zu ", done, done + (size_t)n);
			break;
		}
		done += (size_t)n;
	}
	say(op, "right %zu", done);
	free(buf);
}

/* stdio H r LEN | stdio H w LEN KEY POS: by a FILE over a copy of the descriptor. */
void op_stdio(struct op *op)
{
	bool in = op->word[2][0] == 'r';
	size_t len = (size_t)op->arg[2] < MAX_BYTES ? (size_t)op->arg[2] : MAX_BYTES, n;
	uint8_t *buf = calloc(1, MAX_BYTES);
	uint32_t sum = 0x811c9dc5;
	int fd = dup(handle(op->arg[0]));
	FILE *file = fd < 0 ? NULL : fdopen(fd, in ? "r" : "w");

	if (!file) {
		say_result(op, -1);
		close(fd);
		free(buf);
		return;
	}
	if (in) {
		n = fread(buf, 1, len, file);
		crc(&sum, buf, n);
		say(op, "%zu sum=%08x ", n, sum);
	} else {
		pattern((uint32_t)op->arg[3], (uint64_t)op->arg[4], buf, len);
		n = fwrite(buf, 1, len, file);
		say(op, "%zu ", n);
		say_result(op, fflush(file));
	}
	say_result(op, fclose(file));
	free(buf);
}

/*
 * splicein H LEN FLAGS: into a pipe that is emptied, until so many bytes have come or no more come.
 */
void op_splice_in(struct op *op)
{
	size_t len = (size_t)op->arg[1], done = 0;
	uint8_t *buf = malloc(MAX_BYTES);
	uint32_t sum = 0x811c9dc5;
	int p[2];
	ssize_t n = -1;

	if (pipe(p))
		goto out;
	while (done < len) {
		n = splice(handle(op->arg[0]), NULL, p[1], NULL, len - done, (unsigned)op->arg[2]);
		if (n <= 0)
			break;
		if (read(p[0], buf, (size_t)n) != n)
			break;
		crc(&sum, buf, (size_t)n);
		done += (size_t)n;
	}
	say(op, "%zu sum=%08x ", done, sum);
	if (n < 0)
		say_result(op, n);
	close(p[0]);
	close(p[1]);
out:
	free(buf);
}

/* copyrange H: the kernel takes regular files only. */
void op_copy_range(struct op *op)
{
	int file = memfd_create("differ", MFD_CLOEXEC);

	say_result(op, copy_file_range(handle(op->arg[0]), NULL, file, NULL, 10, 0));
	say_result(op, copy_file_range(file, NULL, handle(op->arg[0]), NULL, 10, 0));
	close(file);
}
