// SPDX-License-Identifier: BSD-2-Clause
/* conf_vouch.c - reads the section about users that may share memory. conf_daemon.c calls it. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf_build.h"
#include "conf_value.h"

#define GROUP_BYTES_MOST (4u << 20)

static bool has(const struct rsk_conf_vouch *v, uint32_t uid)
{
	for (size_t i = 0; i < v->n_users; i++)
		if (v->users[i] == uid)
			return true;
	return false;
}

/* The group's entry in the system's list, in a buffer that the caller frees. 0 or -errno. */
static int find_group(const char *name, struct group *gr, char **buf)
{
	struct group *found = NULL;
	size_t bytes = 4096;
	uint64_t gid;
	int rc;

	for (*buf = NULL;; bytes *= 4) {
		char *more = realloc(*buf, bytes);

		if (!more)
			return -ENOMEM;
		*buf = more;
		if (rsk_conf_number(name, &gid) == 0)
			rc = gid < UINT32_MAX ? getgrgid_r((gid_t)gid, gr, *buf, bytes, &found) : 0;
		else
			rc = getgrnam_r(name, gr, *buf, bytes, &found);
		if (rc != ERANGE || bytes >= GROUP_BYTES_MOST)
			return found ? 0 : -ENOENT;
	}
}

/*
 * Adds the members that the list names, as they are now; a name of no user is left out: it may be
 * one that was removed.
 */
static int add_members(struct rsk_conf *c, const struct group *gr, struct rsk_conf_vouch *to)
{
	size_t n = 0;
	uint32_t *users, uid;

	while (gr->gr_mem[n])
		n++;
	users = rsk_conf_alloc(c, to->n_users + n, sizeof(*users));
	if (!users)
		return -ENOMEM;
	if (to->n_users)
		memcpy(users, to->users, to->n_users * sizeof(*users));
	to->users = users;
	for (size_t i = 0; i < n; i++)
		if (rsk_conf_user(gr->gr_mem[i], &uid) == 0 && !has(to, uid))
			to->users[to->n_users++] = uid;
	return 0;
}

static int take_groups(struct rsk_conf_build *b, const struct rsk_raw_list *list,
		       struct rsk_conf_vouch *to)
{
	int rc = 0;

	for (size_t i = 0; i < list->n && rc == 0; i++) {
		struct group gr;
		char *buf;

		rc = find_group(list->v[i], &gr, &buf);
		if (rc == 0)
			rc = add_members(b->c, &gr, to);
		free(buf);
		if (rc == -ENOENT)
			return rsk_conf_wrong(b, "vouch", "groups: there is no group \"%s\"",
					      list->v[i]);
	}
	return rc;
}

static int take_users(struct rsk_conf_build *b, const struct rsk_raw_list *list,
		      struct rsk_conf_vouch *to)
{
	to->users = rsk_conf_alloc(b->c, list->n, sizeof(*to->users));
	if (list->n && !to->users)
		return -ENOMEM;
	for (; to->n_users < list->n; to->n_users++) {
		const char *name = list->v[to->n_users];

		to->users[to->n_users] = RSK_CONF_ANY_USER;
		if (strcmp(name, "any") != 0 && rsk_conf_user(name, &to->users[to->n_users]) < 0)
			return rsk_conf_wrong(b, "vouch", "users: there is no user \"%s\"", name);
	}
	return 0;
}

/* Without users or groups the entry names all users. */
static int take_cgroups(struct rsk_conf_build *b, const struct rsk_raw_list *list,
			struct rsk_conf_vouch *to)
{
	if (!list->n)
		return 0;
	to->cgroups = rsk_conf_alloc(b->c, list->n, sizeof(*to->cgroups));
	if (!to->cgroups)
		return -ENOMEM;
	for (; to->n_cgroups < list->n; to->n_cgroups++) {
		const char *pattern = list->v[to->n_cgroups];

		if (pattern[0] != '/')
			return rsk_conf_wrong(b, "vouch",
					      "cgroups: \"%s\" does not begin with \"/\"", pattern);
		to->cgroups[to->n_cgroups] = rsk_conf_dup(b->c, pattern);
		if (!to->cgroups[to->n_cgroups])
			return -ENOMEM;
	}
	return 0;
}

static int take_any_user(struct rsk_conf_build *b, struct rsk_conf_vouch *to)
{
	to->users = rsk_conf_alloc(b->c, 1, sizeof(*to->users));
	if (!to->users)
		return -ENOMEM;
	to->users[to->n_users++] = RSK_CONF_ANY_USER;
	return 0;
}

int rsk_conf_take_vouch(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc = 0;

	d->vouch = rsk_conf_alloc(b->c, raw->n_vouch, sizeof(*d->vouch));
	if (raw->n_vouch && !d->vouch)
		return -ENOMEM;
	for (; d->n_vouch < raw->n_vouch && rc == 0; d->n_vouch++) {
		const struct rsk_raw_vouch *from = &raw->vouch[d->n_vouch];
		struct rsk_conf_vouch *to = &d->vouch[d->n_vouch];

		bool everybody = !from->users.n && !from->groups.n;

		if (everybody && !from->cgroups.n)
			return rsk_conf_wrong(b, "vouch",
					      "an entry needs users, groups or cgroups");
		rc = rsk_conf_take_ranges(b, "vouch", "ports", &from->ports, &to->ports,
					  &to->n_ports);
		if (rc == 0)
			rc = take_users(b, &from->users, to);
		if (rc == 0)
			rc = take_groups(b, &from->groups, to);
		if (rc == 0)
			rc = take_cgroups(b, &from->cgroups, to);
		if (rc == 0 && everybody)
			rc = take_any_user(b, to);
	}
	return rc;
}
