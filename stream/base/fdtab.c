// SPDX-License-Identifier: BSD-2-Clause
/* fdtab.c - the table of descriptors: see fdtab.h. */
#include "fdtab.h"

#include <sys/mman.h>

#include <rsock/sys.h>

#include "process.h"

#define PAGE_BYTES 4096u
/* The page with the process id, and the table. */
#define TABLE_BYTES (PAGE_BYTES + RSK_FD_TABLE_MOST * sizeof(uintptr_t))

struct rsk_fdtab rsk_fdtab;
static _Atomic(uint32_t) fd_high; /* no entry from here on was ever used */

void rsk_fdtab_init(void)
{
	void *p = rsk_sys_mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (rsk_sys_is_err(p))
		return;
	rsk_fdtab.word = (_Atomic(uintptr_t) *)(void *)((uint8_t *)p + PAGE_BYTES);
	rsk_fdtab.size = RSK_FD_TABLE_MOST;
}

/*
 * A child finds zeros. A child of a hooked fork fills its table again (fork.c). A child of a fork
 * that no hook saw tracks nothing and has no process id, so it leaves its parent's memory alone.
 */
void rsk_fdtab_begin(void)
{
	uint8_t *p = (uint8_t *)rsk_fdtab.word - PAGE_BYTES;

	if (rsk_fdtab.word && rsk_sys_madvise(p, TABLE_BYTES, MADV_WIPEONFORK) == 0)
		rsk_process_wiped((int *)(void *)p);
}

static void raise_high(int fd)
{
	uint32_t high = atomic_load_explicit(&fd_high, memory_order_relaxed);

	while ((uint32_t)fd >= high &&
	       !atomic_compare_exchange_weak(&fd_high, &high, (uint32_t)fd + 1))
		;
}

void rsk_fd_put(int fd, uintptr_t word)
{
	if ((uint32_t)fd >= rsk_fdtab.size)
		return;
	if (word)
		raise_high(fd);
	atomic_store_explicit(&rsk_fdtab.word[fd], word, memory_order_release);
}

bool rsk_fd_put_if(int fd, uintptr_t is, uintptr_t word)
{
	if ((uint32_t)fd >= rsk_fdtab.size)
		return false;
	if (word)
		raise_high(fd);
	return atomic_compare_exchange_strong(&rsk_fdtab.word[fd], &is, word);
}

uint32_t rsk_fd_high(void)
{
	return atomic_load_explicit(&fd_high, memory_order_acquire);
}

/* Replaces @from by @to in all entries (a stream becomes tracked or untracked). */
void rsk_fd_replace(uintptr_t from, uintptr_t to)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = from;

		if (!atomic_compare_exchange_strong(&rsk_fdtab.word[i], &w, to) &&
		    w == (from | RSK_FD_LEFT))
			atomic_compare_exchange_strong(&rsk_fdtab.word[i], &w, to | RSK_FD_LEFT);
	}
}

int rsk_fd_next(int from)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = from < 0 ? 0 : (uint32_t)from; i < high; i++)
		if (rsk_fd_word((int)i))
			return (int)i;
	return -1;
}
