/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_pass.c - hooks that only make the real call, generated from the table.
 *
 * They exist so that the table names every libc function that a TCP socket meets, with the reason
 * why nothing has to be done in its note; a later change has its place.
 */
#define RSK_EXPORT_pass 1
#include "export.h"
#include "hook.h"

#define RSK_PASS_1(ret, name, params, args)                                                        \
	ret rsk_hook_##name params                                                                 \
	{                                                                                          \
		return rsk_real.name args;                                                         \
	}
#define RSK_PASS_0(ret, name, params, args)
#define RSK_VAR(ret, name, params, family, note)
#define RSK_VOID(name, params, args, family, raw, note)
#define RSK_SYM(ret, name, params, args, family, raw, note)                                        \
	RSK_PICK(RSK_PASS, RSK_EXPORT_##family)(ret, name, params, args)
#include "symbols.def"
