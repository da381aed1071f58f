/* SPDX-License-Identifier: BSD-2-Clause */
/* policy.h - between cmd_policy.c, which parses rsock policy's command line, and its parts. */
#ifndef RSK_TOOLS_POLICY_H
#define RSK_TOOLS_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "rsock.h"

/* The command line. Pointers: borrowed from it; @words: the first one selects the part. */
struct asked {
	const struct command *self;
	const char *words[3], *side, *path, *base, *note;
	int n;
	bool json;
};

/* Parts about the cluster's document: policy_cluster.c. They return exit statuses. */
int policy_push(const struct asked *q);
int policy_history(const struct asked *q);
int policy_diff(const struct asked *q);
int policy_rollback(const struct asked *q);
/* Who the hosts of the cluster are: policy_members.c. */
int policy_members(const struct asked *q);
/* What they offer on RDMA: policy_services.c. */
int policy_services(const struct asked *q);
/* Which of them are central agents and central PMSPs: policy_roles.c. */
int policy_roles(const struct asked *q);
/* What is held of remote RNICs: policy_ledger.c. */
int policy_ledger(const struct asked *q);

/* Prints what rsockd has said about its cluster; @cluster NULL: nothing. */
void policy_show_cluster(const json_t *cluster);

#endif
