/* SPDX-License-Identifier: BSD-2-Clause */
/* conf_build.h - from the file's text to what it means, section by section. Only conf*.c include this. */
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
	const struct rsk_discovered *found; /* RNICs that nobody has named, or NULL; borrowed */
	char *error;			    /* borrowed */
	size_t n;
	uint32_t *member_of; /* of a port: the aggregate that counted it last, and 1 */
};

/* Zeroes, the configuration's until it is freed; NULL: no memory. */
void *rsk_conf_alloc(struct rsk_conf *c, size_t n, size_t size);
char *rsk_conf_dup(struct rsk_conf *c, const char *text);

/* "WHERE: what is wrong". Returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int rsk_conf_wrong(struct rsk_conf_build *b,
							 const char *where, const char *fmt, ...);

/* Names are words: letters, digits, "._-", and "/" where @kind is a port. -EINVAL: bad, or there already. */
int rsk_conf_name(struct rsk_conf_build *b, enum rsk_conf_names kind, const char *where,
		  const char *name, uint32_t number);
/* An address is of one port, or of one aggregate. */
int rsk_conf_claim(struct rsk_conf_build *b, const char *where, const struct rsk_pm_addr *ip,
		   enum rsk_conf_owner owner, uint32_t number);

enum rsk_conf_kind {
	RSK_CONF_TIME, /* uint64_t, ns */
	RSK_CONF_RATE, /* uint64_t, bits in a second */
	RSK_CONF_U64,
	RSK_CONF_SIZE,
	RSK_CONF_U32,
	RSK_CONF_U16,
	RSK_CONF_U8,
};

/* A value of that kind, within bounds; NULL: *to stays as it is. */
int rsk_conf_take(struct rsk_conf_build *b, const char *where, const char *key, const char *text,
		  enum rsk_conf_kind kind, uint64_t least, uint64_t most, void *to);

int rsk_conf_take_prefixes(struct rsk_conf_build *b, const char *where, const char *key,
			   const struct rsk_raw_list *list, struct rsk_conf_prefix **out,
			   size_t *n);
int rsk_conf_take_ranges(struct rsk_conf_build *b, const char *where, const char *key,
			 const struct rsk_raw_list *list, struct rsk_conf_range **out, size_t *n);
/* IP:port; NULL: *out stays as it is. */
int rsk_conf_take_addr(struct rsk_conf_build *b, const char *where, const char *text,
		       struct rsk_pm_addr *out);
/* A user's name or number. 0 or -EINVAL. Reads the system's list of users. */
int rsk_conf_user(const char *name, uint32_t *uid);
int rsk_conf_take_limits(struct rsk_conf_build *b, const char *where,
			 const struct rsk_raw_limits *raw, struct rsk_conf_limits *out);

/* So many conditions at the most are made of it, itself included; NULL: it always holds. */
size_t rsk_conf_count_when(const struct rsk_raw_when *w);
/* Behind those that are there already: all of a mapping's keys hold. */
int rsk_conf_take_when(struct rsk_conf_build *b, const char *where, const struct rsk_raw_when *w);

int rsk_conf_build_daemon(struct rsk_conf_build *b);
int rsk_conf_build_pma(struct rsk_conf_build *b); /* after the daemon */
int rsk_conf_build_devices(struct rsk_conf_build *b);
int rsk_conf_build_services(struct rsk_conf_build *b);
int rsk_conf_build_rules(struct rsk_conf_build *b);

#endif
