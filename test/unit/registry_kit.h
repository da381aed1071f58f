/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry_kit.h - shared by the tests of the registry: a registry of their own, and offers for it.
 */
#ifndef RSK_TEST_REGISTRY_KIT_H
#define RSK_TEST_REGISTRY_KIT_H

#include "registry.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NONCE UINT64_C(0x1122334455667788)

static char base[64];

static inline void setup(void)
{
	strcpy(base, "/tmp/rsock-test-XXXXXX");
	cr_assert(mkdtemp(base));
}

static inline void path_of(char out[static 160], const char *name)
{
	snprintf(out, 160, "%s/rsock-%u%s%s", base, geteuid(), *name ? "/" : "", name);
}

static inline void teardown(void)
{
	char path[160];

	path_of(path, "registry");
	unlink(path);
	rmdir(path);
	path_of(path, "");
	rmdir(path);
	unlink(path);
	rmdir(base);
}

static inline struct rsk_tuple tuple_of(unsigned int n)
{
	struct rsk_tuple t = {
		.netns = 4026531840u,
		.local = { 127, 0, 0, 1 },
		.peer = { 127, 0, (uint8_t)(n >> 8), 1 },
		.local_port = (uint16_t)(1024 + n % 60000),
		.peer_port = 5201,
		.family = AF_INET,
	};

	return t;
}

static inline struct rsk_registry_entry offer_of(unsigned int n, uint64_t now_ns)
{
	struct rsk_registry_entry e = {
		.pid = (uint32_t)getpid(),
		.fd = (int)n + 3,
		.tuple = tuple_of(n),
		.sock_cookie = n + 1000,
		.nonce = NONCE + n,
		.posted_ns = now_ns,
		.user = n,
	};

	return e;
}

static inline struct rsk_registry opened(void)
{
	struct rsk_registry reg;

	cr_assert_eq(rsk_registry_open(&reg, base, NULL), 0);
	return reg;
}

static inline int find(struct rsk_registry *reg, unsigned int n, struct rsk_registry_entry *out)
{
	struct rsk_tuple mirror = tuple_of(n);

	mirror = rsk_tuple_mirror(&mirror);
	return rsk_registry_find(reg, &mirror, out);
}

static inline int post(struct rsk_registry *reg, unsigned int n, uint64_t now_ns)
{
	struct rsk_registry_entry e = offer_of(n, now_ns);

	return rsk_registry_post(reg, &e);
}

/* Opens the registry's file directly, without the registry's code. */
static inline int raw_open(void)
{
	char path[160];
	int fd;

	path_of(path, "registry");
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

#endif /* RSK_TEST_REGISTRY_KIT_H */
