/* SPDX-License-Identifier: BSD-2-Clause */
/* The floor under throughput: bytes of another process, copied once by the kernel. */
#include <errno.h>
#include <hdr_histogram.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"
#include "rsperf.h"

#define RSK_COPY_MARK 0x5a

static _Noreturn void rsk_copy_child(const struct rsk_opts *opts, uint8_t *from, int ready,
				     pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || rsk_pin_thread(opts, 1))
		_exit(1);
	memset(from, RSK_COPY_MARK, (size_t)opts->size_bytes); /* from here on its own pages */
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static int rsk_copy_measure(const struct rsk_opts *opts, pid_t child, uint8_t *from, uint8_t *to)
{
	size_t size = (size_t)opts->size_bytes;
	struct iovec local = { to, size }, remote = { from, size };
	struct rsk_report r = { .opts = opts };
	struct hdr_histogram *times = NULL;
	uint64_t begun = rsk_now_ns(), now;
	uint64_t from_ns = begun + (uint64_t)(opts->warmup_s * 1e9);
	uint64_t until_ns = from_ns + (uint64_t)(opts->time_s * 1e9);
	int rc = 0;

	if (hdr_init(1, 60 * (int64_t)RSK_NS_PER_S, 3, &times))
		return -ENOMEM;
	do {
		ssize_t n = process_vm_readv(child, &local, 1, &remote, 1, 0);

		if (n != (ssize_t)size) {
			rc = n < 0 ? -errno : -EIO;
			goto out;
		}
		now = rsk_now_ns();
		if (begun >= from_ns)
			hdr_record_value(times, (int64_t)(now - begun));
		begun = now;
	} while (opts->count ? (uint64_t)times->total_count < opts->count : now < until_ns);
	if (to[0] != RSK_COPY_MARK || to[size - 1] != RSK_COPY_MARK) {
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
	pid_t parent = getpid(), child;
	int ready[2], rc;
	char byte;

	if (both == MAP_FAILED)
		return -errno;
	if (pipe(ready) < 0) {
		rc = -errno;
		goto out_map;
	}
	child = fork();
	if (child == 0)
		rsk_copy_child(opts, both, ready[1], parent);
	close(ready[1]);
	if (child < 0) {
		rc = -errno;
		goto out_pipe;
	}
	memset(both + size, 0, size);
	rc = read(ready[0], &byte, 1) == 1 ? rsk_copy_measure(opts, child, both, both + size) :
					     -ECHILD;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
out_pipe:
	close(ready[0]);
out_map:
	munmap(both, 2 * size);
	return rc;
}
