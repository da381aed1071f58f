/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * touch.h - memory of the application's, as a call was given it: can it be read, can it be written?
 *
 * The kernel answers EFAULT for what is not mapped, or may not be written. We copy in the program's own address space,
 * and would fault. So a byte of each page is touched before, by an instruction that stands in a table together with
 * the place where it goes on if it faults: the handler in front of the application's (preload/signal_trampoline.c) looks it up,
 * as the kernel does with its own. Where nothing faults that is one instruction a page. See docs/adr/wild-pointers.md.
 *
 * Writing is asked for as far as something will be written: the byte is written back as it was read.
 */
#ifndef RSK_TOUCH_H
#define RSK_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rsk_iovcur;

#define RSK_TOUCH_PAGE 4096 /* the smallest there is */

/* A row of the table; both relative to where they stand. */
struct rsk_touch_fixup {
	int32_t insn, on;
};

#define RSK_TOUCH_ROW(insn)                                                                        \
	".pushsection rsk_touch_fixups, \"a\"\n"                                                   \
	".balign 4\n"                                                                              \
	".long " insn " - ., %l[bad] - .\n"                                                        \
	".popsection"

static inline __attribute__((always_inline)) bool rsk_touch_read_byte(const void *p)
{
#if defined(__x86_64__)
	__asm__ goto("1: testb $0, %0\n" RSK_TOUCH_ROW("1b")
		     :
		     : "m"(*(const uint8_t *)p)
		     : "cc", "memory"
		     : bad);
#else
	__asm__ goto("1: ldrb w16, [%0]\n" RSK_TOUCH_ROW("1b") : : "r"(p) : "x16", "memory" : bad);
#endif
	return true;
bad:
	return false;
}

static inline __attribute__((always_inline)) bool rsk_touch_write_byte(void *p)
{
#if defined(__x86_64__)
	__asm__ goto("1: orb $0, %0\n" RSK_TOUCH_ROW("1b")
		     :
		     : "m"(*(uint8_t *)p)
		     : "cc", "memory"
		     : bad);
#else
	__asm__ goto("1: ldrb w16, [%0]\n2: strb w16, [%0]\n" RSK_TOUCH_ROW(
			     "1b") "\n" RSK_TOUCH_ROW("2b")
		     :
		     : "r"(p)
		     : "x16", "memory"
		     : bad);
#endif
	return true;
bad:
	return false;
}

bool rsk_touch_read_pages(const void *p, size_t len);
bool rsk_touch_write_pages(void *p, size_t len);

/* @len > 0 bytes. */
static inline __attribute__((always_inline)) bool rsk_touch_reads(const void *p, size_t len)
{
	if (__builtin_expect(len > RSK_TOUCH_PAGE, 0))
		return rsk_touch_read_pages(p, len);
	return rsk_touch_read_byte(p) && rsk_touch_read_byte((const uint8_t *)p + len - 1);
}

static inline __attribute__((always_inline)) bool rsk_touch_writes(void *p, size_t len)
{
	if (__builtin_expect(len > RSK_TOUCH_PAGE, 0))
		return rsk_touch_write_pages(p, len);
	return rsk_touch_write_byte(p) && rsk_touch_write_byte((uint8_t *)p + len - 1);
}

/* The same of the next @len bytes of a vector. */
bool rsk_touch_gathers(const struct rsk_iovcur *src, size_t len);
bool rsk_touch_scatters(const struct rsk_iovcur *dst, size_t len);

/* The handler is there. Before that no stream is, and what leads nowhere is not looked at. */
extern bool rsk_touch_ready __attribute__((visibility("hidden")));

/* No address that a program can have: such a vector the kernel refuses before it looks at the socket. */
static inline bool rsk_touch_never(const void *p)
{
#if defined(__x86_64__)
	return (intptr_t)p < 0;
#else
	(void)p; /* the upper bits may be a tag */
	return false;
#endif
}

/* Where to go on behind a fault of the instruction at @pc; 0: it is none of these. Signal-safe. */
uintptr_t rsk_touch_fixup(uintptr_t pc);

#endif
