/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_stdio.c - hooks of stdio functions on a socket. stdio reads and writes by calls that no hook
 * sees, so the stream falls back.
 */
#include <dlfcn.h>

#define RSK_EXPORT_stdio 1
#include "export.h"
#include "hook.h"

FILE *rsk_hook_fdopen(int fd, const char *mode)
{
	int rc = rsk_live() ? rsk_fd_refuse(fd, RSK_REASON_STDIO) : 0;

	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	return rsk_real.fdopen(fd, mode);
}

/* libc closes the fd by a call that no hook sees; the entry must not outlive it. */
static void rsk_before_fclose(FILE *file)
{
	int saved = errno, fd;

	if (!file || !rsk_live())
		return;
	fd = fileno(file);
	if (fd >= 0 && rsk_known(fd))
		rsk_fd_closing(fd);
	errno = saved; /* EBADF of a stream without a fd (fmemopen) */
}

int rsk_hook_fclose(FILE *file)
{
	rsk_before_fclose(file);
	return rsk_real.fclose(file);
}

FILE *rsk_hook_freopen(const char *path, const char *mode, FILE *file)
{
	if (path)
		rsk_before_fclose(file);
	return rsk_made_file(rsk_real.freopen(path, mode, file));
}

void rsk_hook_backtrace_symbols_fd(void *const *frames, int n, int fd)
{
	if (rsk_tracked(fd))
		rsk_fd_fall_back(fd, RSK_REASON_STDIO);
	rsk_real.backtrace_symbols_fd(frames, n, fd);
}

/* ---- dprintf: formatted here, sent by the hook of write() ---- */

/* The formats are the application's, which its own compiler has checked. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* hook_io.c */
ssize_t rsk_hook_write(int fd, const void *buf, size_t len);

typedef int rsk_vsnprintf_chk_fn(char *buf, size_t max, int flag, size_t room, const char *fmt,
				 va_list ap);

/*
 * @flag < 0: the plain function; otherwise as for libc's fortified ones (which check %n). Looked
 * up, not linked: the library itself calls no fortified function, which a test checks.
 */
static int rsk_format(char *buf, size_t room, int flag, const char *fmt, va_list ap)
{
	static rsk_vsnprintf_chk_fn *chk;

	if (flag >= 0 && !chk)
		chk = (rsk_vsnprintf_chk_fn *)dlsym(RTLD_DEFAULT, "__vsnprintf_chk");
	if (flag < 0 || !chk)
		return vsnprintf(buf, room, fmt, ap);
	return chk(buf, room, flag, room, fmt, ap);
}

/* Writes all of it, as libc does: partial writes are continued, an error ends the call with -1. */
static int rsk_write_all(int fd, const char *buf, int len)
{
	int at = 0;

	while (at < len) {
		ssize_t n = rsk_hook_write(fd, buf + at, (size_t)(len - at));

		if (n < 0)
			return -1;
		at += (int)n;
	}
	return len;
}

static int rsk_vdprintf(int fd, int flag, const char *fmt, va_list ap)
{
	char small[1024], *buf = small;
	va_list again;
	int len, ret;

	va_copy(again, ap);
	len = rsk_format(small, sizeof(small), flag, fmt, ap);
	if (len >= (int)sizeof(small)) {
		/* dprintf is not signal-safe in libc either: the heap may be used. */
		buf = malloc((size_t)len + 1);
		if (buf)
			len = rsk_format(buf, (size_t)len + 1, flag, fmt, again);
		else
			len = -1;
	}
	va_end(again);
	ret = len < 0 ? -1 : rsk_write_all(fd, buf, len);
	if (buf != small)
		free(buf);
	return ret;
}

int rsk_hook_vdprintf(int fd, const char *fmt, va_list ap)
{
	if (!rsk_tracked(fd))
		return rsk_real.vdprintf(fd, fmt, ap);
	return rsk_vdprintf(fd, -1, fmt, ap);
}

int rsk_hook___vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	if (!rsk_tracked(fd))
		return rsk_real.__vdprintf_chk(fd, flag, fmt, ap);
	return rsk_vdprintf(fd, flag < 0 ? 0 : flag, fmt, ap);
}

int rsk_hook_dprintf(int fd, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = rsk_hook_vdprintf(fd, fmt, ap);
	va_end(ap);
	return ret;
}

int rsk_hook___dprintf_chk(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = rsk_hook___vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return ret;
}
