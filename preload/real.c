/* SPDX-License-Identifier: BSD-2-Clause */
/* real.c - resolves libc's own functions, and replaces them until then; see real.h. */
#include <dlfcn.h>
#include <errno.h>

#include "boot.h"
#include "real.h"

__thread uint32_t rsk_direct;

/* ---- every row has libc's own prototype ---- */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define RSK_CHK(ret, name, params, args, family, raw, note)
#define RSK_SAME(ret, name, params)                                                                \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), ret(*) params), #name);
#define RSK_SYM(ret, name, params, args, family, raw, note) RSK_SAME(ret, name, params)
/* gcc: noreturn is part of the type */
#define RSK_EXIT(name, params, args, family, raw, note)
/* No header declares the fortified one. */
extern int __dprintf_chk(int fd, int flag, const char *fmt, ...);
#include "symbols.def"
#pragma GCC diagnostic pop

/* ---- before libc's functions are known ---- */

/*
 * The system call itself, with libc's error convention. Takes six arguments for any call, and ints
 * as longs, as libc's syscall() does: the kernel reads those that the call has, in their width.
 */
#define rsk_raw_call(...) rsk_raw_call6(__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)
#define RSK_RAW_MISSING (-1L)
#define RSK_RAW_MISSING_PTR (-2L)
#define RSK_NO_RAW (RSK_RAW_MISSING)
#define RSK_NO_RAW_PTR (RSK_RAW_MISSING_PTR)

static long rsk_raw_call6(long nr, ...)
{
	va_list ap;
	long a[6], ret;

	if (nr < 0) {
		errno = ENOSYS;
		return nr == RSK_RAW_MISSING_PTR ? 0 : -1;
	}
	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = rsk_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (ret < 0 && ret >= -4095) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

/*
 * One early function for each row: boots and calls the resolved function; if boot is under way in
 * this very call (dlsym() allocates, a preloaded malloc reads its configuration ...), makes the
 * system call. A symbol that the running libc does not have keeps its early function: the system
 * call, or ENOSYS.
 */
#define RSK_VAR(ret, name, params, family, note)
#define RSK_SYM(ret, name, params, args, family, raw, note)                                        \
	static ret rsk_early_##name params                                                         \
	{                                                                                          \
		if (rsk_boot() && rsk_real.name != rsk_early_##name)                               \
			return rsk_real.name args;                                                 \
		long raw_ret = rsk_raw_call raw;                                                   \
		return (ret)raw_ret;                                                               \
	}
#define RSK_VOID(name, params, args, family, raw, note)                                            \
	static void rsk_early_##name params                                                        \
	{                                                                                          \
		if (rsk_boot() && rsk_real.name != rsk_early_##name)                               \
			rsk_real.name args;                                                        \
		else                                                                               \
			rsk_raw_call raw;                                                          \
	}
#define RSK_EXIT(name, params, args, family, raw, note)                                            \
	static void rsk_early_##name params                                                        \
	{                                                                                          \
		if (rsk_boot() && rsk_real.name != rsk_early_##name)                               \
			rsk_real.name args;                                                        \
		for (;;)                                                                           \
			rsk_raw_call raw;                                                          \
	}
#include "symbols.def"

/* The variadic ones: hooks call them only with all arguments, as written here. */
#define RSK_EARLY_ARGS(n, last)                                                                    \
	va_list ap;                                                                                \
	long a[n];                                                                                 \
                                                                                                   \
	va_start(ap, last);                                                                        \
	for (int i = 0; i < (n); i++)                                                              \
		a[i] = va_arg(ap, long);                                                           \
	va_end(ap)

static int rsk_early_open(const char *path, int flags, ...)
{
	RSK_EARLY_ARGS(1, flags);
	if (rsk_boot())
		return rsk_real.open(path, flags, a[0]);
	return (int)rsk_raw_call(SYS_openat, AT_FDCWD, path, flags, a[0]);
}

static int rsk_early_openat(int dir, const char *path, int flags, ...)
{
	RSK_EARLY_ARGS(1, flags);
	if (rsk_boot())
		return rsk_real.openat(dir, path, flags, a[0]);
	return (int)rsk_raw_call(SYS_openat, dir, path, flags, a[0]);
}

static mqd_t rsk_early_mq_open(const char *name, int flags, ...)
{
	RSK_EARLY_ARGS(2, flags);
	if (rsk_boot())
		return rsk_real.mq_open(name, flags, a[0], a[1]);
	return (mqd_t)rsk_raw_call(RSK_RAW_MISSING);
}

static int rsk_early_fcntl(int fd, int cmd, ...)
{
	RSK_EARLY_ARGS(1, cmd);
	if (rsk_boot())
		return rsk_real.fcntl(fd, cmd, a[0]);
	return (int)rsk_raw_call(SYS_fcntl, fd, cmd, a[0]);
}

static int rsk_early_ioctl(int fd, unsigned long request, ...)
{
	RSK_EARLY_ARGS(1, request);
	if (rsk_boot())
		return rsk_real.ioctl(fd, request, a[0]);
	return (int)rsk_raw_call(SYS_ioctl, fd, request, a[0]);
}

static int rsk_early_prctl(int op, ...)
{
	RSK_EARLY_ARGS(4, op);
	if (rsk_boot())
		return rsk_real.prctl(op, a[0], a[1], a[2], a[3]);
	return (int)rsk_raw_call(SYS_prctl, op, a[0], a[1], a[2], a[3]);
}

static long rsk_early_syscall(long nr, ...)
{
	RSK_EARLY_ARGS(6, nr);
	if (rsk_boot())
		return rsk_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	return rsk_raw_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int rsk_early_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	RSK_EARLY_ARGS(3, arg);
	if (rsk_boot())
		return rsk_real.clone(fn, stack, flags, arg, a[0], a[1], a[2]);
	return (int)rsk_raw_call(RSK_RAW_MISSING);
}

/*
 * Their hooks call a fixed-argument function instead (vdprintf, execv ...): never through the
 * table.
 */
#define RSK_EARLY_UNUSED(name, ...)                                                                \
	static int rsk_early_##name(__VA_ARGS__, ...)                                              \
	{                                                                                          \
		return (int)rsk_raw_call(RSK_RAW_MISSING);                                         \
	}
RSK_EARLY_UNUSED(dprintf, int fd, const char *fmt)
RSK_EARLY_UNUSED(__dprintf_chk, int fd, int flag, const char *fmt)
RSK_EARLY_UNUSED(execl, const char *path, const char *arg)
RSK_EARLY_UNUSED(execle, const char *path, const char *arg)
RSK_EARLY_UNUSED(execlp, const char *file, const char *arg)

struct rsk_real rsk_real = {
#define RSK_SYM(ret, name, params, args, family, raw, note) .name = rsk_early_##name,
#include "symbols.def"
};

/* ---- boot ---- */

int rsk_real_resolve(void)
{
	int missing = 0;
	void *found;

	/*
	 * A word-sized store each: a thread that another constructor has started reads the old or
	 * the new pointer.
	 */
#define RSK_SYM(ret, name, params, args, family, raw, note)                                        \
	found = dlsym(RTLD_NEXT, #name);                                                           \
	if (found)                                                                                 \
		__atomic_store_n((void **)&rsk_real.name, found, __ATOMIC_RELAXED);                \
	else                                                                                       \
		missing++;
#include "symbols.def"
	/* Clears the error, which the application would otherwise find in dlerror(). */
	if (missing)
		dlerror();
	return missing;
}
