// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_pma.c - reads the section about the exchange between policy agents. Called by conf_load.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf_build.h"

#define LISTEN_MOST 16

static int take_listen(struct rsk_conf_build *b, const struct rsk_raw_list *list,
		       struct rsk_conf_pma *p)
{
	int rc = 0;

	if (list->n > LISTEN_MOST)
		return rsk_conf_wrong(b, "pma.listen", "more than %d addresses", LISTEN_MOST);
	p->listen = rsk_conf_alloc(b->c, list->n, sizeof(*p->listen));
	if (!p->listen)
		return -ENOMEM;
	for (; rc == 0 && p->n_listen < list->n; p->n_listen++)
		rc = rsk_conf_take_addr(b, "pma.listen", list->v[p->n_listen],
					&p->listen[p->n_listen]);
	return rc;
}

static int check(struct rsk_conf_build *b)
{
	const struct rsk_conf_daemon *d = &b->c->daemon;
	const struct rsk_conf_pma *p = &d->pma;

	if (p->n_listen && !p->n_allow)
		return rsk_conf_wrong(b, "pma", "listen: nobody may ask without allow");
	if (b->raw->pma && b->raw->pma->tls && (!p->tls.ca || !p->tls.certificate || !p->tls.key))
		return rsk_conf_wrong(b, "pma", "tls: ca, certificate and key are needed");
	if (p->central_by_role && !b->raw->cluster)
		return rsk_conf_wrong(b, "pma", "central: cluster: there is no cluster");
	/* It would ask itself as soon as it has the role, and book each session twice. */
	if (p->central_by_role && p->n_listen)
		return rsk_conf_wrong(b, "pma", "central: cluster: not together with listen");
	if (p->mode != RSK_CONF_PMA_LOCAL && !rsk_conf_pma_asks(p))
		return rsk_conf_wrong(b, "pma", "mode: there is no central to ask");
	if (p->mode != RSK_CONF_PMA_LOCAL && p->ask.timeout_ns > d->pmsp.ask_ns)
		return rsk_conf_wrong(b, "pma", "timeout: longer than pmsp.ask-time");
	if (rsk_conf_pma_asks(p) && strlen(d->node) >= RSK_ASK_NAME)
		return rsk_conf_wrong(b, "node", "longer than %d bytes, which pma.central takes",
				      RSK_ASK_NAME - 1);
	return 0;
}

int rsk_conf_build_pma(struct rsk_conf_build *b)
{
	static const struct rsk_raw_pma nothing;
	static const struct rsk_raw_tls no_tls;
	const struct rsk_raw_pma *raw = b->raw->pma ? b->raw->pma : &nothing;
	const struct rsk_raw_tls *tls = raw->tls ? raw->tls : &no_tls;
	struct rsk_conf_pma *p = &b->c->daemon.pma;
	int rc;

	p->ask = (struct rsk_ask_config)RSK_ASK_DEFAULT;
	p->central_agent = (struct rsk_central_config)RSK_CENTRAL_DEFAULT;
	rc = take_listen(b, &raw->listen, p);
	if (rc == 0)
		rc = rsk_conf_take_prefixes(b, "pma", "allow", &raw->allow, &p->allow, &p->n_allow);
	if (rc == 0)
		rc = rsk_conf_take_central(b, "pma.central", raw->central, &p->central,
					   &p->central_by_role);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "pma", "tls.ca", tls->ca, true, &p->tls.ca);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "pma", "tls.certificate", tls->certificate, true,
					&p->tls.certificate);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "pma", "tls.key", tls->key, true, &p->tls.key);
#define TAKE(name, key, field, kind, least, most)                                                  \
	if (rc == 0)                                                                               \
		rc = rsk_conf_take(b, "pma", key, raw->name, RSK_CONF_##kind, least, most,         \
				   &p->field);
	RSK_CONF_PMA(TAKE)
#undef TAKE
	if (rc < 0)
		return rc;
	/* The default, if a central agent is named, is to need its consent as well. */
	p->mode = rsk_conf_pma_asks(p) ? RSK_CONF_PMA_BOTH : RSK_CONF_PMA_LOCAL;
	if (raw->mode)
		p->mode = (enum rsk_conf_pma_mode)(raw->mode - 1);
	p->local_if_silent = raw->local_if_silent;
	return check(b);
}
