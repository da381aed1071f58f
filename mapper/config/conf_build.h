/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_build.h - converts the parsed file to struct rsk_conf, section by section. Only conf*.c
 * include this.
 */
#ifndef RSK_CONF_BUILD_H
#define RSK_CONF_BUILD_H

#include "conf.h"
#include "conf_schema.h"
#include "discover.h"

#define RSK_CONF_WHERE 256
#define RSK_CONF_RATE_MOST 1000000000000000u /* a thousand Tbit/s */

struct rsk_conf_build {
	struct rsk_conf *c;
	const struct rsk_raw_conf *raw;
	/* Discovered RNICs, or NULL; borrowed */
	const struct rsk_discovered *found;
	/* The first aggregates of @raw are the host's own; the others are the cluster's */
	unsigned int own_aggregates;
	char *error; /* borrowed */
	size_t n;
	/* For each port: the aggregate that counted it last, + 1 */
	uint32_t *member_of;
};

/* Returns zeroed memory that is freed with the configuration; NULL: no memory. */
void *rsk_conf_alloc(struct rsk_conf *c, size_t n, size_t size);
char *rsk_conf_dup(struct rsk_conf *c, const char *text);

/* Writes "WHERE: what is wrong". Returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int rsk_conf_wrong(struct rsk_conf_build *b,
							 const char *where, const char *fmt, ...);

/*
 * Adds a name: letters, digits, "._-", and "/" if @kind is a port. Returns 0; -EINVAL: bad, or not
 * unique; -ENOMEM.
 */
int rsk_conf_name(struct rsk_conf_build *b, enum rsk_conf_names kind, const char *where,
		  const char *name, uint32_t number);
/* Records the owner of an address. It has only one: a port or an aggregate. */
int rsk_conf_claim(struct rsk_conf_build *b, const char *where, const struct rsk_pm_addr *ip,
		   enum rsk_conf_owner owner, uint32_t number);

enum rsk_conf_kind {
	RSK_CONF_TIME, /* uint64_t, ns */
	RSK_CONF_RATE, /* uint64_t, bits per second */
	RSK_CONF_U64,
	RSK_CONF_SIZE,
	RSK_CONF_U32,
	RSK_CONF_U16,
	RSK_CONF_U8,
};

/* Stores the value in *to, checked against the bounds; text NULL: *to is unchanged. */
int rsk_conf_take(struct rsk_conf_build *b, const char *where, const char *key, const char *text,
		  enum rsk_conf_kind kind, uint64_t least, uint64_t most, void *to);

/* Stores a copy in *out; text NULL: *out is unchanged. @is_path: it has to be absolute. */
int rsk_conf_take_text(struct rsk_conf_build *b, const char *where, const char *key,
		       const char *text, bool is_path, const char **out);

int rsk_conf_take_prefixes(struct rsk_conf_build *b, const char *where, const char *key,
			   const struct rsk_raw_list *list, struct rsk_conf_prefix **out,
			   size_t *n);
int rsk_conf_take_ranges(struct rsk_conf_build *b, const char *where, const char *key,
			 const struct rsk_raw_list *list, struct rsk_conf_range **out, size_t *n);
/* IP:port; NULL: *out is unchanged. */
int rsk_conf_take_addr(struct rsk_conf_build *b, const char *where, const char *text,
		       struct rsk_pm_addr *out);
/* The same, or "cluster": *by_role. */
int rsk_conf_take_central(struct rsk_conf_build *b, const char *where, const char *text,
			  struct rsk_pm_addr *out, bool *by_role);
/* Converts a user's name or number. Returns 0 or -EINVAL. Reads the system's list of users. */
int rsk_conf_user(const char *name, uint32_t *uid);
/* The key vouch. Reads the system's lists of users and groups. */
int rsk_conf_take_vouch(struct rsk_conf_build *b);
int rsk_conf_take_limits(struct rsk_conf_build *b, const char *where,
			 const struct rsk_raw_limits *raw, struct rsk_conf_limits *out);

/*
 * Returns an upper bound of the conditions that are made of it, including its root; NULL: the
 * condition that always holds.
 */
size_t rsk_conf_count_when(const struct rsk_raw_when *w);
/* Appends the conditions: all keys of a mapping must hold. */
int rsk_conf_take_when(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w);

int rsk_conf_build_daemon(struct rsk_conf_build *b);
int rsk_conf_build_pma(struct rsk_conf_build *b); /* after the daemon */
int rsk_conf_build_cluster(struct rsk_conf_build *b);
int rsk_conf_build_devices(struct rsk_conf_build *b);
int rsk_conf_build_services(struct rsk_conf_build *b);
int rsk_conf_build_rules(struct rsk_conf_build *b);

#endif
