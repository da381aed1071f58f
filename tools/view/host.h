/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - one view of the streams of this host: the library's records, the sockets of one network
 * namespace, the processes that hold them, and what /proc says about these processes.
 */
#ifndef RSK_TOOLS_HOST_H
#define RSK_TOOLS_HOST_H

#include "holders.h"
#include "nettab.h"
#include "proc.h"
#include "records.h"

/* Owned: host_free(). */
struct host {
	struct segment *segments;
	struct records records;
	struct holders holders;
	struct nettab sockets;
	struct known_proc *procs; /* those read so far */
	pid_t pid;		  /* the sockets are of its network namespace; 0: of the tool's */
	bool looked_again;	  /* host_look_again() has run */
};

/*
 * Reads all of it. @pid: the process whose network namespace is read; 0: the tool's. 0 or -errno.
 */
int host_take(pid_t pid, struct host *out);
void host_free(struct host *host);

/*
 * Reads sockets and holders a second time, once in the life of @host. The files are not a
 * snapshot: they may show only one end of a connection that began while they were read. Pointers
 * into the first reading become invalid. 0 or -errno (then nothing has changed).
 */
int host_look_again(struct host *host);

/* A process; it is read at the first call and cached. Borrowed; NULL: no memory. */
const struct proc *host_proc(struct host *host, pid_t pid);

/* One end of a connection. Pointers are borrowed from the host. */
struct end {
	struct rsk_tuple tuple;	       /* as this end sees it */
	const struct record *record;   /* the library's; NULL: not found */
	const struct sock_row *socket; /* the kernel's; NULL: no such socket in the namespace */
	const struct proc *proc;       /* a process that holds it; NULL: not found */
	int fd;			       /* the descriptor in that process; -1: unknown */
	size_t holders;		       /* number of processes that hold it */
};

/* Finds the end @tuple. @pid: the process to prefer if it holds the socket; 0: any. */
void host_end(struct host *host, const struct rsk_tuple *tuple, pid_t pid, struct end *out);

/* Whether this is an address of this host, in the tool's network namespace. */
bool host_has_address(uint16_t family, const uint8_t addr[static 16]);

/* Whether a process has the socket and it can carry data: not a listener, not closed. */
bool socket_is_connected(const struct sock_row *row);

#endif /* RSK_TOOLS_HOST_H */
