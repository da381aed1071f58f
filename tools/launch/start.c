// SPDX-License-Identifier: BSD-2-Clause
/* start.c - see start.h. */
#include "start.h"

#include "library.h"
#include "program.h"
#include "rsock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int start_failed(const char *name, int err)
{
	failure("%s: %s", name, err == ENOENT ? "there is no such program" : strerror(err));
	return err == ENOENT || err == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int start_find(const char *name, char library[static PATH_MAX], char path[static PATH_MAX])
{
	int err = library_find(library);

	if (err)
		return failure("no %s: %s cannot be read; set RSOCK_LIBRARY to its path",
			       LIBRARY_FILE, library);
	err = program_find(name, path);
	return err ? start_failed(name, -err) : 0;
}

int start_prepare(const char *name, char library[static PATH_MAX], char path[static PATH_MAX])
{
	int err = start_find(name, library, path);

	if (err)
		return err;
	/* Only librsock.so is removed: the program may accept other libraries in LD_PRELOAD. */
	err = program_takes_preload(program_kind(path)) ? preload_set(library) : preload_unset();
	if (err == -EINVAL)
		return failure("%s: LD_PRELOAD cannot hold a path with blanks or colons", library);
	return err ? failure("no memory") : 0;
}

const char *start_warning(const char *path)
{
	const char *off = getenv("RSOCK_DISABLE");

	if (off && *off && *off != '0')
		return "runs with librsock.so switched off: RSOCK_DISABLE is set";
	if (program_is_secure(path, getuid(), getgid()))
		return "is set-uid, set-gid or has file capabilities: "
		       "the loader ignores LD_PRELOAD then";
	switch (program_kind(path)) {
	case PROGRAM_STATIC:
		return "is linked statically: no library can be preloaded into it";
	case PROGRAM_FOREIGN:
		return "is for another machine or word size than librsock.so";
	case PROGRAM_OTHER_LIBC:
		return "uses a C library other than glibc, which librsock.so needs";
	default:
		return NULL;
	}
}
