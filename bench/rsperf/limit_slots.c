/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit_slots.c - rsperf limit --slots: the limit for small messages in one direction, a bare loop
 * over slots as streams have them (<rsock/slot.h>), between two processes that spin. One hashes a
 * message, copies it into the ring and writes its head; the other sees the index, copies, hashes,
 * and reports its position now and then. There are no calls, locks, fences or wake-ups: the
 * difference to a stream is what the library adds.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "report.h"
#include "rsperf.h"

#define RSK_BARE_CELLS 8192u /* 512 KiB, as streams have */
#define RSK_BARE_SEED 42
#define RSK_BARE_FIRST RSK_BARE_CELLS /* an index that zeroed cells do not have */
#define RSK_BARE_SAYS 1024u	      /* cells between two reports of the reader */
#define RSK_BARE_SPINS (1u << 22) /* unsuccessful looks between two checks of the other process */
#define RSK_BARE_BATCH 1024u	  /* messages between two readings of the clock */

/* Shared; only the reader writes taken. */
struct rsk_bare {
	_Alignas(64) uint8_t cell[RSK_BARE_CELLS * RSK_CELL_BYTES];
	/* Index after the newest slot that was read; stored with release. */
	_Alignas(64) _Atomic uint64_t taken;
};

/* State of one of the two processes. */
struct rsk_bare_end {
	struct rsk_bare *bare;
	struct rsk_key key;
	uint64_t next; /* index of the next slot */
	uint32_t len, cells;
	uint8_t message[RSK_SLOT_MAX_PAYLOAD];
};

static void rsk_bare_end_init(struct rsk_bare_end *e, struct rsk_bare *bare, uint64_t bytes)
{
	e->bare = bare;
	rsk_key_init(&e->key, RSK_BARE_SEED);
	e->next = RSK_BARE_FIRST;
	e->len = (uint32_t)bytes;
	e->cells = rsk_slot_cells(e->len);
	memset(e->message, 0x5a, sizeof(e->message));
}

/* A slot does not wrap around the end of the ring. */
static uint8_t *rsk_bare_slot(struct rsk_bare_end *e)
{
	uint64_t at = e->next % RSK_BARE_CELLS;

	if (at + e->cells > RSK_BARE_CELLS) {
		e->next += RSK_BARE_CELLS - at;
		at = 0;
	}
	return e->bare->cell + at * RSK_CELL_BYTES;
}

static _Noreturn void rsk_bare_put(const struct rsk_opts *opts, struct rsk_bare *bare, pid_t parent)
{
	static struct rsk_bare_end e;
	uint64_t taken = RSK_BARE_FIRST;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || rsk_pin_thread(opts, 1))
		_exit(1);
	rsk_bare_end_init(&e, bare, opts->size_bytes);
	for (;;) {
		uint8_t *at = rsk_bare_slot(&e);
		struct rsk_slot_head head = { .index = e.next,
					      .len = e.len,
					      .kind = RSK_SLOT_DATA };
		uint64_t hash;

		while (e.next + e.cells - taken > RSK_BARE_CELLS)
			taken = atomic_load_explicit(&bare->taken, memory_order_acquire);
		e.message[e.len / 2] = (uint8_t)e.next;
		hash = rsk_hash_slot(&e.key, &head, rsk_hash_payload(&e.key, e.message, e.len));
		memcpy(at + rsk_slot_payload_off(e.len), e.message, e.len);
		memcpy(at + RSK_SLOT_HEAD_BYTES, &hash, sizeof(hash));
		memcpy(at + sizeof(head.index), (uint8_t *)&head + sizeof(head.index),
		       sizeof(head) - sizeof(head.index));
		__atomic_store_n((uint64_t *)(void *)at, head.index, __ATOMIC_RELEASE);
		e.next += e.cells;
	}
}

/* Has the child been killed? Then the spinning would never end. */
static bool rsk_bare_is_gone(pid_t child)
{
	siginfo_t is = { 0 };

	return waitid(P_PID, (id_t)child, &is, WEXITED | WNOHANG | WNOWAIT) < 0 || is.si_pid;
}

/* Receives one message. 0, -EBADMSG, or -ECHILD. */
static int rsk_bare_take(struct rsk_bare_end *e, uint64_t *said, pid_t child)
{
	uint8_t *at = rsk_bare_slot(e);
	struct rsk_slot_head head;
	uint64_t hash;

	for (uint32_t i = 1; __atomic_load_n((uint64_t *)(void *)at, __ATOMIC_ACQUIRE) != e->next;
	     i++)
		if (i % RSK_BARE_SPINS == 0 && rsk_bare_is_gone(child))
			return -ECHILD;
	memcpy(&head, at, sizeof(head));
	memcpy(&hash, at + RSK_SLOT_HEAD_BYTES, sizeof(hash));
	memcpy(e->message, at + rsk_slot_payload_off(e->len), e->len);
	if (hash != rsk_hash_slot(&e->key, &head, rsk_hash_payload(&e->key, e->message, e->len)))
		return -EBADMSG;
	e->next += e->cells;
	if (e->next - *said >= RSK_BARE_SAYS) {
		atomic_store_explicit(&e->bare->taken, e->next, memory_order_release);
		*said = e->next;
	}
	return 0;
}

static int rsk_bare_measure(const struct rsk_opts *opts, struct rsk_bare *bare, pid_t child)
{
	static struct rsk_bare_end e;
	uint64_t from_ns = rsk_monotonic_ns() + (uint64_t)(opts->warmup_s * 1e9), now, begun = 0;
	uint64_t said = RSK_BARE_FIRST, count = 0;
	struct rsk_report r = { .opts = opts };
	struct rusage ru;
	int rc;

	rsk_bare_end_init(&e, bare, opts->size_bytes);
	do {
		for (uint32_t i = 0; i < RSK_BARE_BATCH; i++) {
			rc = rsk_bare_take(&e, &said, child);
			if (rc)
				return rc;
		}
		now = rsk_monotonic_ns();
		if (begun)
			count += RSK_BARE_BATCH;
		else if (now >= from_ns)
			begun = now;
	} while (!begun || (opts->count ? count < opts->count :
					  now - begun < (uint64_t)(opts->time_s * 1e9)));
	getrusage(RUSAGE_SELF, &ru);
	r.seconds = (double)(now - begun) / 1e9;
	r.out_bytes = count * e.len;
	r.out_bytes_per_s = (double)r.out_bytes / r.seconds;
	r.cpu_user_s = (double)ru.ru_utime.tv_sec + (double)ru.ru_utime.tv_usec / 1e6;
	r.cpu_sys_s = (double)ru.ru_stime.tv_sec + (double)ru.ru_stime.tv_usec / 1e6;
	r.sleeps = (uint64_t)ru.ru_nvcsw;
	return rsk_report_limit(&r);
}

int rsk_limit_slots(const struct rsk_opts *opts)
{
	struct rsk_bare *bare = mmap(NULL, sizeof(*bare), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	pid_t parent = getpid(), child;
	int rc;

	if (bare == MAP_FAILED)
		return -errno;
	atomic_store(&bare->taken, RSK_BARE_FIRST);
	child = fork();
	if (child == 0)
		rsk_bare_put(opts, bare, parent);
	rc = child < 0 ? -errno : rsk_bare_measure(opts, bare, child);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	munmap(bare, sizeof(*bare));
	return rc;
}
