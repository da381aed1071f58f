/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base64.h - base64 (RFC 4648, section 4), in which etcd's JSON has keys and values. Called by
 * etcd_msg.c. Pure.
 */
#ifndef RSK_BASE64_H
#define RSK_BASE64_H

#include <stddef.h>

/* Returns text that the caller frees; NULL: no memory. */
char *rsk_base64_encode(const void *bytes, size_t n);
/*
 * Returns bytes that the caller frees, followed by a zero that *n does not count; NULL: no memory,
 * or @text is not base64 with padding.
 */
char *rsk_base64_decode(const char *text, size_t *n);

#endif
