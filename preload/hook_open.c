/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_open.c - hooks of calls that make a descriptor and have no other effect on streams.
 *
 * If the kernel returns a number that is in the table, its old descriptor was closed by a call that
 * no hook saw. The entry is removed before the program can use the new one. Hooks of calls that
 * return a number, a FILE or a DIR are generated from the table; calls that make two are in
 * hook_fd.c.
 */
#define RSK_EXPORT_open 1
#include "export.h"
#include "hook.h"

FILE *rsk_made_file(FILE *file)
{
	if (file)
		rsk_made(fileno(file));
	return file;
}

static DIR *rsk_made_dir(DIR *dir)
{
	if (dir)
		rsk_made(dirfd(dir));
	return dir;
}

#define RSK_MADE(x) _Generic((x), int : rsk_made, FILE * : rsk_made_file, DIR * : rsk_made_dir)(x)

#define RSK_OPEN_1(ret, name, params, args)                                                        \
	ret rsk_hook_##name params                                                                 \
	{                                                                                          \
		return RSK_MADE(rsk_real.name args);                                               \
	}
#define RSK_OPEN_0(ret, name, params, args)
#define RSK_VAR(ret, name, params, family, note)
#define RSK_VOID(name, params, args, family, raw, note)
#define RSK_SYM(ret, name, params, args, family, raw, note)                                        \
	RSK_PICK(RSK_OPEN, RSK_EXPORT_##family)(ret, name, params, args)
#include "symbols.def"

/* ---- optional arguments: read as the real functions read them ---- */

int rsk_hook_open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return rsk_made(rsk_real.open(path, flags, mode));
}

int rsk_hook_openat(int dir, const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return rsk_made(rsk_real.openat(dir, path, flags, mode));
}

mqd_t rsk_hook_mq_open(const char *name, int flags, ...)
{
	struct mq_attr *attr;
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	attr = va_arg(ap, struct mq_attr *);
	va_end(ap);
	return rsk_made(rsk_real.mq_open(name, flags, mode, attr));
}
