// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_tool.c - fuzzes the tool's readers of foreign data with any bytes: a program's file, a line
 * of the socket tables, an environment, an auxiliary vector, statistics by lines, a query. The
 * first byte selects the reader.
 */
#include "library.h"
#include "measure.h"
#include "nettab.h"
#include "proc.h"
#include "program.h"
#include "rsock.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void a_program(const uint8_t *data, size_t size)
{
	char interp[PATH_MAX];
	enum program_kind kind = program_classify(data, size, interp);

	require(strlen(interp) < PATH_MAX);
	if (kind == PROGRAM_SCRIPT)
		require(interp[0] && !strchr(interp, ' '));
	if (kind == PROGRAM_DYNAMIC || kind == PROGRAM_OTHER_LIBC)
		require(interp[0] == '/');
	if (kind == PROGRAM_STATIC)
		require(!interp[0]);
}

static void a_line(char *text)
{
	static const uint8_t none[12];
	struct sock_row row;

	if (!nettab_parse(text, &row))
		return;
	require(row.tuple.family == AF_INET || row.tuple.family == AF_INET6);
	if (row.tuple.family == AF_INET)
		require(memcmp(row.tuple.local + 4, none, 12) == 0);
}

static void an_environment(const char *text, size_t size)
{
	const char *value = environ_value(text, size, "LD_PRELOAD"), *at;
	size_t len;

	/* Inside the text, or at its end, where a zero follows. */
	require(!value || (value > text && value <= text + size));
	if (value && preload_names_library(value, &at, &len))
		require(at >= value && len >= strlen(LIBRARY_FILE) && at + len <= text + size);
}

static void statistics(char *text)
{
	struct travelled sum = { 0 };

	travelled_add(&sum, text);
	require(sum.direct <= sum.streams);
}

static void a_question(const char *text)
{
	struct target target;
	uint64_t n;
	char out[64];

	if (target_parse(text, &target) == 0) {
		if (target.kind == TARGET_ADDRESS)
			require(target.port && strlen(target.host) < sizeof(target.host));
		else
			require(target.pid > 0 && (target.kind == TARGET_PID) == (target.fd < 0));
	}
	if (parse_seconds(text, &n) == 0)
		require(n >= 1000000 && n <= UINT64_C(86400000000000));
	if (parse_number(text, 5, 7, &n) == 0)
		require(n >= 5 && n <= 7);
	text_clean(out, sizeof(out), text, strlen(text));
	for (const char *p = out; *p; p++)
		require(*p >= 0x20 && *p < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	switch (data[0]) {
	case 'p':
		a_program(data + 1, size - 1);
		break;
	case 'l':
		a_line(text);
		break;
	case 'e':
		an_environment(text, size - 1);
		break;
	case 'a':
		auxv_secure(data + 1, size - 1);
		break;
	case 's':
		statistics(text);
		break;
	default:
		a_question(text);
	}
	free(text);
	return 0;
}
