/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h - why one connection or one process is or is not accelerated, as text and as JSON.
 * For rsock why and rsock check.
 */
#ifndef RSK_TOOLS_EXPLAIN_H
#define RSK_TOOLS_EXPLAIN_H

#include "host.h"

/* What is known about one end; the strings are static. token "": no obstacle at this end. */
struct view {
	const char *token;
	const char *sentence;
	const char *cure;
};

/*
 * The view of one end: the reason in the library's record; without a record, the process's finding.
 */
struct view end_view(const struct end *end);

/* A connection, from the end that was asked about. */
struct connection {
	struct end near;
	struct end far;	    /* far.socket and far.record NULL: not in this namespace */
	bool far_is_remote; /* in that case: its address does not belong to this host */
	enum answer direct; /* unknown: neither end could be read */
	struct view near_view;
	struct view far_view;
	const char *cure; /* the cure to show; "": none */
	uint64_t apart;	  /* namespaces that the two processes do not share, as in isolation.h */
};

/*
 * Fills *out for the connection that its near end names @near. @pid: of the near end, as for
 * host_end().
 */
void connection_explain(struct host *host, const struct rsk_tuple *near, pid_t pid,
			struct connection *out);

void connection_print(const struct connection *c);
json_t *connection_json(const struct connection *c);

/* Prints "nginx (123) runs with librsock.so.", then the notes and the cure. */
void proc_print(const struct proc *p);

#endif /* RSK_TOOLS_EXPLAIN_H */
