/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * touch.h - checks whether memory that the application passed to a call can be read or written. The
 * hooks and the ring code call it before they copy.
 *
 * The kernel answers EFAULT for memory that is not mapped or not writable. We copy in the program's
 * own address space, and would fault. So one byte of each page is touched first, by an instruction
 * that is listed in a table together with the place where execution continues if it faults. The
 * signal trampoline (preload/signal_trampoline.c) looks it up, as the kernel does for its own
 * copies. If nothing faults that costs one instruction per page. See docs/adr/wild-pointers.md.
 *
 * Writability is checked only as far as something will be written; the byte is written back as it
 * was read.
 */
#ifndef RSK_TOUCH_H
#define RSK_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rsk_iovcur;

#define RSK_TOUCH_PAGE 4096 /* the smallest page size */

/* A row of the table; both offsets are relative to their own address. */
struct rsk_touch_fixup {
	int32_t insn, on;
};

#define RSK_TOUCH_ROW(insn)                                                                        \
	".pushsection rsk_touch_fixups, \"a\"\n"                                                   \
	".balign 4\n"                                                                              \
	".long " insn " - ., %l[bad] - .\n"                                                        \
	".popsection"

/* Touch one byte. Return false if the access faults, where the program would get SIGSEGV. */
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

/* Touch each page of @len (> 0) bytes at @p. */
bool rsk_touch_read_pages(const void *p, size_t len);
bool rsk_touch_write_pages(void *p, size_t len);

/* Check @len (> 0) bytes at @p. */
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

/* Check the next @len bytes of a vector. */
bool rsk_touch_gathers(const struct rsk_iovcur *src, size_t len);
bool rsk_touch_scatters(const struct rsk_iovcur *dst, size_t len);

/* The signal trampoline is installed. Before that there is no stream, and no address is probed. */
extern bool rsk_touch_ready __attribute__((visibility("hidden")));

/*
 * Is @p an address that no program can have? The kernel refuses such a vector before it checks the
 * socket.
 */
static inline bool rsk_touch_never(const void *p)
{
#if defined(__x86_64__)
	return (intptr_t)p < 0;
#elif defined(__aarch64__)
	return (uintptr_t)p >> 55 & 1; /* the bits above that one may be a tag */
#else
	(void)p;
	return false;
#endif
}

/*
 * Where execution continues after a fault of the instruction at @pc; 0: it is not in the table.
 * Signal-safe.
 */
uintptr_t rsk_touch_fixup(uintptr_t pc);

#endif
