/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * services_self.h - which services this host offers on RDMA at the moment: those of listening
 * sockets of accelerated processes that policy maps, with the resources that there are. Called by
 * services_publish.c. One thread.
 */
#ifndef RSK_SERVICES_SELF_H
#define RSK_SERVICES_SELF_H

#include "conf.h"
#include "listeners.h"
#include "pma.h"
#include "service_json.h"

/* What the rest of the daemon knows; all of it is borrowed. */
struct rsk_services_source {
	struct rsk_pma *pma;
	const struct rsk_listeners *listeners;
	/* Tells @pma the load and the time of the week */
	void (*measure)(void *ctx);
	void *ctx;
};

/* Owns @entry and @ok_ns. */
struct rsk_services_self {
	struct rsk_services_source from;
	struct rsk_service_entry entry; /* sorted by address */
	uint64_t *ok_ns;		/* by service: when policy has mapped it last */
};

/*
 * Nothing is offered before the first update. @node is the name of the entry; of @conf the
 * addresses of the port mapper are taken.
 */
void rsk_services_self_init(struct rsk_services_self *s, const struct rsk_services_source *from,
			    const struct rsk_conf_daemon *conf, const char *node);
void rsk_services_self_fini(struct rsk_services_self *s);

/*
 * Looks again. A service that only lacks resources stays for five seconds, so that the last
 * session of an RNIC, which comes and goes, does not change the entry each time. Returns 0, or
 * -ENOMEM: the entry is as it was.
 */
int rsk_services_self_update(struct rsk_services_self *s, uint64_t now_ns);

#endif
