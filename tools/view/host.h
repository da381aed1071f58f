/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - everything about the streams of this host that can be seen at one time: the library's records, the sockets
 * of one network namespace, who holds them, and what these processes are.
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
	struct known_proc *procs; /* those looked at so far */
	pid_t pid;		  /* whose namespace the sockets are of; 0: this one's */
	bool looked_again;
};

/* @pid: whose network namespace; 0: this one's. 0 or -errno. */
int host_take(pid_t pid, struct host *out);
void host_free(struct host *host);

/*
 * Sockets and holders once more, if that was not done: the files are no snapshot, and of a connection that began while
 * they were read they may have one end only. What was borrowed of them is gone. 0 or -errno (nothing has changed).
 */
int host_look_again(struct host *host);

/* A process, looked at once. Borrowed; NULL: no memory. */
const struct proc *host_proc(struct host *host, pid_t pid);

/* One end of a connection. Pointers are borrowed from the host. */
struct end {
	struct rsk_tuple tuple;	       /* as this end sees it */
	const struct record *record;   /* the library's; NULL: none that could be found */
	const struct sock_row *socket; /* the kernel's; NULL: no such socket in the namespace */
	const struct proc *proc;       /* who holds it; NULL: not to be seen */
	int fd;			       /* of that process; -1: not known */
	size_t holders;		       /* how many processes do */
};

/* @pid: the process that it is looked for at, if it has it; 0: whichever. */
void host_end(struct host *host, const struct rsk_tuple *tuple, pid_t pid, struct end *out);

/* Is this an address of this host (of the namespace that the tool runs in)? */
bool host_has_address(uint16_t family, const uint8_t addr[static 16]);

/* Is data going, or able to go, over it? No listener, nothing that is over. */
bool socket_is_connected(const struct sock_row *row);

#endif /* RSK_TOOLS_HOST_H */
