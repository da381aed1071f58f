/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_kit.h - one end of a link to another host as its keeper has it (stream/remote*.c), and the test in the place
 * of the keeper's thread, of the verbs module and of the other end: rails that carry nothing, whose beginning and end
 * the test decides, and a socket on which it reads and says what the other end's keeper would.
 */
#ifndef RSK_REMOTE_KIT_H
#define RSK_REMOTE_KIT_H

#include "remote_parts.h"
#include "stream.h"

struct kit_stream {
	int fd, other; /* both ends of its TCP connection; the other one is the kernel's alone */
	struct rsk_stream *s;
};

struct kit {
	struct rsk_remote *r;
	int peer; /* the other end of its control connection */
};

/* What the module says of this host's devices. */
extern struct rsk_verbs_device_addr kit_candidates[RSK_REMOTE_CANDIDATES];
extern uint32_t kit_candidates_n;
/* The address 10.0.@network.@host of a device of that number, in a network of 24 bits. */
struct rsk_verbs_device_addr kit_candidate(uint8_t network, uint8_t host, uint16_t device);

/* What the rails' fabric does, and the module's registrations: nothing, until a test says otherwise. */
extern struct kit_fabric {
	bool gets, arrived;  /* gets begin; all that was put has arrived */
	uint32_t begun;	     /* gets so far; of the newest: */
	void *dst;	     /* */
	size_t len;	     /* */
	uint64_t off, token; /* */
	bool landed;	     /* it is told with the next poll */
	int registers;	     /* what registering a ring comes to: 0 or -errno */
	uint32_t rings;	     /* tries to */
} kit_fabric;

/* Once in a process: the engine, and the descriptors of a keeper whose thread has ended for want of a module. */
void kit_init(void);

/* A link that knows the other end, and has no rail yet. */
void kit_link(struct kit *k, bool initiator);
/* Its rail of that number is up at both ends; the first one brings the link up. */
void kit_rail_up(struct kit *k, uint32_t index);
/*
 * Of one that was come to: the other end dials a rail of that number and life, and its request comes to @here. False:
 * it is turned away.
 */
bool kit_comes(struct kit *k, uint32_t index, uint32_t generation,
	       const struct rsk_verbs_addr *here);
/* It is refused, or breaks: what the module says then. */
void kit_rail_down(struct kit *k, uint32_t index, int err);
bool kit_connecting(const struct kit *k, uint32_t index);

/* A TCP connection on this host, joined to the link, whose sender is @on the ring. */
struct kit_stream kit_stream(struct kit *k, bool on);

/* The next message for the other end; false: there is none. */
bool kit_hear(struct kit *k, struct rsk_remote_msg *m);
/* The other end says it. */
void kit_say(struct kit *k, struct rsk_remote_msg m);
/* What the socket has to tell our end, as the keeper's epoll set would. */
void kit_turn(struct kit *k);

#endif
