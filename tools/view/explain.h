/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.h - why one connection, or one process, is or is not accelerated: in words and as JSON. */
#ifndef RSK_TOOLS_EXPLAIN_H
#define RSK_TOOLS_EXPLAIN_H

#include "host.h"

/* What is known of one end; all borrowed. token "": nothing stands in the way at this end. */
struct view {
	const char *token;
	const char *sentence;
	const char *cure;
};

/* What an end itself shows: the library's own word, else what its process is. */
struct view end_view(const struct end *end);

/* A connection, from the end that was asked about. */
struct connection {
	struct end near;
	struct end far;	    /* far.socket and far.record NULL: not in this namespace */
	bool far_is_remote; /* then: its address is not one of this host */
	enum answer direct; /* unknown: neither end could be looked at */
	struct view near_view;
	struct view far_view;
	const char *cure; /* the one that helps; "" where there is none */
	uint64_t apart;	  /* namespaces that the two processes do not share: isolation.h */
};

/* @pid: as for host_end(), of the near end. */
void connection_explain(struct host *host, const struct rsk_tuple *near, pid_t pid,
			struct connection *out);

void connection_print(const struct connection *c);
json_t *connection_json(const struct connection *c);

/* "nginx (123) runs with librsock.so.", notes, the cure. */
void proc_print(const struct proc *p);

#endif /* RSK_TOOLS_EXPLAIN_H */
