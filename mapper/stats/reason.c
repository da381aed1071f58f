// SPDX-License-Identifier: BSD-2-Clause
/* reason.c - the table of reasons that reason.h declares. */
#include <rsock/reason.h>

static const struct rsk_reason_row rows[] = {
#define RSK_REASON(code, token, sentence, cure) [RSK_REASON_##code] = { token, sentence, cure },
#include <rsock/reason.def>
#undef RSK_REASON
};

static const struct rsk_reason_row unknown = {
	"unknown",
	"The code is not one that this version knows.",
	"Use the tool and the library of one version.",
};

const struct rsk_reason_row *rsk_reason_row(unsigned int code)
{
	return code < RSK_REASON_COUNT ? &rows[code] : &unknown;
}
