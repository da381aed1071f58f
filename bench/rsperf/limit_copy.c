/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit_copy.c - rsperf limit --copy: the limit of throughput, one copy by the kernel of another
 * process's bytes. With --hash it is the cost of a transfer without copies of ours: the owner
 * hashes a message and announces it; the other process copies it, hashes the copy and answers; then
 * the owner continues, as a blocking sender would.
 */
#include <errno.h>
#include <hdr_histogram.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "report.h"
#include "rsperf.h"

#define RSK_COPY_MARK 0x5a
#define RSK_COPY_SEED 42

/* Shared by the two processes; a cache line for each writer. */
struct rsk_copy_turns {
	_Alignas(64) _Atomic uint32_t
		told;  /* number of the message that is ready; stored by its owner with release */
	uint64_t hash; /* its hash; written before told, read after it */
	_Alignas(64) _Atomic uint32_t
		taken; /* number of the newest message copied; stored by the reader with release */
};

/* Each message differs from the one before, so that an old copy cannot pass for it. */
static _Noreturn void rsk_copy_tell(const struct rsk_opts *opts, uint8_t *from,
				    struct rsk_copy_turns *turns)
{
	struct rsk_key key;

	rsk_key_init(&key, RSK_COPY_SEED);
	for (uint32_t turn = 1;; turn++) {
		from[opts->size_bytes / 2] = (uint8_t)turn;
		turns->hash = rsk_hash_payload(&key, from, (uint32_t)opts->size_bytes);
		atomic_store_explicit(&turns->told, turn, memory_order_release);
		while (atomic_load_explicit(&turns->taken, memory_order_acquire) != turn)
			;
	}
}

static int rsk_copy_take(const struct rsk_opts *opts, const struct rsk_key *key, pid_t child,
			 uint8_t *from, uint8_t *to, struct rsk_copy_turns *turns)
{
	struct iovec local = { to, (size_t)opts->size_bytes };
	struct iovec remote = { from, (size_t)opts->size_bytes };
	uint32_t turn = atomic_load_explicit(&turns->taken, memory_order_relaxed) + 1;
	ssize_t n;

	while (opts->hash && atomic_load_explicit(&turns->told, memory_order_acquire) != turn)
		;
	n = process_vm_readv(child, &local, 1, &remote, 1, 0);
	if (n != (ssize_t)opts->size_bytes)
		return n < 0 ? -errno : -EIO;
	if (!opts->hash)
		return 0;
	if (rsk_hash_payload(key, to, (uint32_t)opts->size_bytes) != turns->hash)
		return -EBADMSG;
	atomic_store_explicit(&turns->taken, turn, memory_order_release);
	return 0;
}

static _Noreturn void rsk_copy_child(const struct rsk_opts *opts, uint8_t *from,
				     struct rsk_copy_turns *turns, int ready, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || rsk_pin_thread(opts, 1))
		_exit(1);
	/* Gives the process pages of its own. */
	memset(from, RSK_COPY_MARK, (size_t)opts->size_bytes);
	if (write(ready, "", 1) != 1)
		_exit(1);
	if (opts->hash)
		rsk_copy_tell(opts, from, turns);
	for (;;)
		pause();
}

static int rsk_copy_measure(const struct rsk_opts *opts, pid_t child, uint8_t *from, uint8_t *to,
			    struct rsk_copy_turns *turns)
{
	size_t size = (size_t)opts->size_bytes;
	struct rsk_key key;
	struct rsk_report r = { .opts = opts };
	struct hdr_histogram *times = NULL;
	uint64_t begun = rsk_monotonic_ns(), now;
	uint64_t from_ns = begun + (uint64_t)(opts->warmup_s * 1e9);
	uint64_t until_ns = from_ns + (uint64_t)(opts->time_s * 1e9);
	int rc = 0;

	if (hdr_init(1, 60 * (int64_t)RSK_NS_PER_S, 3, &times))
		return -ENOMEM;
	rsk_key_init(&key, RSK_COPY_SEED);
	do {
		rc = rsk_copy_take(opts, &key, child, from, to, turns);
		if (rc)
			goto out;
		now = rsk_monotonic_ns();
		if (begun >= from_ns)
			hdr_record_value(times, (int64_t)(now - begun));
		begun = now;
	} while (opts->count ? (uint64_t)times->total_count < opts->count :
			       now < until_ns || !times->total_count);
	if (!opts->hash && (to[0] != RSK_COPY_MARK || to[size - 1] != RSK_COPY_MARK)) {
		rc = -EBADMSG;
		goto out;
	}
	r.seconds = (double)(now - from_ns) / 1e9;
	r.times = times;
	rc = rsk_report_limit(&r);
out:
	hdr_close(times);
	return rc;
}

int rsk_limit_copy(const struct rsk_opts *opts)
{
	size_t size = (size_t)opts->size_bytes;
	uint8_t *both =
		mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rsk_copy_turns *turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	int ready[2], rc;
	char byte;

	if (both == MAP_FAILED || turns == MAP_FAILED)
		return -errno; /* the caller then ends this process */
	if (pipe(ready) < 0) {
		rc = -errno;
		goto out_map;
	}
	child = fork();
	if (child == 0)
		rsk_copy_child(opts, both, turns, ready[1], parent);
	close(ready[1]);
	if (child < 0) {
		rc = -errno;
		goto out_pipe;
	}
	memset(both + size, 0, size);
	rc = read(ready[0], &byte, 1) == 1 ?
		     rsk_copy_measure(opts, child, both, both + size, turns) :
		     -ECHILD;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
out_pipe:
	close(ready[0]);
out_map:
	munmap(both, 2 * size);
	munmap(turns, sizeof(*turns));
	return rc;
}
