/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollset.h - the objects behind epoll.h, shared by the epoll*.c: registrations, bells, waits,
 * nests.
 */
#ifndef RSK_EPOLLSET_H
#define RSK_EPOLLSET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "links.h"
#include "lock.h"
#include "stream.h"
#include "wait.h"

#define RSK_EPOLL_TAG_MASK 0xffffffff00000000ull
#define RSK_EPOLL_DOORBELL                                                                         \
	0x80000000ull /* tag | BELL | place in links[]; else tag | arena offset of the reg */
#define RSK_EPOLL_LINKS 64
#define RSK_EPOLL_TOLD 8

/*
 * One fd in one set; under the set's lock. Type-stable (own free list): a tag that comes late finds
 * live == false, or another reg.
 */
struct rsk_reg {
	struct rsk_epoll *set; /* also read by who holds another set's lock: relaxed */
	struct rsk_stream *stream;
	int key_fd;	 /* the kernel's key; -1: closed, kept alive by a dup */
	uint32_t events; /* the application's */
	uint64_t data;
	bool live;
	bool tagged; /* taken over: the kernel's entry carries our tag and tells us of edges */
	bool named; /* not taken over: the entry carries our tag, so that we see it fire; oneshot, or given back */
	bool mute; /* given back after it had fired: the kernel would tell its end (epoll_back.c) */
	bool quiet; /* given back: of room to send nothing is told until @written changes (epoll_back.c) */
	bool armed; /* false: oneshot, fired */
	bool queued;
	bool parked; /* taken out by the application; tagged still, and not armed: epoll_ctl.c */
	bool fresh; /* the kernel still has to tell what was true when we registered: told already */
	uint32_t kernel_events; /* tagged: of the kernel's entry; they only grow */
	uint32_t told_ends;	/* RDHUP, HUP, ERR that were delivered */
	uint64_t over_told;	/* edge-triggered: so many bytes that the kernel does not know of */
	uint32_t answer;	/* of the set: in which it was told last */
	uint16_t answered;	/* what it was told then */
	uint32_t shorts;	/* the stream's short_sends, before it was looked at last */
	uint32_t changed;	/* the set's, when it was registered, or changed */
	uint32_t told_room; /* that, and 1, when an edge of room to send was told last; 0: never */
	uint64_t written;   /* quiet: bytes written to the TCP socket when it was given back */
	uint64_t index;	    /* the ring's next, before it was looked at last */
	_Atomic(bool)
		called; /* in the set's calls: set by who puts it there, cleared by who takes it */
	struct rsk_reg *next_call;
	/* Changed under family, set's and chain lock; read under any of the first and last. */
	struct rsk_reg *next_of_stream;
	struct rsk_reg *next_of_set, *next_ready, *prev_ready;
	struct rsk_reg **at_of_set; /* what leads to it there: a set may hold very many */
};

/* One set registered in another. */
struct rsk_nest {
	struct rsk_epoll *outer, *inner;
	int key_fd; /* the kernel's key */
	struct rsk_nest *next;
};

enum {
	RSK_EPOLL_BY_NONE,
	RSK_EPOLL_BY_RINGS,
	RSK_EPOLL_BY_KERNEL
};

struct rsk_epoll {
	struct rsk_lock
		lock; /* what follows, if nothing else is said, and its registrations; survives the set */
	_Atomic(uint32_t) fds;
	/*
	 * Registrations that others have news for: pushed under the chain lock, by who holds
	 * another set's or none; taken under the set's. Push, then look at sleepers; count as a
	 * sleeper, then take: all seq_cst.
	 */
	_Atomic(struct rsk_reg *) calls;
	_Atomic(int) epfd;     /* some fd of it: who uses the set says which; relaxed */
	struct rsk_shared kin; /* other processes may have it since a fork */
	_Atomic(bool)
		over;  /* streams in it have overread files: over.h; under the lock, read without */
	bool doubtful; /* since a fork, of which nobody knows yet whether it is over; lock */
	bool foreign; /* another process has changed what is registered: no stream in here is promoted; lock */
	int beacon;    /* eventfd that tells of overread files: epoll_over.c; -1: none; lock */
	bool remote;   /* a link to another host is among them: its news are completions */
	bool rang;     /* a bell was told of since the last look; lock */
	bool collides; /* the application's data look like our tag: no stream in here is promoted */
	_Atomic(bool) watched; /* polled itself, or in another set: its bells always announce */
	bool lit;
	/*
	 * Of a watched set with streams taken over: epoll_nest.c; else -1. Written under the lock;
	 * sub is read without: who sees it late sleeps on the set itself, which shows the sub-set.
	 */
	_Atomic(int) sub;
	int ready_fd;
	/*
	 * Changed under the lock, read without by who waits: it is looked again before a sleep, or
	 * it is woken.
	 */
	_Atomic(uint32_t) ninner;    /* under the family's: sets in this one */
	_Atomic(uint32_t) tagged;    /* registrations taken over, those parked as well */
	_Atomic(uint32_t) takeovers; /* ever; counted under the lock, read without */
	/*
	 * Threads in the kernel's wait with bells announced; changed under the lock, read by who
	 * calls.
	 */
	_Atomic(uint32_t) sleepers;
	uint32_t answer;  /* counts what waits return */
	uint32_t changed; /* counts registrations and changes of them; lock */
	uint32_t told_n;  /* the data of what the last answer told, the first ones; lock */
	uint64_t told[RSK_EPOLL_TOLD];
	uint8_t filled;		   /* RSK_EPOLL_BY_*: who had all of the last answer */
	_Atomic(uint32_t) spin_ns; /* relaxed: whoever waits */
	/*
	 * The registration that was told last, if level-triggered and its stream's only one: its
	 * ring is looked at itself, and its mark in the peer's ready map stays there, where it
	 * costs nobody a cache line. NULL: none. Under the lock.
	 */
	struct rsk_reg *hot;
	struct rsk_reg *last; /* told last, whatever it is; NULL: gone; under the lock */
	uint32_t kernel_idle; /* how often in a row the kernel had nothing for the application; under the lock */
	uint32_t kernel_calls; /* rsk_kernel_calls of who asked it last; under the lock */
	uint64_t kernel_ns;    /* when it was asked last, once that is often; under the lock */
	_Atomic(uint64_t)
		relief_ns; /* when a writer whose ring is full is to be taken back to TCP; 0: none; under the lock */
	/*
	 * Our tag is or was in it: what the kernel returns is looked through for ours. Stored,
	 * under the lock, before the first entry with the tag is put in, read without by who comes
	 * back from the kernel; never cleared, since a bell's news may come late (a child holds the
	 * eventfd).
	 */
	_Atomic(bool) belled;
	uint32_t nlinks; /* with links: changed under family, set's and chain lock, read under any of the last two */
	struct {
		struct rsk_link *l;
		uint32_t doorbell;
	} links[RSK_EPOLL_LINKS];
	struct rsk_reg *regs; /* whether there are any is read without a lock: relaxed */
	struct rsk_reg *ready, *ready_tail; /* the first one as well, by who spins */
	struct rsk_epoll *next_free;
};

/* Locks in this order, and then a stream's: docs/locks.md. */
struct rsk_epoll_family {
	struct rsk_lock lock; /* which registrations and sets there are, free ones, nests */
	/* Then a set's lock, never two. */
	struct rsk_lock
		chain; /* streams' registrations, sets' links: so that marks can be taken to all sets of a stream */
	uint64_t tag;
	struct rsk_reg *free_regs;
	struct rsk_epoll *free_sets;
	struct rsk_nest *nests;
};

struct rsk_epoll_family *rsk_epoll_family(void);

/* NULL: the stream is in no set. */
static inline struct rsk_epoll_family *rsk_epoll_family_of(const struct rsk_stream *s)
{
	return __atomic_load_n(&s->regs, __ATOMIC_RELAXED) ? rsk_epoll_family() : NULL;
}

struct rsk_epoll *rsk_epoll_of(int epfd);

/*
 * All of these with the set's lock held, but look_inside() and nest_ctl(); those marked + with the
 * family's as well.
 *
 * epoll.c: what the kernel's entry of a stream taken over says; on the ready list, off it;
 * registrations.
 */
struct epoll_event rsk_reg_event(const struct rsk_epoll_family *f, const struct rsk_reg *r);
void rsk_epoll_queue(struct rsk_reg *r);
void rsk_epoll_unqueue(struct rsk_reg *r); /* it is not the hot one any more either */

/* Used as @epfd, and so it can be named. */
static inline void rsk_epoll_name(struct rsk_epoll *e, int epfd)
{
	if (atomic_load_explicit(&e->epfd, memory_order_relaxed) != epfd)
		atomic_store_explicit(&e->epfd, epfd, memory_order_relaxed);
}

/* Off the ready list, on which it is. */
static inline void rsk_epoll_take_ready(struct rsk_reg *r)
{
	struct rsk_epoll *e = r->set;

	__atomic_store_n(r->prev_ready ? &r->prev_ready->next_ready : &e->ready, r->next_ready,
			 __ATOMIC_RELAXED);
	*(r->next_ready ? &r->next_ready->prev_ready : &e->ready_tail) = r->prev_ready;
	r->queued = false;
}

void rsk_epoll_take_called(struct rsk_epoll *e);

static inline void rsk_epoll_take_calls(struct rsk_epoll *e)
{
	if (__builtin_expect(atomic_load(&e->calls) != NULL, 0))
		rsk_epoll_take_called(e);
}

/*
 * News for a registration, from who does not hold its set's lock; who sleeps there is woken, and
 * who watches it. Chain lock held.
 */
void rsk_reg_call(struct rsk_reg *r);

struct rsk_reg *rsk_reg_new(struct rsk_epoll_family *f);	    /* + NULL: no memory */
void rsk_reg_unlink(struct rsk_epoll_family *f, struct rsk_reg *r); /* + */
/*
 * + Parked, with this process's number @fd: out of the kernel's set, and unlinked; not if only
 * others hold the set.
 */
void rsk_reg_drop(struct rsk_epoll_family *f, struct rsk_reg *r, int fd);
/* epoll_back.c: what the kernel's entry of one that is not taken over says. */
struct epoll_event rsk_reg_plain_event(const struct rsk_epoll_family *f, const struct rsk_reg *r);
/*
 * The same file: an event of the kernel's, @ev, of one that is not taken over, as the application
 * gets it; false: not.
 */
bool rsk_epoll_told_back(struct rsk_reg *r, struct epoll_event *ev);
int rsk_reg_take_over(struct rsk_epoll_family *f, struct rsk_reg *r); /* + 0 or -errno */
enum rsk_reason rsk_epoll_why_not(int rc);

/* epoll_doorbell.c */
uint64_t rsk_epoll_doorbell_bit(const struct rsk_epoll *e,
				const struct rsk_link *l); /* 0: none in it */
int rsk_epoll_ensure_doorbell(struct rsk_epoll_family *f, struct rsk_epoll *e,
			      struct rsk_link *l);  /* + put one in: 0 or -errno */
void rsk_epoll_ring(struct rsk_epoll *e);	    /* wake one sleeper; or chain lock held */
void rsk_epoll_give_doorbells(struct rsk_epoll *e); /* + */

/*
 * epoll_answer.c: what is true of a registration now; what an event of the kernel's tells; see the
 * definitions.
 */
short rsk_epoll_true_events(struct rsk_reg *r);
void rsk_epoll_news(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev);
void rsk_epoll_fall_back_full(struct rsk_epoll *e);

struct rsk_epoll_spot;

/*
 * Both fill @evs (of @max) with what there is now, and return how many; neither sleeps. The set's
 * lock is not held.
 *
 * rsk_epoll_gather - rings' and queued news, and the kernel's as well where there are any. 0: *spot
 * is where to spin. rsk_epoll_settle - behind the kernel's own wait, which has put @n events there;
 * @takeovers: the set's, as it was before that; @began_ns: when the wait began, 0: nothing is to be
 * learnt from it.
 */
int rsk_epoll_gather(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int max, struct rsk_epoll_spot *spot);
int rsk_epoll_settle(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int n, int max, uint32_t takeovers,
		     uint64_t began_ns);

/* epoll_wait.c */
void rsk_epoll_announce(struct rsk_epoll *e);

/* epoll_map.c */

/* One stream's mark in one link's ready map; l NULL: none. */
struct rsk_epoll_mark {
	const struct rsk_link *l;
	uint32_t sid;
};

/*
 * Where a spin looks, taken under the lock, used without: whatever another thread closes meanwhile,
 * what it leads to stays mapped while rsk_link_users counts the spinner.
 */
struct rsk_epoll_spot {
	const struct rsk_epoll *e;
	struct rsk_epoll_mark known;
	bool same_cpu; /* who was heard of last runs where we do: spinning would keep it from it */
	struct rsk_stream_peek glance;
};

void rsk_epoll_drain(struct rsk_epoll_family *f,
		     struct rsk_epoll *e); /* what the ready maps show, onto the ready list */
void rsk_epoll_check_at(struct rsk_epoll_spot *spot, const struct rsk_epoll *e);
bool rsk_epoll_spin(struct rsk_epoll_spot *spot); /* no lock; true: look again */
/* After a sleep that @began_ns: when the news came. */
uint64_t rsk_epoll_woken(const struct rsk_epoll *e, uint64_t began_ns);

/*
 * epoll_order.c: the first @k of @n events are the kernel's, the others rings': in the order in which
 * they became ready, as far as that is known.
 */
void rsk_epoll_arrange(const struct rsk_epoll *e, struct epoll_event *evs, int k, int n);
void rsk_epoll_told_as(struct rsk_epoll *e, uint64_t was, uint64_t data);
void rsk_epoll_remember_all(struct rsk_epoll *e, const struct epoll_event *evs, int n);

/* What an answer tells, for the order of the next one. */
static inline void rsk_epoll_remember(struct rsk_epoll *e, const struct epoll_event *evs, int n)
{
	if (__builtin_expect(n > 1, 0)) {
		rsk_epoll_remember_all(e, evs, n);
	} else {
		e->told[0] = evs[0].data.u64; /* there is room for one at least */
		e->told_n = (uint32_t)n;
	}
}

/* It is registered, or changed. */
static inline void rsk_epoll_note_data(struct rsk_epoll *e, struct rsk_reg *r, uint64_t data)
{
	if (__builtin_expect(e->told_n && r->data != data, 0))
		rsk_epoll_told_as(e, r->data, data);
	r->data = data;
	r->changed = ++e->changed;
}

/*
 * epoll_over.c: may bytes lie there of which neither the kernel nor a registration that was taken over tells? Before a
 * fork; + a registration was made or changed; what the set shows to who watches it.
 */
bool rsk_epoll_over_lies(const struct rsk_stream *s);
void rsk_epoll_over_fork(const struct rsk_epoll_family *f, struct rsk_epoll *e);
void rsk_epoll_over_paired(const struct rsk_epoll_family *f, struct rsk_epoll *e,
			   struct rsk_reg *r);
void rsk_epoll_over_show(const struct rsk_epoll_family *f, struct rsk_epoll *e);

/* epoll_fork.c */
bool rsk_epoll_adopt(struct rsk_epoll *e); /* + is it this process's alone, and as we know it? */
void rsk_reg_restore(struct rsk_epoll_family *f, struct rsk_reg *r); /* + epoll.c */
/*
 * What lies in overread files, with all that the kernel has; 0: nothing lies there that is to be
 * told. No lock held, nor for this: takes our events out of what the kernel has told; what is left
 * (epoll_wait.c; set's lock).
 */
int rsk_epoll_tell_over(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
			struct epoll_event *evs, int max);
int rsk_epoll_translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
			int n);

/* epoll_check.c */
bool rsk_epoll_validate(const struct rsk_epoll *e);

/* epoll_nest.c */

/* Where the kernel's entries of streams taken over are. */
static inline int rsk_epoll_kernel_set(const struct rsk_epoll *e)
{
	return e->sub >= 0 ? e->sub : e->epfd;
}

int rsk_epoll_sub(const struct rsk_epoll_family *f,
		  struct rsk_epoll *e); /* + make it: 0 or -errno */
void rsk_epoll_stir(
	struct rsk_epoll *e); /* something may be ready: sleepers, watchers are to look */
void rsk_epoll_show(struct rsk_epoll *e); /* keep on the ready list what is ready; set the lamp */
/* What has come to the sub-set and to the ready maps, onto the ready list; announced anew. */
void rsk_epoll_take_in(struct rsk_epoll_family *f, struct rsk_epoll *e);
/* rsk_epoll_check() at every set in this one. */
bool rsk_epoll_check_inside(struct rsk_epoll_family *f, struct rsk_epoll *e, uint64_t *until_ns);
struct rsk_epoll *rsk_epoll_new(int epfd); /* NULL: no memory; section */
int rsk_epoll_nest_ctl(struct rsk_epoll_family *f, int epfd, int op, int fd,
		       struct epoll_event *ev);
void rsk_epoll_sub_empty(const struct rsk_epoll *e);	/* our entries leave the set itself */
void rsk_epoll_sub_light(struct rsk_epoll *e, bool on); /* the lamp */
/* This process has no fd of the set any more. */
void rsk_epoll_nest_drop(const struct rsk_epoll *e);
void rsk_epoll_nest_closed(struct rsk_epoll_family *f, struct rsk_epoll *e);

#endif
