// SPDX-License-Identifier: BSD-2-Clause
/* library.c - see library.h. The syntax of LD_PRELOAD: ld.so(8). */
#include "library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTING " \t\n:"

static bool usable(const char *path, char out[static PATH_MAX])
{
	char *real = realpath(path, NULL);
	bool ok = real && strlen(real) < PATH_MAX && access(real, R_OK) == 0;

	/*
	 * The path itself, not what symbolic links resolve to: an upgrade puts another file there.
	 */
	snprintf(out, PATH_MAX, "%s",
		 ok && path[0] == '/' && !strstr(path, "/../") ? path :
		 ok					       ? real :
								 path);
	free(real);
	return ok;
}

int library_find(char out[static PATH_MAX])
{
	static const char *const beside[] = { "../lib/" LIBRARY_FILE,
					      "../" RSOCK_LIBDIR "/" LIBRARY_FILE, LIBRARY_FILE };
	const char *told = getenv("RSOCK_LIBRARY");
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t n;

	if (told && *told)
		return usable(told, out) ? 0 : -ENOENT;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = 0;
		*strrchr(self, '/') = 0;
		for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
			snprintf(path, sizeof(path), "%s/%s", self, beside[i]);
			if (usable(path, out))
				return 0;
		}
	}
	return usable(RSOCK_FULL_LIBDIR "/" LIBRARY_FILE, out) ? 0 : -ENOENT;
}

bool preload_names_library(const char *preload, const char **at, size_t *len)
{
	for (const char *p = preload; *p; p += strspn(p, PARTING)) {
		size_t n = strcspn(p, PARTING);
		const char *base = p + n;

		while (base > p && base[-1] != '/')
			base--;
		if ((size_t)(p + n - base) == strlen(LIBRARY_FILE) &&
		    memcmp(base, LIBRARY_FILE, strlen(LIBRARY_FILE)) == 0) {
			if (at)
				*at = p;
			if (len)
				*len = n;
			return true;
		}
		p += n;
	}
	return false;
}

int preload_set(const char *library)
{
	const char *have = getenv("LD_PRELOAD");
	char *both;
	int err;

	if (!*library || strpbrk(library, PARTING))
		return -EINVAL;
	if (!have || !*have)
		return setenv("LD_PRELOAD", library, 1) ? -ENOMEM : 0;
	if (preload_names_library(have, NULL, NULL))
		return 0;
	if (asprintf(&both, "%s:%s", have, library) < 0)
		return -ENOMEM;
	err = setenv("LD_PRELOAD", both, 1) ? -ENOMEM : 0;
	free(both);
	return err;
}

int preload_unset(void)
{
	const char *have = getenv("LD_PRELOAD"), *at;
	char *rest = have ? strdup(have) : NULL, *from;
	size_t len;
	int err;

	if (!rest)
		return have ? -ENOMEM : 0;
	while (preload_names_library(rest, &at, &len)) {
		from = rest + (at - rest);
		len += strspn(from + len, PARTING);
		memmove(from, from + len, strlen(from + len) + 1);
	}
	err = *rest ? setenv("LD_PRELOAD", rest, 1) : unsetenv("LD_PRELOAD");
	free(rest);
	return err ? -ENOMEM : 0;
}
