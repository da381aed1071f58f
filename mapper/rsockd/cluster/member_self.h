/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member_self.h - what this host tells the other members about itself: member_json.h has the form.
 * Called by cluster.c and member.c. One thread.
 */
#ifndef RSK_MEMBER_SELF_H
#define RSK_MEMBER_SELF_H

#include <jansson.h>

#include "document.h"
#include "pma.h"

struct rsk_member_self {
	const struct rsk_pma *pma; /* borrowed, like the next one */
	const struct rsk_document *document;
	char id[17];   /* of this run of the daemon: random, 16 digits */
	char node[72]; /* the name of the entry */
	char own[256]; /* the node's name in the configuration, by which RNICs are its own */
	json_t *fixed; /* the members that do not change; owned */
};

/*
 * @conf is read in here only. Without a name in the configuration the host's name is used. Returns
 * 0 or -ENOMEM; the caller calls rsk_member_self_fini() in either case.
 */
int rsk_member_self_init(struct rsk_member_self *s, const struct rsk_conf_daemon *conf,
			 const struct rsk_pma *pma, const struct rsk_document *document);
void rsk_member_self_fini(struct rsk_member_self *s);

/* The entry as it should be now. The caller frees it; NULL: no memory. */
char *rsk_member_self_text(const struct rsk_member_self *s);

#endif
