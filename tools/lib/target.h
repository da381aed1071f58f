/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target.h - the argument of rsock why, demote and promote: a process, one of its descriptors, or
 * an address.
 */
#ifndef RSK_TOOLS_TARGET_H
#define RSK_TOOLS_TARGET_H

#include <rsock/tuple.h>
#include <sys/types.h>

enum target_kind {
	TARGET_PID,
	TARGET_FD,
	TARGET_ADDRESS,
};

struct target {
	enum target_kind kind;
	pid_t pid;
	int fd;
	char host[256]; /* "" or "*": any address */
	uint16_t port;
};

/*
 * Parses "123", "7@123", "123:7", "HOST:PORT", "[V6]:PORT", ":PORT" or "*:PORT". 0 or -EINVAL.
 * Pure: it resolves nothing.
 */
int target_parse(const char *text, struct target *out);

#define TARGET_ADDRESSES 16

/* Canonical addresses, as in struct rsk_tuple: v4-mapped ones as IPv4. */
struct addresses {
	struct {
		uint16_t family;
		uint8_t addr[16];
	} at[TARGET_ADDRESSES];
	size_t count;
	bool any;
};

/* Resolves a host's name. 0 or an error of getaddrinfo(3). */
int addresses_resolve(const char *host, struct addresses *out);
bool addresses_have(const struct addresses *all, uint16_t family, const uint8_t addr[static 16]);

#endif /* RSK_TOOLS_TARGET_H */
