// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_registry.c - fuzzes the registry with any bytes as its file: posts and finds do no harm,
 * what is found is valid and was asked for, and an offer just posted is found.
 *
 * The first 8 bytes select the tuple, whether the header is corrected afterwards (otherwise hardly
 * an input would get past it), and whether entries get valid checksums. The rest is written over
 * the tuple's probe window and the header.
 */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GOOD_HEADER 1u
#define SEAL 2u
#define TRUNCATE 4u
#define IPV6 8u

static void require(bool what)
{
	if (!what)
		abort();
}

static char base[] = "/dev/shm/rsock-fuzz-XXXXXX";

static void clean_up(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/rsock-%u/registry", base, geteuid());
	unlink(path);
	snprintf(path, sizeof(path), "%s/rsock-%u", base, geteuid());
	rmdir(path);
	rmdir(base);
}

/* A registry that no other process has; its content persists between inputs. */
static struct rsk_registry *registry(void)
{
	static struct rsk_registry reg = { .fd = -1 };

	if (reg.fd < 0) {
		require(mkdtemp(base));
		require(atexit(clean_up) == 0);
		require(rsk_registry_open(&reg, base, NULL) == 0);
	}
	return &reg;
}

static struct rsk_tuple tuple_of(const uint8_t *steer)
{
	struct rsk_tuple t = {
		.netns = steer[1] & 1,
		.local_port = (uint16_t)(steer[2] + 1),
		.peer_port = 5201,
		.family = steer[0] & IPV6 ? AF_INET6 : AF_INET,
	};

	t.local[0] = 127;
	t.peer[0] = steer[3];
	t.scope = steer[4];
	return t;
}

static void check_found(const struct rsk_registry_entry *e, const struct rsk_tuple *asked)
{
	require(e->pid > 0 && e->fd >= 0 && rsk_tuple_equal(&e->tuple, asked));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t zero[RSK_REGISTRY_HEADER_BYTES];
	struct rsk_registry *reg = registry();
	struct rsk_registry_entry window[RSK_REGISTRY_PROBES] = { 0 }, e, offer;
	struct rsk_tuple mine, theirs;
	uint8_t steer[8] = { 0 };
	uint32_t place;
	size_t n;
	off_t at;

	if (size < sizeof(steer))
		return 0;
	memcpy(steer, data, sizeof(steer));
	data += sizeof(steer);
	size -= sizeof(steer);
	theirs = tuple_of(steer);
	mine = rsk_tuple_mirror(&theirs);

	place = rsk_registry_place(reg->key, &theirs);
	at = (off_t)(RSK_REGISTRY_HEADER_BYTES + (size_t)place * sizeof(e));
	n = size < sizeof(window) ? size : sizeof(window);
	memcpy(window, data, n);
	for (unsigned int i = 0; steer[0] & SEAL && i < RSK_REGISTRY_PROBES; i++) {
		/* Close enough to a valid one that the rest of the check is reached. */
		if (steer[5] >> i & 1)
			window[i].tuple = theirs;
		rsk_registry_seal(&window[i], reg->key, place + i);
	}
	require(pwrite(reg->fd, window, sizeof(window), at) == (ssize_t)sizeof(window));
	if (!(steer[0] & GOOD_HEADER) && size > n) {
		size_t m = size - n < sizeof(zero) ? size - n : sizeof(zero);

		require(pwrite(reg->fd, data + n, m, 0) == (ssize_t)m);
	}
	if (steer[0] & TRUNCATE)
		require(ftruncate(reg->fd, at + (off_t)steer[6] * 8) == 0);

	if (rsk_registry_find(reg, &mine, &e) == 0) {
		check_found(&e, &theirs);
		require(steer[0] & SEAL); /* a keyed checksum cannot be guessed */
	}
	offer = (struct rsk_registry_entry){
		.pid = 1 + steer[7],
		.fd = steer[6],
		.tuple = theirs,
		.nonce = 1,
		.posted_ns = UINT64_MAX,
	};
	require(rsk_registry_post(reg, &offer) == 0);
	require(rsk_registry_find(reg, &mine, &e) == 0);
	check_found(&e, &theirs);
	/* A forged entry with as late a time may have been kept as well; it is not removed. */
	if (e.nonce == 1)
		require(rsk_registry_withdraw(reg, &theirs, 1) == 0);
	return 0;
}
