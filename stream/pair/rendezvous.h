/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous.h - the door of this process, and links to others. Only for pairing.c, which holds its lock around each call.
 */
#ifndef RSK_RENDEZVOUS_H
#define RSK_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "handshake.h"
#include "link.h"
#include "registry.h"

/* Listens, if it does not yet; 0 or -errno. The nonce names the door in the registry. */
int rsk_rendezvous_listen(void);
uint64_t rsk_rendezvous_nonce(void);

/* Readable when somebody knocks; -1: it is not open. */
int rsk_rendezvous_fd(void);

/* Closes this process's copy of the door: a child's inherited one is its parent's. */
void rsk_rendezvous_close(void);

/* Who is at the other end of a control socket. */
struct rsk_rendezvous_peer {
	int pid;
	uint32_t uid;
	bool vouched;	/* rsockd says so, not the kernel of the socket */
	uint64_t nonce; /* 0: it came to us */
};

/* A link over half of a socketpair that rsockd gave out, now ours. @initiator: it is for us to greet. */
void rsk_rendezvous_vouched(int control, bool initiator, const struct rsk_rendezvous_peer *peer);

/* The link of that name, not dead; NULL: there is none. */
struct rsk_link *rsk_rendezvous_known(uint64_t nonce);

/* The link to the process whose door has that nonce, perhaps a new one, still GREETING. NULL: none can be had, *err. */
struct rsk_link *rsk_rendezvous_at(uint64_t nonce, int *err);

/* What this process lacked (-EMFILE, -ENOMEM) when another one last came to it; 0: nothing. */
int rsk_rendezvous_lacks(void);

/* Opens the door to whoever knocked, hears whoever spoke. */
void rsk_rendezvous_work(void);

/* Hears that one alone, so much at once. True: there is more. */
bool rsk_rendezvous_hear(struct rsk_link *l);

/* The other end is gone, or not to be trusted any more. */
void rsk_link_dead(struct rsk_link *l);

/* Who takes a validated message about a stream, of a link that is UP: pm_transaction.h's. Set at the start of the process. */
extern void (*rsk_rendezvous_message)(struct rsk_link *l, const struct rsk_link_msg *m,
				      const struct rsk_pm_msg *pm);

#endif
