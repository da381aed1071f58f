/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reason.h - reason codes: why a stream is on its path. The engine and rsockd set them, the tools
 * print them; the table is reason.def.
 */
#ifndef RSOCK_REASON_H
#define RSOCK_REASON_H

/* Fits in a byte: statistics records and control messages carry it as uint8_t. */
enum rsk_reason {
#define RSK_REASON(code, token, sentence, cure) RSK_REASON_##code,
#include <rsock/reason.def>
#undef RSK_REASON
	RSK_REASON_COUNT
};

/*
 * Reasons are appended without another version of anything: what comes from another process may be
 * one that this version does not know, up to RSK_REASON_MOST. It is shown as "unknown".
 */
#define RSK_REASON_MOST 255u
_Static_assert(RSK_REASON_COUNT <= RSK_REASON_MOST, "a reason fits a byte");

struct rsk_reason_row {
	const char *token;
	const char *sentence;
	const char *cure;
};

/*
 * The row of a code. @code may be any number: a code from a peer or from shared memory that is not
 * in the table gives a row that says so. Never NULL, static storage, signal-safe.
 */
const struct rsk_reason_row *rsk_reason_row(unsigned int code);

static inline const char *rsk_reason_token(unsigned int code)
{
	return rsk_reason_row(code)->token;
}

#endif /* RSOCK_REASON_H */
