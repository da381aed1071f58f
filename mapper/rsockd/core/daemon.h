/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - rsockd as a whole: the machines, the sockets that feed them, and what an operator may ask. One thread,
 * one event loop (libevent); nothing in it blocks. What has to wait for a disk has a thread of its own (state.h).
 */
#ifndef RSK_DAEMON_H
#define RSK_DAEMON_H

#include <event2/event.h>
#include <event2/http.h>

#include "agent.h"
#include "conf.h"
#include "devices.h"
#include "local.h"
#include "map.h"
#include "pm_client.h"
#include "pma.h"
#include "pma_link.h"
#include "pma_serve.h"
#include "pmsp.h"
#include "hotplug.h"
#include "ports.h"
#include "state.h"
#include "udp.h"

struct rsk_guests;

/* Owns all of it but conf, which is the agent's. */
struct rsk_daemon {
	const char *conf_path; /* NULL: defaults */
	char *conf_text;       /* of what is in force; NULL: of no file */
	size_t conf_bytes;
	struct rsk_conf_daemon
		settings; /* after a reload, of its pointers only those that rsk_daemon_reload() takes over are good */
	struct event_base *base;
	struct event *timer;
	struct event *signals[3];
	struct rsk_udp serve, ask;
	struct rsk_pmsp pmsp;
	struct rsk_pm_client client;
	struct rsk_pma *pma;
	struct rsk_ports ports;
	struct rsk_load load;
	struct rsk_agent agent;
	struct rsk_pma_link link;	/* to the central policy agent, if there is one */
	struct rsk_pma_serve serve_pma; /* for local ones, if we are one */
	struct rsk_map_client maps;
	struct rsk_local local;
	struct rsk_hotplug plug;
	struct rsk_devices devices;
	struct evhttp *control, *metrics;
	struct rsk_guests *control_guests, *metrics_guests;
	struct rsk_state state;
	uint64_t started_ns;
	uint64_t reloads, reloads_failed;
};

/* Opens sockets and whatever else needs rights. @error: a line for the operator. 0 or -errno. */
int rsk_daemon_open(struct rsk_daemon *d, const char *conf_path, char *error, size_t n);

/* Runs until it is told to end. 0 or -errno. */
int rsk_daemon_run(struct rsk_daemon *d);
void rsk_daemon_close(struct rsk_daemon *d);

/* The configuration once more; what cannot be read changes nothing. */
int rsk_daemon_reload(struct rsk_daemon *d, char *error, size_t n);

/* Which devices are there, and which of them are of software, as far as that counts. */
void rsk_daemon_devices(struct rsk_daemon *d);
/* Other RNICs are found: the file as it was read last, not as somebody may be changing it just now. */
void rsk_daemon_rediscover(struct rsk_daemon *d);

/* The timer follows the machines: after each time that they were given something. */
void rsk_daemon_arm(struct rsk_daemon *d);

#endif
