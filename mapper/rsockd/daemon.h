/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - rsockd as a whole: the machines, the sockets that feed them, and what an operator may ask. One thread, one
 * event loop (libevent); nothing in it blocks.
 */
#ifndef RSK_DAEMON_H
#define RSK_DAEMON_H

#include <event2/event.h>
#include <event2/http.h>

#include "agent.h"
#include "conf.h"
#include "pm_client.h"
#include "pma.h"
#include "pmsp.h"
#include "ports.h"
#include "udp.h"

/* Owns all of it but conf, which is the agent's. */
struct rsk_daemon {
	const char *conf_path; /* NULL: defaults */
	struct rsk_conf_daemon
		settings; /* after a reload, of its pointers only redirects_from is good */
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
	struct evhttp *control, *metrics;
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

/* The timer follows the machines: after each time that they were given something. */
void rsk_daemon_arm(struct rsk_daemon *d);

/*
 * Asks for a mapping as a PM client: F1 first, then the PMSP. done() is called once, perhaps at once; @answer is F1's;
 * if that is not MAP there was no PMReq, and outcome says REFUSED.
 */
struct rsk_daemon_map {
	struct rsk_daemon *d;
	struct rsk_pm_msg req;
	struct rsk_pm_addr asked; /* the PMSP */
	struct rsk_pma_answer
		answer; /* but its names: a reload takes them away, and these are copies */
	char rule[256], device[256]; /* "": none */
	uint32_t uid;
	enum rsk_pm_outcome outcome;
	struct rsk_pm_mapping mapping;
	void (*done)(struct rsk_daemon_map *m);
	void *user;
};
/* 0; -errno: done() will not be called. */
int rsk_daemon_map_start(struct rsk_daemon_map *m);
void rsk_daemon_map_cancel(struct rsk_daemon_map *m);

#endif
