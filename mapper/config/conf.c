// SPDX-License-Identifier: BSD-2-Clause
/* conf.c - see conf.h: names, addresses, and the value conversions that all sections share. */
#include "conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf_build.h"
#include "conf_value.h"
#include "pm_hash.h"

struct rsk_conf_target {
	struct rsk_pm_addr addr;
	enum rsk_conf_owner owner;
	uint32_t number;
	UT_hash_handle hh;
};

struct rsk_conf_name {
	const char *name;
	uint32_t number;
	UT_hash_handle hh;
};

struct rsk_conf_block {
	struct rsk_conf_block *next;
	_Alignas(16) char bytes[];
};

void *rsk_conf_alloc(struct rsk_conf *c, size_t n, size_t size)
{
	struct rsk_conf_block *block;
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
		return NULL;
	block = calloc(1, sizeof(*block) + (bytes ? bytes : 1));
	if (!block)
		return NULL;
	block->next = c->blocks;
	c->blocks = block;
	return block->bytes;
}

char *rsk_conf_dup(struct rsk_conf *c, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = rsk_conf_alloc(c, bytes, 1);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

int rsk_conf_wrong(struct rsk_conf_build *b, const char *where, const char *fmt, ...)
{
	int used = snprintf(b->error, b->n, "%s: ", where);
	va_list args;

	if (used > 0 && (size_t)used < b->n) {
		va_start(args, fmt);
		vsnprintf(b->error + used, b->n - (size_t)used, fmt, args);
		va_end(args);
	}
	return -EINVAL;
}

/* ---- names and addresses ---- */

uint32_t rsk_conf_find(const struct rsk_conf *c, enum rsk_conf_names kind, const char *name)
{
	struct rsk_conf_name *at;

	HASH_FIND(hh, c->names[kind], name, strlen(name), at);
	return at ? at->number : RSK_CONF_NONE;
}

int rsk_conf_name(struct rsk_conf_build *b, enum rsk_conf_names kind, const char *where,
		  const char *name, uint32_t number)
{
	struct rsk_conf_name *at;

	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p) &&
		    !(kind == RSK_CONF_PORTS && *p == '/'))
			return rsk_conf_wrong(b, where,
					      "name \"%s\": only letters, digits, '.', '_', '-'",
					      name);
	if (!*name)
		return rsk_conf_wrong(b, where, "name: empty");
	if (rsk_conf_find(b->c, kind, name) != RSK_CONF_NONE)
		return rsk_conf_wrong(b, where, "name \"%s\": there is another of this name", name);
	at = rsk_conf_alloc(b->c, 1, sizeof(*at));
	if (!at || !(at->name = rsk_conf_dup(b->c, name)))
		return -ENOMEM;
	at->number = number;
	HASH_ADD_KEYPTR(hh, b->c->names[kind], at->name, strlen(at->name), at);
	return 0;
}

static struct rsk_conf_target *target_of(const struct rsk_conf *c, const struct rsk_pm_addr *ip)
{
	struct rsk_conf_target *t;

	HASH_FIND(hh, c->targets, ip, sizeof(*ip), t);
	return t;
}

int rsk_conf_claim(struct rsk_conf_build *b, const char *where, const struct rsk_pm_addr *ip,
		   enum rsk_conf_owner owner, uint32_t number)
{
	struct rsk_conf_target *t;

	if (target_of(b->c, ip))
		return rsk_conf_wrong(b, where, "the address is another one's already");
	t = rsk_conf_alloc(b->c, 1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct rsk_conf_target){ .addr = *ip, .owner = owner, .number = number };
	HASH_ADD(hh, b->c->targets, addr, sizeof(t->addr), t);
	return 0;
}

enum rsk_conf_owner rsk_conf_owner_of(const struct rsk_conf *c, uint8_t ipv,
				      const uint8_t ip[static 16], uint32_t *number)
{
	struct rsk_pm_addr a = { .ipv = ipv };
	const struct rsk_conf_target *t;

	memcpy(a.ip, ip, 16);
	t = target_of(c, &a);
	if (!t)
		return RSK_CONF_NOBODYS;
	*number = t->number;
	return t->owner;
}

const uint32_t *rsk_conf_port_at(const struct rsk_conf *c, uint8_t ipv, const uint8_t ip[static 16])
{
	struct rsk_pm_addr a = { .ipv = ipv };
	const struct rsk_conf_target *t;

	memcpy(a.ip, ip, 16);
	t = target_of(c, &a);
	return t && t->owner == RSK_CONF_PORTS_OWN ? &t->number : NULL;
}

bool rsk_conf_within(const struct rsk_conf_prefix *p, uint8_t ipv, const uint8_t ip[static 16])
{
	unsigned int whole = p->bits / 8u, rest = p->bits % 8u;

	if (p->ipv != ipv || memcmp(p->ip, ip, whole) != 0)
		return false;
	return !rest || !((p->ip[whole] ^ ip[whole]) >> (8 - rest));
}

/* ---- values ---- */

static const struct {
	int (*read)(const char *text, uint64_t *out);
	const char *wanted;
} kinds[] = {
	[RSK_CONF_TIME] = { rsk_conf_time, "a time, such as 500ms, 10s or 2min" },
	[RSK_CONF_RATE] = { rsk_conf_rate, "a rate, such as 100Mbit or 25Gbit" },
	[RSK_CONF_U64] = { rsk_conf_number, "a number" },
	[RSK_CONF_SIZE] = { rsk_conf_number, "a number" },
	[RSK_CONF_U32] = { rsk_conf_number, "a number" },
	[RSK_CONF_U16] = { rsk_conf_number, "a number" },
	[RSK_CONF_U8] = { rsk_conf_number, "a number" },
};

int rsk_conf_take(struct rsk_conf_build *b, const char *where, const char *key, const char *text,
		  enum rsk_conf_kind kind, uint64_t least, uint64_t most, void *to)
{
	uint64_t v;

	if (!text)
		return 0;
	if (kinds[kind].read(text, &v) < 0)
		return rsk_conf_wrong(b, where, "%s: \"%s\" is not %s", key, text,
				      kinds[kind].wanted);
	if (v < least || v > most) {
		const char *unit = kind == RSK_CONF_TIME ? " ns" :
				   kind == RSK_CONF_RATE ? " bit/s" :
							   "";

		return rsk_conf_wrong(b, where, "%s: \"%s\" is not within %llu and %llu%s", key,
				      text, (unsigned long long)least, (unsigned long long)most,
				      unit);
	}
	switch (kind) {
	case RSK_CONF_SIZE:
		*(size_t *)to = v;
		break;
	case RSK_CONF_U32:
		*(uint32_t *)to = (uint32_t)v;
		break;
	case RSK_CONF_U16:
		*(uint16_t *)to = (uint16_t)v;
		break;
	case RSK_CONF_U8:
		*(uint8_t *)to = (uint8_t)v;
		break;
	default:
		*(uint64_t *)to = v;
	}
	return 0;
}

int rsk_conf_take_text(struct rsk_conf_build *b, const char *where, const char *key,
		       const char *text, bool is_path, const char **out)
{
	if (!text)
		return 0;
	if (!*text)
		return rsk_conf_wrong(b, where, "%s: empty", key);
	if (is_path && *text != '/')
		return rsk_conf_wrong(b, where, "%s: \"%s\" is not an absolute path", key, text);
	*out = rsk_conf_dup(b->c, text);
	return *out ? 0 : -ENOMEM;
}

int rsk_conf_take_prefixes(struct rsk_conf_build *b, const char *where, const char *key,
			   const struct rsk_raw_list *list, struct rsk_conf_prefix **out, size_t *n)
{
	*out = rsk_conf_alloc(b->c, list->n, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (*n = 0; *n < list->n; ++*n)
		if (rsk_conf_prefix(list->v[*n], &(*out)[*n]) < 0)
			return rsk_conf_wrong(b, where,
					      "%s: \"%s\" is not an address, with or without a "
					      "prefix length (no bits may be set behind it)",
					      key, list->v[*n]);
	return 0;
}

int rsk_conf_take_ranges(struct rsk_conf_build *b, const char *where, const char *key,
			 const struct rsk_raw_list *list, struct rsk_conf_range **out, size_t *n)
{
	*out = rsk_conf_alloc(b->c, list->n, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (*n = 0; *n < list->n; ++*n)
		if (rsk_conf_range(list->v[*n], &(*out)[*n]) < 0)
			return rsk_conf_wrong(b, where,
					      "%s: \"%s\" is not a port or a range of ports", key,
					      list->v[*n]);
	return 0;
}

int rsk_conf_take_limits(struct rsk_conf_build *b, const char *where,
			 const struct rsk_raw_limits *raw, struct rsk_conf_limits *out)
{
	int rc;

	if (!raw)
		return 0;
	rc = rsk_conf_take(b, where, "limits.sessions", raw->sessions, RSK_CONF_U32, 1,
			   UINT32_MAX - 1, &out->sessions);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "limits.per-cp", raw->per_cp, RSK_CONF_U32, 1,
				   UINT32_MAX - 1, &out->per_cp);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "limits.per-user", raw->per_user, RSK_CONF_U32, 1,
				   UINT32_MAX - 1, &out->per_user);
	return rc;
}

/* ---- freeing ---- */

void rsk_conf_free(struct rsk_conf *c)
{
	struct rsk_conf_block *next;

	if (!c)
		return;
	/* The hash tables are cleared; their elements are in the blocks. */
	for (int i = 0; i < RSK_CONF_NAMES; i++)
		HASH_CLEAR(hh, c->names[i]);
	HASH_CLEAR(hh, c->targets);
	for (struct rsk_conf_block *b = c->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c);
}
