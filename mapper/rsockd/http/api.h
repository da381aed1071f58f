/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api.h - the operator's API over HTTP. On a local socket the kernel tells which user asks: all
 * users may read, root and the daemon's own user may make changes. If configured, the metrics alone
 * are served over TCP. daemon_open.c opens it.
 *
 *	GET  /metrics		OpenMetrics
 *	GET  /v1/status		version, state, counters		GET /v1/devices
 *	POST /v1/explain	{"side","ip","port","from","user"}: what policy would
 *				decide, step by step
 *	POST /v1/map		{"ip","port","from","cp_port"}: asks as a PM client and
 *				returns the answer
 *	POST /v1/drain		{"device","on"}				POST /v1/reload
 */
#ifndef RSK_API_H
#define RSK_API_H

#include "daemon.h"

/*
 * Opens the local socket; replaces a socket file at which no process listens. Returns 0 or -errno.
 */
int rsk_api_open_control(struct rsk_daemon *d, const char *path);
int rsk_api_open_metrics(struct rsk_daemon *d, const struct rsk_pm_addr *at);
void rsk_api_close(struct rsk_daemon *d);

/* metrics.c: appends all figures as OpenMetrics text. */
void rsk_metrics_write(struct rsk_daemon *d, struct evbuffer *out);

#endif
