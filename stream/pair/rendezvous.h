/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous.h - rendezvous of processes on one host: the listener of this process, and links to
 * other processes. pairing.c and local.c call this with the pairing lock held.
 */
#ifndef RSK_RENDEZVOUS_H
#define RSK_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "handshake.h"
#include "link.h"
#include "registry.h"

/* Listens, unless it does already; 0 or -errno. The nonce names the listener in the registry. */
int rsk_rendezvous_listen(void);
uint64_t rsk_rendezvous_nonce(void);

/* Readable when a peer connects; -1: it is not open. */
int rsk_rendezvous_fd(void);

/* Closes this process's copy of the listener: what a child inherited is its parent's. */
void rsk_rendezvous_close(void);

/* The process at the other end of a control socket. */
struct rsk_rendezvous_peer {
	int pid;
	uint32_t uid;
	bool vouched;	/* rsockd vouches for it, instead of the kernel's SO_PEERCRED */
	uint64_t nonce; /* 0: it connected to us */
};

/*
 * Makes a link over one half of a socketpair that rsockd handed out, which is ours now. @initiator:
 * this end begins the link handshake.
 */
void rsk_rendezvous_vouched(int control, bool initiator, const struct rsk_rendezvous_peer *peer);

/* The link with that name that is not dead; NULL: there is none. */
struct rsk_link *rsk_rendezvous_known(uint64_t nonce);

/*
 * The link to the process whose listener has that nonce; a new one, still in the handshake, if
 * there was none. NULL: none can be had, *err says why.
 */
struct rsk_link *rsk_rendezvous_at(uint64_t nonce, int *err);

/*
 * The resource that this process lacked (-EMFILE, -ENFILE, -ENOMEM, -ENOSPC) when HELLO or accept()
 * last failed here; 0: a HELLO has come through since, or none has failed.
 */
int rsk_rendezvous_lacks(void);

/* Accepts pending peers, and reads the messages of all links. */
void rsk_rendezvous_work(void);

/* Reads the messages of one link, up to a limit. True: there are more. */
bool rsk_rendezvous_hear(struct rsk_link *l);

/* The other end is gone, or is not trusted any more. Marks it dead; a later sweep frees it. */
void rsk_link_kill(struct rsk_link *l);

/*
 * Takes a message of a link with @other_version about a stream of the other end's:
 * rsk_other_version_message(). Set at the start of the process.
 */
extern void (*rsk_rendezvous_other_version)(struct rsk_link *l,
					    const struct rsk_link_version_msg *m);

/*
 * Takes a validated message about a stream, of a link that is UP: rsk_pm_transaction_message(). Set
 * at the start of the process.
 */
extern void (*rsk_rendezvous_message)(struct rsk_link *l, const struct rsk_link_msg *m,
				      const struct rsk_pm_msg *pm);

#endif
