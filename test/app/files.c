/* SPDX-License-Identifier: BSD-2-Clause */
/* files.c - tests sendfile, splice, tee, vmsplice, copy_file_range and aio on streams. */
#include "app.h"

#include <aio.h>
#include <sys/sendfile.h>

static char buf[1 << 20];

static int make_file(size_t len)
{
	int file = (int)MUST(memfd_create("file", 0));

	app_pattern(buf, len, 0, 7);
	app_write_all(file, buf, len);
	MUST(lseek(file, 0, SEEK_SET));
	return file;
}

CASE(sendfile_out, DIRECT, "sendfile with and without an offset, past the end of the file")
{
	int fd = app_open(WARM);

	if (CLI) {
		int file = make_file(100000);
		off_t at = 99000;

		R(sendfile(fd, file, NULL, 1000));
		R(lseek(file, 0, SEEK_CUR));
		R(sendfile(fd, file, &at, 5000));
		LOG("offset %lld", (long long)at);
		R(lseek(file, 0, SEEK_CUR));
		R(sendfile64(fd, file, NULL, 500000));
		R(sendfile(fd, file, NULL, 10));
		R(sendfile(fd, file, NULL, 0));
		at = -1;
		R(sendfile(fd, file, &at, 10));
		app_close(file);
	} else {
		app_hear(fd, 101000);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

/* Makes a file on a disk, if temporary files are on one; @cold: not in the page cache any more. */
static int make_disk_file(size_t len, bool cold)
{
	int file = (int)MUST(open(P_tmpdir, O_TMPFILE | O_RDWR, 0600));

	app_pattern(buf, len, 0, 7);
	app_write_all(file, buf, len);
	if (cold) {
		MUST(fsync(file));
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	}
	return file;
}

CASE(sendfile_large, DIRECT,
     "900,000 bytes by sendfile: blocking, by parts, past the end; in the page cache or not")
{
	static const size_t parts[] = { 1000000, 900000, 70000, 16385, 241, 240 };
	int fd = app_open(WARM);

	for (unsigned int i = 0; i < 2 * sizeof(parts) / sizeof(parts[0]); i++) {
		size_t part = parts[i / 2], len = part < 1000 ? 9000 : 900000;
		off_t at = 0;

		if (CLI) {
			int file = make_disk_file(len, i % 2);

			while (at < (off_t)len && sendfile(fd, file, &at, part) > 0)
				;
			LOG("at %lld", (long long)at);
			R(sendfile(fd, file, &at, part));
			R(write(fd, "behind it", 9));
			app_close(file);
		} else {
			R(app_recv_pattern(fd, len, 50000, 7));
			app_hear(fd, 9);
		}
		app_sync();
	}
	app_close(fd);
}

CASE(sendfile_unbuffered, DIRECT, "sendfile from a file with O_DIRECT, from where no block begins")
{
	int fd = app_open(WARM);
	char name[32];

	if (CLI) {
		int cached = make_disk_file(9000, false), file;
		off_t at = 5;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", cached);
		file = (int)R(open(name, O_RDONLY | O_DIRECT));
		R(sendfile(fd, file, &at, 3000));
		LOG("offset %lld", (long long)at);
		R(sendfile(fd, file, NULL, 4096));
		R(sendfile(fd, file, NULL, 8192));
		R(lseek(file, 0, SEEK_CUR));
	} else {
		R(app_recv_pattern(fd, 9000, 5000, 7));
	}
	app_sync();
	app_close(fd);
}

CASE(sendfile_wrong, DIRECT, "sendfile from what cannot be read, to a bad descriptor")
{
	int fd = app_open(WARM);
	int file = make_file(100);
	int path = (int)MUST(open("/proc/self/exe", O_PATH));
	int writes;
	char name[32];
	off_t at = 5;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
	writes = (int)MUST(open(name, O_WRONLY));
	R(sendfile(fd, writes, NULL, 10));
	R(sendfile(fd, writes, &at, 10));
	R(sendfile(fd, writes, NULL, 0));
	R(sendfile(fd, path, NULL, 10));
	R(sendfile(fd, path, &at, 10));
	LOG("offset %lld", (long long)at);
	app_close(writes);
	app_close(path);

	R(sendfile(file, fd, NULL, 10));
	R(sendfile(-1, file, NULL, 10));
	R(sendfile(fd, -1, NULL, 10));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(file);
	app_close(fd);
}

CASE(sendfile_nonblock, DIRECT, "sendfile on a full non-blocking socket: EAGAIN, then the rest")
{
	int fd = app_open(WARM);
	uint64_t total = 0;

	if (CLI) {
		int file = make_file(1 << 20);
		ssize_t n;

		app_set_nonblock(fd, true);
		for (;;) {
			off_t at = (off_t)(total % (1 << 20));

			n = sendfile(fd, file, &at, (size_t)((1 << 20) - at));
			if (n <= 0)
				break;
			total += (uint64_t)n;
		}
		LOG("ends with %zd %s", n, app_errname(errno));
		app_flag_set(1, total);
		app_close(file);
	} else {
		uint64_t want = app_flag_wait(1);

		while (total < want) {
			size_t now = (size_t)(want - total < 1 << 20 ? want - total : 1 << 20);

			if (!app_recv_pattern(fd, now, 50000, 7))
				break;
			total += now;
		}
		LOG("same amount %d", total == want);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(splice_both, DIRECT, "splice from a pipe into the stream and out of it")
{
	int fd = app_open(WARM);
	int p[2];
	loff_t off = 0;

	MUST(pipe(p));
	if (CLI) {
		SAY(p[1], "through the pipe");
		R(splice(p[0], NULL, fd, NULL, 7, 0));
		R(splice(p[0], NULL, fd, NULL, 100, SPLICE_F_MORE));
		R(splice(p[0], NULL, fd, &off, 100, 0));
		R(send(fd, ".", 1, 0));
	} else {
		app_await_inq(fd, 17);
		R(splice(fd, NULL, p[1], NULL, 5, 0));
		R(splice(fd, &off, p[1], NULL, 5, 0));
		app_hear(p[0], 5);
		R(splice(fd, NULL, p[1], NULL, 12, 0));
		app_hear(p[0], 12);
		app_set_nonblock(fd, true);
		R(splice(fd, NULL, p[1], NULL, 100, 0));
	}
	app_sync();
	app_close(p[0]);
	app_close(p[1]);
	app_close(fd);
}

CASE(splice_eof, DIRECT, "splice at the end of the stream is 0")
{
	int fd = app_open(WARM);
	int p[2];

	MUST(pipe(p));
	if (CLI) {
		SAY(fd, "last");
		R(shutdown(fd, SHUT_WR));
	} else {
		size_t got = 0;
		ssize_t n;

		while ((n = splice(fd, NULL, p[1], NULL, 100, 0)) > 0)
			got += (size_t)n;
		LOG("splice ends with %zd after %zu", n, got);
		app_hear(p[0], 4);
	}
	app_sync();
	app_close(p[0]);
	app_close(p[1]);
	app_close(fd);
}

CASE(splice_bulk, DIRECT, "1 MiB relayed by splice through a pipe, with ordinary writes around it")
{
	int fd = app_open(WARM);
	int p[2];

	MUST(pipe(p));
	if (SRV) {
		R(app_send_pattern(fd, 1 << 20, 33333, 2));
		SAY(fd, "END");
	} else {
		size_t left = 1 << 20;
		uint64_t pos = 0;

		while (left) {
			ssize_t n =
				MUST(splice(fd, NULL, p[1], NULL, left < 60000 ? left : 60000, 0));

			if (!n || !app_read_full(p[0], buf, (size_t)n) ||
			    !app_pattern_ok(buf, (size_t)n, pos, 2))
				app_die("relay broke at %llu", (unsigned long long)pos);
			pos += (uint64_t)n;
			left -= (size_t)n;
		}
		app_hear(fd, 3);
	}
	app_sync();
	app_close(p[0]);
	app_close(p[1]);
	app_close(fd);
}

CASE(tee_vmsplice, DIRECT, "tee and vmsplice refuse sockets; copy_file_range too")
{
	int fd = app_open(WARM);
	int p[2];
	int file = make_file(10);
	struct iovec iov = { buf, 4 };

	MUST(pipe(p));
	SAY(p[1], "x");
	R(tee(p[0], fd, 1, 0));
	R(tee(fd, p[1], 1, SPLICE_F_NONBLOCK));
	R(vmsplice(fd, &iov, 1, 0));
	R(copy_file_range(file, NULL, fd, NULL, 4, 0));
	R(copy_file_range(fd, NULL, file, NULL, 4, 0));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(p[0]);
	app_close(p[1]);
	app_close(file);
	app_close(fd);
}

CASE(order_over_calls, DIRECT, "write, sendfile, writev, splice, send, dprintf keep their order")
{
	int fd = app_open(WARM);

	if (CLI) {
		int file = make_file(2000);
		int p[2];
		struct iovec iov[2] = { IOV("-wr"), IOV("itev-") };

		MUST(pipe(p));
		for (int i = 0; i < 3; i++) {
			off_t at = 0;

			R(write(fd, "-write-", 7));
			R(sendfile(fd, file, &at, 2000));
			R(writev(fd, iov, 2));
			SAY(p[1], "-splice-");
			R(splice(p[0], NULL, fd, NULL, 8, 0));
			R(send(fd, "-send-", 6, 0));
			R(dprintf(fd, "-%s-%d-", "dprintf", 42));
		}
		app_close(p[0]);
		app_close(p[1]);
		app_close(file);
	} else {
		for (int i = 0; i < 3; i++) {
			app_hear(fd, 7);
			app_hear(fd, 2000);
			app_hear(fd, 34);
		}
	}
	app_sync();
	app_close(fd);
}

static void aio_wait(struct aiocb *cb)
{
	const struct aiocb *list[1] = { cb };

	while (aio_error(cb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	int err = aio_error(cb);

	LOG("aio error %s return %zd", err ? app_errname(err) : "0", aio_return(cb));
}

CASE(aio, DIRECT, "aio_write, aio_read and lio_listio on a stream")
{
	int fd = app_open(WARM);
	static char text[] = "asynchronous";
	struct aiocb cb = { .aio_fildes = fd };
	struct aiocb *list[1] = { &cb };

	if (CLI) {
		cb.aio_buf = text;
		cb.aio_nbytes = 12;
		R(aio_write(&cb));
		aio_wait(&cb);
		cb.aio_lio_opcode = LIO_WRITE;
		R(lio_listio(LIO_WAIT, list, 1, NULL));
		aio_wait(&cb);
		SAY(fd, "sync");
		app_hear(fd, 4);
	} else {
		app_await_inq(fd, 28);
		cb.aio_buf = buf;
		cb.aio_nbytes = 20;
		R(aio_read(&cb));
		aio_wait(&cb);
		app_bytes("aio", buf, 20);
		app_hear(fd, 8);
		SAY(fd, "done");
	}
	app_sync();
	app_close(fd);
}
