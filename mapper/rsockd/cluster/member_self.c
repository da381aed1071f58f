// SPDX-License-Identifier: BSD-2-Clause
/* member_self.c - see member_self.h. */
#include "member_self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "member_json.h"
#include "random.h"

/* The name that a configuration without one has: conf_daemon.c. */
#define NO_NAME "local"

/* A text in the form that readers accept: printable, and not too long. */
static json_t *text_json(const char *from)
{
	char text[RSK_MEMBER_TEXT];

	snprintf(text, sizeof(text), "%s", from);
	rsk_document_clean(text);
	return json_string(text);
}

static json_t *address_json(const struct rsk_pm_addr *a)
{
	char ip[RSK_PM_IP_TEXT];
	bool six;

	rsk_pm_ip_text(a->ipv, a->ip, ip);
	six = strchr(ip, ':') != NULL;
	return a->port ? json_sprintf("%s%s%s:%u", six ? "[" : "", ip, six ? "]" : "", a->port) :
			 json_string(ip);
}

static json_t *addresses_json(const struct rsk_pm_addr *list, size_t n, size_t most)
{
	json_t *out = json_array();

	for (size_t i = 0; i < n && i < most; i++)
		json_array_append_new(out, address_json(&list[i]));
	return out;
}

static json_t *time_json(void)
{
	time_t now = time(NULL);
	char when[32] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(when);
}

int rsk_member_self_init(struct rsk_member_self *s, const struct rsk_conf_daemon *conf,
			 const struct rsk_pma *pma, const struct rsk_document *document)
{
	char host[256] = NO_NAME;
	const char *node = conf->node;

	*s = (struct rsk_member_self){ .pma = pma, .document = document };
	if (strcmp(node, NO_NAME) == 0 && gethostname(host, sizeof(host) - 1) == 0 && *host)
		node = host;
	snprintf(s->node, sizeof(s->node), "%.64s", node);
	rsk_document_clean(s->node);
	snprintf(s->own, sizeof(s->own), "%s", conf->node);
	snprintf(s->id, sizeof(s->id), "%016llx", (unsigned long long)rsk_random_u64());
	s->fixed =
		json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o}", "node", s->node, "id", s->id, "version",
			  RSOCK_VERSION, "started", time_json(), "listens",
			  addresses_json(conf->listen, conf->n_listen, RSK_MEMBER_LISTENS), "pma",
			  addresses_json(conf->pma.listen, conf->pma.n_listen, RSK_MEMBER_LISTENS),
			  "metrics",
			  conf->metrics.port ? address_json(&conf->metrics) : json_null());
	return s->fixed ? 0 : -ENOMEM;
}

void rsk_member_self_fini(struct rsk_member_self *s)
{
	json_decref(s->fixed);
	s->fixed = NULL;
}

/* That a spare is in use depends on sessions, and an entry should not change with each. */
static const char *state_of(const struct rsk_pma_device_view *v)
{
	if (v->state == RSK_PMA_DOWN)
		return "down";
	if (v->state == RSK_PMA_DRAINING)
		return "draining";
	return v->spare ? "spare" : "up";
}

/* This node's RNICs; a central agent knows others' as well. */
static json_t *rnics_json(const struct rsk_member_self *s)
{
	size_t n = rsk_pma_devices(s->pma, NULL, 0);
	struct rsk_pma_device_view *view = calloc(n + 1, sizeof(*view));
	json_t *out = view ? json_array() : NULL;

	n = view ? rsk_pma_devices(s->pma, view, n) : 0;
	for (size_t i = 0; i < n && json_array_size(out) < RSK_MEMBER_RNICS; i++) {
		const struct rsk_pma_device_view *v = &view[i];

		if (strcmp(v->node, s->own) == 0)
			json_array_append_new(out,
					      json_pack("{s:o,s:s,s:o,s:I,s:I}", "name",
							text_json(v->name), "state", state_of(v),
							"addresses",
							addresses_json(v->ips, v->n_ips,
								       RSK_MEMBER_ADDRESSES),
							"bps", (json_int_t)v->bps_max, "sessions",
							(json_int_t)v->sessions_max));
	}
	free(view);
	return out;
}

static json_t *refused_json(const struct rsk_document *d)
{
	if (!*d->why_refused)
		return json_null();
	return json_pack("{s:I,s:o}", "revision", (json_int_t)d->newest, "why",
			 text_json(d->why_refused));
}

char *rsk_member_self_text(const struct rsk_member_self *s)
{
	json_t *all = json_copy(s->fixed);
	char *text = NULL;

	if (all && json_object_set_new(all, "rnics", rnics_json(s)) == 0 &&
	    json_object_set_new(all, "revision", json_integer((json_int_t)s->document->running)) ==
		    0 &&
	    json_object_set_new(all, "refused", refused_json(s->document)) == 0)
		text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(all);
	return text;
}
