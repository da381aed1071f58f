/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h - serves the processes of this host over a local socket (<rsock/local.h>): takes their
 * statistics and their listening sockets, and looks up the peer of a connection end whose process
 * has not found it. For such an end it asks the kernel which user holds the peer end, and whether
 * that is on this host. Two processes of this host are introduced to each other where policy
 * allows; for another host the port mapper's protocol is used. A process is never believed about
 * anything that the kernel knows. daemon_open.c opens it. One thread.
 */
#ifndef RSK_LOCAL_H
#define RSK_LOCAL_H

#include <event2/event.h>
#include <rsock/local.h>

#include "bus.h"
#include "port_tables.h"
#include "listener_watches.h"
#include "listeners.h"
#include "rendezvous_table.h"
#include "syn_ends.h"
#include "pm_msg.h"
#include "sessions.h"
#include "streams.h"

struct rsk_agent;
struct rsk_agent_holder;
struct rsk_agent_local_ops;
struct rsk_conf_daemon;
struct rsk_map_client;
struct rsk_local_process;
struct rsk_local_user;
struct rsk_local_told;

#define RSK_LOCAL_COUNTERS(X)                                                                      \
	X(hellos, "processes that connected")                                                      \
	X(refused, "processes that were rejected: too many, or invalid messages")                  \
	X(other_version, "processes that were rejected: their library is of another version")      \
	X(put_off, "times that messages had to wait: their user had used up its share")            \
	X(listens_refused, "listening sockets not recorded: too many of the process or user")      \
	X(asks_refused, "requests to the port mapper refused: too many")                           \
	X(paused, "times that no process was accepted for a while: no descriptors or memory")      \
	X(lookups, "connections whose other end was looked up")                                    \
	X(vouched, "pairs of ends that were introduced to each other")                             \
	X(not_allowed, "pairs of ends of different users that no vouch entry names")               \
	X(asks, "requests to resolve a service before connect()")                                  \
	X(apart, "of the introduced pairs, those whose ends are in two network namespaces")        \
	X(remote, "lookups of connections to another host")                                        \
	X(links, "streams that began to use a mapping")                                            \
	X(links_again, "of these, streams that used it before this rsockd started")                \
	X(links_refused, "streams that may not use the mapping")                                   \
	X(link_refusals, "links that were refused at the RDMA address of a mapping")               \
	X(asks_spared, "requests to the port mapper answered by a remembered refusal of a link")   \
	X(unlinks, "streams that stopped using a mapping")                                         \
	X(unused, "mappings that no stream used in time")

#define RSK_LOCAL_SAID_VERSIONS 256u

/* Limits of questions to the port mapper that have no answer yet. */
#define RSK_LOCAL_ASKED_MOST 16384u
#define RSK_LOCAL_ASKED_MOST_OF_USER 4096u

struct rsk_local_counters {
#define X(name, text) uint64_t name;
	RSK_LOCAL_COUNTERS(X)
#undef X
};

/* Owns everything except what the first four fields point to. */
struct rsk_local {
	struct event_base *base;
	struct rsk_agent *agent; /* NULL: it is not open */
	const struct rsk_map_client *maps;
	const struct rsk_conf_daemon *settings;
	int fd;
	struct event *event, *measure, *resume, *later;
	struct rsk_local_process *processes; /* hash table by number */
	struct rsk_local_user *users;
	uint32_t next_number;
	int first;	   /* descriptor of the file of connect-time resolution */
	size_t rails;	   /* number of processes that accept rails */
	size_t railable;   /* the same, and those that are able to */
	size_t max, asked; /* maximum of processes; number of open questions to the port mapper */
	uint64_t netns;	   /* SO_NETNS_COOKIE of this daemon; 0: unknown */
	struct rsk_numa numa; /* the processors of this host */
	struct rsk_rendezvous_table rendezvous;
	bool apart;			       /* ends in other network namespaces are looked for */
	bool root_is_many;		       /* user 0 is root of the host, and of containers */
	struct rsk_syn_ends syn_ends;	       /* those that wait */
	size_t elsewhere;		       /* processes in other network namespaces */
	struct rsk_local_question *of_streams; /* hash table of open questions, by SO_COOKIE */
	struct rsk_listeners listeners;
	struct rsk_listener_watches listener_watches;
	struct rsk_streams streams;
	struct rsk_sessions sessions; /* of the ledger, for streams of these processes */
	uint32_t qos_changes;	      /* rsk_pma_qos_changes(), when all were told last */
	bool qos_due;		      /* a process could not be told */
	struct rsk_port_tables port_tables;
	struct rsk_local_told *told; /* list: streams for which policy is asked again */
	struct rsk_local_counters count;
	/* Processes of another version of which the log has a line; a hint. */
	int said_versions[RSK_LOCAL_SAID_VERSIONS];
};

/*
 * A new configuration is in force: writes the file of connect-time resolution. Returns 0 or -errno.
 */
int rsk_local_reloaded(struct rsk_local *l);

/*
 * Listens at @path. @maps is borrowed; it asks other hosts, and its agent decides. @max: how many
 * descriptors the processes may use. Returns 0 or -errno; the caller calls rsk_local_close() in
 * either case.
 */
int rsk_local_open(struct rsk_local *l, struct event_base *base, const struct rsk_map_client *maps,
		   const char *path, size_t max);
/* Finds the process that a request may be for. False: there is none. */
bool rsk_local_holder(const struct rsk_local *l, const struct rsk_pm_msg *req,
		      struct rsk_agent_holder *out);
void rsk_local_close(struct rsk_local *l);
size_t rsk_local_processes(const struct rsk_local *l);

/* For the agent; its context is a struct rsk_local. */
extern const struct rsk_agent_local_ops rsk_local_agent_ops;

#endif
