// SPDX-License-Identifier: BSD-2-Clause
/* curl_table.c - see curl_table.h. */
#include "curl_table.h"

#include <errno.h>
#include <stdio.h>

#include "library.h"

#define LIBRARY "libcurl.so.4"
/* 7.85: the options of etcd_http.c */
#define VERSION_LEAST 0x075500

struct rsk_curl_table rsk_curl;

static const struct rsk_library_row rows[] = {
#define X(member, name, type, arguments) { #name, offsetof(struct rsk_curl_table, member) },
	RSK_CURL_FUNCTIONS(X)
#undef X
};

int rsk_curl_load(char *error, size_t n)
{
	const curl_version_info_data *version;
	int rc = rsk_library_load(LIBRARY, rows, sizeof(rows) / sizeof(rows[0]), &rsk_curl, error,
				  n);

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
