/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api.h - what an operator may ask and say, over HTTP: on a local socket, where the kernel tells who asks (reading is
 * for everybody, changes are for root and the daemon's own user), and, if it is configured, figures only, on TCP.
 *
 *	GET  /metrics		OpenMetrics
 *	GET  /v1/status		who it is, counters			GET /v1/devices
 *	POST /v1/explain	{"side","ip","port","from","user"}: what the policy would say, step by step
 *	POST /v1/map		{"ip","port","from","cp_port"}: asks as a PM client and tells the answer
 *	POST /v1/drain		{"device","on"}				POST /v1/reload
 */
#ifndef RSK_API_H
#define RSK_API_H

#include "daemon.h"

/* The local socket; a file that nobody listens on any more makes room. 0 or -errno. */
int rsk_api_open_control(struct rsk_daemon *d, const char *path);
int rsk_api_open_metrics(struct rsk_daemon *d, const struct rsk_pm_addr *at);
void rsk_api_close(struct rsk_daemon *d);

/* metrics.c: all figures in OpenMetrics' text form. */
void rsk_metrics_write(struct rsk_daemon *d, struct evbuffer *out);

#endif
