// SPDX-License-Identifier: BSD-2-Clause
/* curl_table.c - see curl_table.h. */
#include "curl_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcurl.so.4"
/* 7.85: the options of etcd_http.c */
#define VERSION_LEAST 0x075500

struct rsk_curl_table rsk_curl;

static const struct {
	const char *name;
	size_t offset;
} rows[] = {
#define X(member, name, type, arguments) { #name, offsetof(struct rsk_curl_table, member) },
	RSK_CURL_FUNCTIONS(X)
#undef X
};

static int look_up(void *library, char *error, size_t n)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *found = dlsym(library, rows[i].name);

		if (!found) {
			snprintf(error, n, LIBRARY " has no %s", rows[i].name);
			return -ENOSYS;
		}
		memcpy((char *)&rsk_curl + rows[i].offset, &found, sizeof(found));
	}
	return 0;
}

int rsk_curl_load(char *error, size_t n)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const curl_version_info_data *version;
	int rc;

	if (!library) {
		const char *why = dlerror();

		snprintf(error, n, "%s", why ? why : LIBRARY " cannot be loaded");
		return -ENOENT;
	}
	rc = look_up(library, error, n);
	if (rc < 0)
		return rc;
	version = rsk_curl.version_info(CURLVERSION_NOW);
	if (version->version_num < VERSION_LEAST || !(version->features & CURL_VERSION_SSL)) {
		snprintf(error, n, LIBRARY " is version %s: 7.85 with TLS is needed",
			 version->version);
		return -ENOSYS;
	}
	if (rsk_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		snprintf(error, n, LIBRARY " cannot be initialised");
		return -EIO;
	}
	return 0;
}

void rsk_curl_end(void)
{
	rsk_curl.global_cleanup();
}
