// SPDX-License-Identifier: BSD-2-Clause
/* base64.c - see base64.h. */
#include "base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *rsk_base64_encode(const void *bytes, size_t n)
{
	const uint8_t *in = bytes;
	char *text = n < SIZE_MAX / 2 ? malloc((n + 2) / 3 * 4 + 1) : NULL, *out = text;

	if (!text)
		return NULL;
	for (; n; in += 3) {
		uint32_t v = (uint32_t)in[0] << 16;

		v |= n > 1 ? (uint32_t)in[1] << 8 : 0;
		v |= n > 2 ? in[2] : 0;
		*out++ = letters[v >> 18];
		*out++ = letters[v >> 12 & 63];
		*out++ = n > 1 ? letters[v >> 6 & 63] : '=';
		*out++ = n > 2 ? letters[v & 63] : '=';
		n -= n < 3 ? n : 3;
	}
	*out = 0;
	return text;
}

/* The value of a letter; -1: it is none. */
static int value_of(char c)
{
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? (int)(at - letters) : -1;
}

/* Decodes four letters. Returns the number of bytes, or 0: they are wrong. */
static size_t decode_group(const char *text, char *out)
{
	size_t n = text[2] == '=' && text[3] == '=' ? 1 : text[3] == '=' ? 2 : 3;
	uint32_t v = 0;

	for (size_t i = 0; i < 4; i++) {
		int one = i <= n ? value_of(text[i]) : 0;

		if (one < 0)
			return 0;
		v = v << 6 | (uint32_t)one;
	}
	out[0] = (char)(v >> 16);
	if (n > 1)
		out[1] = (char)(v >> 8);
	if (n > 2)
		out[2] = (char)v;
	return n;
}

char *rsk_base64_decode(const char *text, size_t *n)
{
	size_t len = strlen(text);
	char *bytes = len % 4 == 0 ? malloc(len / 4 * 3 + 1) : NULL;

	*n = 0;
	for (size_t i = 0; bytes && i < len; i += 4) {
		size_t got = decode_group(text + i, bytes + *n);

		if (!got || (got < 3 && i + 4 != len)) {
			free(bytes);
			return NULL;
		}
		*n += got;
	}
	if (bytes)
		bytes[*n] = 0;
	return bytes;
}
