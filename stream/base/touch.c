// SPDX-License-Identifier: BSD-2-Clause
/*
 * touch.c - the table of probing instructions, and probes of long ranges and vectors: see touch.h.
 */
#include "touch.h"

#include "iovcur.h"

/* Defined by the linker: the first row of the table, and the end. */
extern const struct rsk_touch_fixup __start_rsk_touch_fixups[]
	__attribute__((visibility("hidden")));
extern const struct rsk_touch_fixup __stop_rsk_touch_fixups[] __attribute__((visibility("hidden")));

bool rsk_touch_ready;

uintptr_t rsk_touch_fixup(uintptr_t pc)
{
	for (const struct rsk_touch_fixup *f = __start_rsk_touch_fixups;
	     f < __stop_rsk_touch_fixups; f++)
		if ((uintptr_t)&f->insn + (uintptr_t)(intptr_t)f->insn == pc)
			return (uintptr_t)&f->on + (uintptr_t)(intptr_t)f->on;
	return 0;
}

bool rsk_touch_read_pages(const void *p, size_t len)
{
	for (size_t at = 0; at < len; at += RSK_TOUCH_PAGE)
		if (!rsk_touch_read_byte((const uint8_t *)p + at))
			return false;
	return rsk_touch_read_byte((const uint8_t *)p + len - 1);
}

bool rsk_touch_write_pages(void *p, size_t len)
{
	for (size_t at = 0; at < len; at += RSK_TOUCH_PAGE)
		if (!rsk_touch_write_byte((uint8_t *)p + at))
			return false;
	return rsk_touch_write_byte((uint8_t *)p + len - 1);
}

static bool each_run(struct rsk_iovcur at, size_t len, bool write)
{
	while (len) {
		uint8_t *p = NULL;
		size_t run = rsk_iovcur_run(&at, &p);

		if (!run)
			return true; /* another thread has shortened the vector meanwhile */
		if (run > len)
			run = len;
		if (!(write ? rsk_touch_writes(p, run) : rsk_touch_reads(p, run)))
			return false;
		rsk_iovcur_advance(&at, run);
		len -= run;
	}
	return true;
}

bool rsk_touch_gathers(const struct rsk_iovcur *src, size_t len)
{
	return each_run(*src, len, false);
}

bool rsk_touch_scatters(const struct rsk_iovcur *dst, size_t len)
{
	return each_run(*dst, len, true);
}
