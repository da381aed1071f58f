/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_kit.h - for tests of a link to another host, as its progress thread has it
 * (stream/remote*.c). The test takes the place of the progress thread, of the verbs module and of
 * the other end: the rails carry nothing and come up and fail when the test says so, and a socket
 * stands for the other end's progress thread.
 */
#ifndef RSK_REMOTE_KIT_H
#define RSK_REMOTE_KIT_H

#include "remote_parts.h"
#include "stream.h"

struct kit_stream {
	int fd, other; /* both ends of its TCP connection; only the kernel knows the other one */
	struct rsk_stream *s;
};

struct kit {
	struct rsk_remote *r;
	int peer; /* the other end of its control connection */
};

/* What the verbs module reports of this host's devices. */
extern struct rsk_verbs_device_addr kit_candidates[RSK_REMOTE_CANDIDATES];
extern uint32_t kit_candidates_n;
/* The address 10.0.@network.@host of device number @device, in a network of 24 bits. */
struct rsk_verbs_device_addr kit_candidate(uint8_t network, uint8_t host, uint16_t device);

/* What the rails' fabric and the module's registrations do: nothing, until a test sets it. */
extern struct kit_fabric {
	bool gets, arrived; /* gets may begin; all puts have arrived */
	uint32_t begun;	    /* number of gets so far; the fields below are of the newest */
	void *dst;
	size_t len;
	uint64_t off, token;
	bool landed;	   /* the next poll reports it */
	int registers;	   /* result of registering a ring: 0 or -errno */
	int sets;	   /* result of reaching a ring directly, if negative */
	uint32_t rings;	   /* attempts to register one */
	int narrows;	   /* result of giving a window's registrations back */
	uint32_t narrowed; /* times that registrations of our ring were given back */
} kit_fabric;

/*
 * Once in a process: sets up the engine, and the descriptors of a progress thread that has ended
 * because there is no module.
 */
void kit_init(void);

/* A link that knows its peer and has no rail yet. */
void kit_link(struct kit *k, bool initiator);
/* Brings rail @index up at both ends; the first one brings the link up. */
void kit_rail_up(struct kit *k, uint32_t index);
/*
 * On the accepting end: the other end dials rail @index of generation @life, and its request
 * arrives at @here. Returns false if it is rejected.
 */
bool kit_comes(struct kit *k, uint32_t index, uint32_t generation,
	       const struct rsk_verbs_addr *here);
/* The same from the address @from. */
bool kit_comes_from(struct kit *k, uint32_t index, uint32_t generation,
		    const struct rsk_verbs_addr *here, const struct rsk_verbs_addr *from);
/* The rail is rejected or breaks: the module reports @err. */
void kit_rail_down(struct kit *k, uint32_t index, int err);
bool kit_connecting(const struct kit *k, uint32_t index);

/* kit_init(), and a link that has two rails. */
void kit_link_two(struct kit *k);

/* A TCP connection on this host, whose connecting end the engine tracks. */
struct kit_stream kit_connected(void);
/* A TCP connection on this host, paired over the link. @on: its sender is on the ring. */
struct kit_stream kit_stream(struct kit *k, bool on);
void kit_promote(const struct kit_stream *ks); /* the sending direction */

/* Takes the next message to the other end; false: there is none. */
bool kit_hear(struct kit *k, struct rsk_remote_msg *m);
/* The other end sends @m. */
void kit_say(struct kit *k, struct rsk_remote_msg m);
/* Handles what the control connection has for our end, as the progress thread's epoll set would. */
void kit_turn(struct kit *k);

#endif
