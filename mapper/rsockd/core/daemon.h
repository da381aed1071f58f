/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - rsockd as a whole: the state machines, the sockets that feed them, and the operator's
 * API. One thread runs one event loop (libevent), in which nothing blocks. Disk writes have a
 * thread of their own (disk.h). main.c and the http folder call this.
 */
#ifndef RSK_DAEMON_H
#define RSK_DAEMON_H

#include <event2/event.h>
#include <event2/http.h>

#include "agent.h"
#include "cluster.h"
#include "conf.h"
#include "devices.h"
#include "disk.h"
#include "local.h"
#include "map.h"
#include "pm_client.h"
#include "pma.h"
#include "pma_link.h"
#include "pma_serve.h"
#include "pmsp.h"
#include "quotas.h"
#include "route_socket.h"
#include "hotplug.h"
#include "ports.h"
#include "state.h"
#include "traffic.h"
#include "udp.h"

struct rsk_guests;

/* Owns all of it except for the configuration, which the policy agent owns. */
struct rsk_daemon {
	const char *conf_path; /* NULL: defaults */
	char *conf_text;       /* text of the configuration in force; NULL: there is no file */
	size_t conf_bytes;
	/* NULL: there is none. The text of its document that is in force; NULL: none is */
	struct rsk_cluster *cluster;
	struct rsk_quotas *quotas; /* NULL: there is no ledger of remote ports */
	char *document_text;
	size_t document_bytes;
	/* After a reload, only the pointers that rsk_daemon_reload() updates are valid */
	struct rsk_conf_daemon settings;
	struct event_base *base;
	struct event *timer;
	struct event *signals[3];
	unsigned int leaving; /* calls at the end that etcd has not answered yet */
	struct rsk_udp serve, ask;
	struct rsk_pmsp pmsp;
	struct rsk_pm_client client;
	struct rsk_pma *pma;
	struct rsk_ports ports;
	struct rsk_load load;
	struct rsk_agent agent;
	struct rsk_tls *tls; /* of the next two; NULL: none */
	/* connection to the central policy agent, if there is one */
	struct rsk_pma_link link;
	/* server for local policy agents, if this is the central one */
	struct rsk_pma_serve serve_pma;
	struct rsk_map_client maps;
	struct rsk_local local;
	struct rsk_hotplug plug;
	struct rsk_devices devices;
	struct rsk_route_socket routes;
	struct rsk_traffic traffic;
	struct evhttp *control, *metrics;
	struct rsk_guests *control_guests, *metrics_guests;
	struct rsk_disk disk;
	struct rsk_state state;
	uint64_t started_ns;
	uint64_t reloads, reloads_failed;
};

/*
 * Opens the sockets and everything else that needs rights. @error gets a line for the operator.
 * Returns 0 or -errno; the caller calls rsk_daemon_close() in either case.
 */
int rsk_daemon_open(struct rsk_daemon *d, const char *conf_path, char *error, size_t n);

/* Runs until SIGTERM or SIGINT. Returns 0 or -errno. */
int rsk_daemon_run(struct rsk_daemon *d);
void rsk_daemon_close(struct rsk_daemon *d);

/*
 * Called by the two: opens what the configuration has of a cluster, if anything; returns as
 * rsk_daemon_open(). Ends the event loop, as soon as etcd has been told, or could not be in time;
 * called once more, at once.
 */
int rsk_daemon_open_cluster(struct rsk_daemon *d, char *error, size_t n);
void rsk_daemon_leave(struct rsk_daemon *d);

/*
 * Reads and applies the configuration file again. If that fails, the former configuration stays in
 * force. @error gets a line for the operator. Returns 0 or -errno.
 */
int rsk_daemon_reload(struct rsk_daemon *d, char *error, size_t n);

/*
 * Tells policy which devices are present, which are software devices, and whom to ask for routes;
 * updates the port tables, and selects the ports whose traffic is measured.
 */
void rsk_daemon_devices(struct rsk_daemon *d);
/*
 * Called when the RNICs have changed: applies the configuration again. It uses the text that was
 * read last, since an operator may be editing the file.
 */
void rsk_daemon_rediscover(struct rsk_daemon *d);

/*
 * Checks a document of the cluster with this host's own configuration and, with @apply, makes both
 * the configuration in force, or with @text NULL the host's own: rsk_document_take of document.h.
 * @ctx is the daemon.
 */
int rsk_daemon_document(void *ctx, const char *text, size_t bytes, bool apply, char *error,
			size_t n);

/*
 * The roles in the cluster have changed: turns to the central policy agent that has the role now,
 * and looks whether this daemon has it. @ctx is the daemon, here and in the next two.
 */
void rsk_daemon_roles(void *ctx);
/* Of pma_serve.h: the role of this daemon. */
uint64_t rsk_daemon_agent_role(void *ctx);
/* Of map.h: the central PMSPs that have the role, in this host's order. */
bool rsk_daemon_central_pmsp(void *ctx, uint64_t *cursor, struct rsk_pm_addr *out);

/* Sets the timer to the state machines' next event. Called after each input to one of them. */
void rsk_daemon_arm(struct rsk_daemon *d);

#endif
