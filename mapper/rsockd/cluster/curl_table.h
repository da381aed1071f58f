/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * curl_table.h - the functions of libcurl, which is loaded only where there is a cluster: a daemon
 * without one does not map the library and the twenty others that it needs. etcd.c and etcd_http.c
 * call through the table.
 */
#ifndef RSK_CURL_TABLE_H
#define RSK_CURL_TABLE_H

#include <curl/curl.h>
#include <stddef.h>

/* X(member, name in the library, return type, arguments) */
#define RSK_CURL_FUNCTIONS(X)                                                                      \
	X(global_init, curl_global_init, CURLcode, (long))                                         \
	X(global_cleanup, curl_global_cleanup, void, (void))                                       \
	X(version_info, curl_version_info, curl_version_info_data *, (CURLversion))                \
	X(easy_init, curl_easy_init, CURL *, (void))                                               \
	X(easy_setopt, curl_easy_setopt, CURLcode, (CURL *, CURLoption, ...))                      \
	X(easy_getinfo, curl_easy_getinfo, CURLcode, (CURL *, CURLINFO, ...))                      \
	X(easy_cleanup, curl_easy_cleanup, void, (CURL *))                                         \
	X(easy_strerror, curl_easy_strerror, const char *, (CURLcode))                             \
	X(slist_append, curl_slist_append, struct curl_slist *,                                    \
	  (struct curl_slist *, const char *))                                                     \
	X(slist_free_all, curl_slist_free_all, void, (struct curl_slist *))                        \
	X(multi_init, curl_multi_init, CURLM *, (void))                                            \
	X(multi_setopt, curl_multi_setopt, CURLMcode, (CURLM *, CURLMoption, ...))                 \
	X(multi_cleanup, curl_multi_cleanup, CURLMcode, (CURLM *))                                 \
	X(multi_add, curl_multi_add_handle, CURLMcode, (CURLM *, CURL *))                          \
	X(multi_remove, curl_multi_remove_handle, CURLMcode, (CURLM *, CURL *))                    \
	X(multi_assign, curl_multi_assign, CURLMcode, (CURLM *, curl_socket_t, void *))            \
	X(multi_action, curl_multi_socket_action, CURLMcode, (CURLM *, curl_socket_t, int, int *)) \
	X(multi_info_read, curl_multi_info_read, CURLMsg *, (CURLM *, int *))

struct rsk_curl_table {
#define X(member, name, type, arguments) type(*member) arguments;
	RSK_CURL_FUNCTIONS(X)
#undef X
};

/* Valid after rsk_curl_load() has returned 0; immutable then. */
extern struct rsk_curl_table rsk_curl;

/*
 * Loads and initialises libcurl; it stays loaded until the process ends. Returns 0 or -errno, with
 * a line in @error. Blocks: it reads files.
 */
int rsk_curl_load(char *error, size_t n);
/* After rsk_curl_load() has returned 0. */
void rsk_curl_end(void);

#endif
