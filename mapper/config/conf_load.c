// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_load.c - see conf.h: loads a configuration from a file or from text, one section after the
 * other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf_build.h"

#define MOST_BYTES (64 << 20)

static int build(struct rsk_conf_build *b)
{
	static int (*const sections[])(struct rsk_conf_build *) = {
		rsk_conf_build_daemon,	rsk_conf_build_pma,	 rsk_conf_build_cluster,
		rsk_conf_build_devices, rsk_conf_build_services, rsk_conf_build_rules,
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(sections) / sizeof(sections[0]); i++)
		rc = sections[i](b);
	return rc;
}

static int make(const struct rsk_raw_conf *raw, unsigned int own_aggregates,
		const struct rsk_discovered *found, struct rsk_conf **out, char *error, size_t n)
{
	struct rsk_conf_build b = {
		.raw = raw, .own_aggregates = own_aggregates, .found = found, .error = error, .n = n
	};
	int rc;

	b.c = calloc(1, sizeof(*b.c));
	rc = b.c ? build(&b) : -ENOMEM;
	if (rc == -ENOMEM)
		snprintf(error, n, "no memory");
	if (rc < 0)
		rsk_conf_free(b.c);
	else
		*out = b.c;
	return rc;
}

/* Builds @own, with @shared (NULL: none) over it. */
static int make_both(const struct rsk_raw_conf *own, const struct rsk_raw_conf *shared,
		     const struct rsk_discovered *found, struct rsk_conf **out, char *error,
		     size_t n)
{
	struct rsk_raw_conf both = *own;
	struct rsk_raw_aggregate *all;
	int rc;

	if (!shared)
		return make(own, own->n_aggregates, found, out, error, n);
	all = calloc((size_t)own->n_aggregates + shared->n_aggregates + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	if (own->n_aggregates)
		memcpy(all, own->aggregates, own->n_aggregates * sizeof(*all));
	if (shared->n_aggregates)
		memcpy(all + own->n_aggregates, shared->aggregates,
		       shared->n_aggregates * sizeof(*all));
	both.aggregates = all;
	both.n_aggregates += shared->n_aggregates;
	both.services = shared->services;
	both.n_services = shared->n_services;
	both.functions = shared->functions;
	both.n_functions = shared->n_functions;
	both.rules = shared->rules;
	both.n_rules = shared->n_rules;
	rc = make(&both, own->n_aggregates, found, out, error, n);
	free(all);
	return rc;
}

static int parse_document(const char *text, size_t len, struct rsk_raw_conf **out, char *error,
			  size_t n)
{
	int rc = rsk_raw_parse_document(text, len, out, error, n);

	if (rc == 0 && !*out) {
		snprintf(error, n, "the document is empty");
		rc = -EINVAL;
	}
	return rc;
}

int rsk_conf_parse_shared(const char *text, size_t len, const char *document, size_t document_len,
			  const struct rsk_discovered *found, struct rsk_conf **out, char *error,
			  size_t n)
{
	static const struct rsk_raw_conf nothing;
	struct rsk_raw_conf *own, *shared = NULL;
	int rc;

	if (n)
		*error = 0;
	rc = rsk_raw_parse(text, len, &own, error, n);
	if (rc == 0 && document)
		rc = parse_document(document, document_len, &shared, error, n);
	if (rc == 0)
		rc = make_both(own ? own : &nothing, shared, found, out, error, n);
	if (own)
		rsk_raw_free(own);
	if (shared)
		rsk_raw_free(shared);
	return rc;
}

int rsk_conf_parse_with(const char *text, size_t len, const struct rsk_discovered *found,
			struct rsk_conf **out, char *error, size_t n)
{
	return rsk_conf_parse_shared(text, len, NULL, 0, found, out, error, n);
}

int rsk_conf_parse(const char *text, size_t len, struct rsk_conf **out, char *error, size_t n)
{
	return rsk_conf_parse_with(text, len, NULL, out, error, n);
}

int rsk_conf_default(struct rsk_conf **out)
{
	char error[1];

	return rsk_conf_parse("", 0, out, error, sizeof(error));
}

static int read_whole(const char *path, char **text, size_t *len)
{
	struct stat st;
	FILE *f = fopen(path, "re");
	int rc = 0;

	*text = NULL;
	if (!f)
		return -errno;
	if (fstat(fileno(f), &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES)
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EFBIG;
	else if (!(*text = malloc((size_t)st.st_size + 1)))
		rc = -ENOMEM;
	if (rc == 0) {
		*len = fread(*text, 1, (size_t)st.st_size, f);
		rc = ferror(f) ? -EIO : 0;
	}
	fclose(f);
	return rc;
}

int rsk_conf_read(const char *path, char **text, size_t *len, char *error, size_t n)
{
	int rc;

	*len = 0;
	rc = read_whole(path, text, len);
	if (rc < 0) {
		snprintf(error, n, "%s: %s", path, strerror(-rc));
		free(*text);
		*text = NULL;
	}
	return rc;
}

int rsk_conf_load(const char *path, struct rsk_conf **out, char *error, size_t n)
{
	char *text, why[1024];
	size_t len;
	int rc = rsk_conf_read(path, &text, &len, error, n);

	if (rc < 0)
		return rc;
	rc = rsk_conf_parse(text, len, out, why, sizeof(why));
	if (rc < 0)
		snprintf(error, n, "%s: %s", path, why);
	free(text);
	return rc;
}
