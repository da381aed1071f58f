// SPDX-License-Identifier: BSD-2-Clause
/* host.c - see host.h. */
#include "host.h"

#include "scan.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

/* Process numbers are consecutive; Knuth's multiplicative hash spreads them. */
#define HASH_FUNCTION(key, bytes, out) ((out) = *(const unsigned int *)(key)*2654435761u)
#include <uthash.h>

struct known_proc {
	pid_t pid;
	struct proc proc;
	UT_hash_handle hh;
};

int host_take(pid_t pid, struct host *out)
{
	int err;

	*out = (struct host){ .pid = pid };
	err = segments_scan(SCAN_ALL, &out->segments);
	if (!err)
		err = records_index(out->segments, &out->records);
	if (!err)
		err = nettab_read(pid, &out->sockets);
	if (!err)
		err = holders_scan(&out->holders);
	if (err)
		host_free(out);
	return err;
}

int host_look_again(struct host *host)
{
	struct holders holders;
	struct nettab sockets;
	int err;

	if (host->looked_again)
		return 0;
	host->looked_again = true;
	err = nettab_read(host->pid, &sockets);
	if (err)
		return err;
	err = holders_scan(&holders);
	if (err) {
		nettab_free(&sockets);
		return err;
	}
	nettab_free(&host->sockets);
	holders_free(&host->holders);
	host->sockets = sockets;
	host->holders = holders;
	return 0;
}

void host_free(struct host *host)
{
	struct known_proc *known = host->procs;

	HASH_CLEAR(hh, host->procs);
	while (known) {
		struct known_proc *next = known->hh.next;

		free(known);
		known = next;
	}
	holders_free(&host->holders);
	nettab_free(&host->sockets);
	records_free(&host->records);
	segments_free(host->segments);
	memset(host, 0, sizeof(*host));
}

const struct proc *host_proc(struct host *host, pid_t pid)
{
	struct known_proc *known;

	HASH_FIND(hh, host->procs, &pid, sizeof(pid), known);
	if (known)
		return &known->proc;
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->pid = pid;
	proc_read(pid, &known->proc);
	HASH_ADD(hh, host->procs, pid, sizeof(pid), known);
	return &known->proc;
}

void host_end(struct host *host, const struct rsk_tuple *tuple, pid_t pid, struct end *out)
{
	const struct holder *holder = NULL;
	pid_t first = 0;

	*out = (struct end){ .tuple = *tuple, .fd = -1 };
	out->socket = nettab_find(&host->sockets, tuple);
	if (out->socket) {
		size_t n;
		pid_t last = 0;

		holder = holders_of(&host->holders, out->socket->inode, &n);
		for (size_t i = 0; holder && i < n; i++) {
			out->holders += holder[i].pid != last;
			last = holder[i].pid;
			if (out->fd < 0 || (last == pid && first != pid)) {
				first = last;
				out->fd = holder[i].fd;
			}
		}
	}
	out->record = records_find(&host->records, tuple, pid ? pid : first, pid ? pid : first);
	/* Another network namespace may have a stream with the same addresses. */
	if (out->record && first && (pid_t)out->record->stream->pid != first) {
		bool held = false, family = false;
		size_t n;

		holder = holders_of(&host->holders, out->socket->inode, &n);
		for (size_t i = 0; i < n; i++) {
			held |= holder[i].pid == (pid_t)out->record->stream->pid;
			family |= segment_held_by(out->record->seg, (uint32_t)holder[i].pid);
		}
		/* A forked child that uses its parent's stream counts in the parent's record. */
		if (!held && !family)
			out->record = NULL;
		else if (held && !pid)
			first = (pid_t)out->record->stream->pid;
	}
	if (!first && out->record)
		first = (pid_t)out->record->stream->pid;
	out->proc = first ? host_proc(host, first) : NULL;
}

bool host_has_address(uint16_t family, const uint8_t addr[static 16])
{
	struct ifaddrs *all, *at;
	bool found = family == AF_INET && addr[0] == 127;

	if (found || getifaddrs(&all))
		return found;
	for (at = all; at && !found; at = at->ifa_next) {
		const struct sockaddr *sa = at->ifa_addr;

		if (!sa || sa->sa_family != family)
			continue;
		found = family == AF_INET ?
				memcmp(&((const struct sockaddr_in *)(const void *)sa)->sin_addr,
				       addr, 4) == 0 :
				memcmp(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
				       addr, 16) == 0;
	}
	freeifaddrs(all);
	return found;
}

bool socket_is_connected(const struct sock_row *row)
{
	return row->inode && row->state != TCP_LISTEN && row->state != TCP_CLOSE &&
	       row->state != TCP_SYN_RECV && row->state != TCP_TIME_WAIT;
}
