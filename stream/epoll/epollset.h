/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollset.h - the objects behind epoll.h: registrations, sets, nested sets. The epoll*.c files and
 * calls/fd.c include it.
 */
#ifndef RSK_EPOLLSET_H
#define RSK_EPOLLSET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "epoll_links.h"
#include "links.h"
#include "lock.h"
#include "stream.h"
#include "wait.h"

#define RSK_EPOLL_TAG_MASK 0xffffffff00000000ull
/*
 * In data.u64: tag | DOORBELL | the link's index in the set's table for a doorbell, RSK_EPOLL_NONE
 * for any other eventfd, RSK_EPOLL_THEIRS for the set in its private set (epoll_apart.c); tag |
 * arena offset of the registration otherwise.
 */
#define RSK_EPOLL_DOORBELL 0x80000000ull
#define RSK_EPOLL_THEIRS 0x7ffffffeu
#define RSK_EPOLL_TOLD 8

/*
 * One fd in one set, protected by the set's lock. Registrations are type-stable (they have their
 * own free list): an event that carries the tag of a freed one finds live == false, or another
 * registration.
 */
struct rsk_reg {
	/* Also read by a thread that holds another set's lock: relaxed. */
	struct rsk_epoll *set;
	struct rsk_stream *stream;
	/*
	 * The fd number in the kernel's key; -1: that number was closed, and a dup keeps the entry
	 * alive.
	 */
	int key_fd;
	uint32_t events; /* the application's */
	uint64_t data;
	bool live;
	/* Taken over: the kernel's entry carries our tag and reports edges to us. */
	bool tagged;
	/*
	 * Not taken over, but the kernel's entry carries our tag, so that we see it fire: for
	 * EPOLLONESHOT, or after the registration was given back.
	 */
	bool named;
	/* Given back after it had fired: the kernel would report its end (epoll_back.c). */
	bool mute;
	/* Given back: EPOLLOUT is not reported until @written changes (epoll_back.c). */
	bool quiet;
	bool armed; /* false: oneshot, fired */
	bool queued;
	/* Deleted by the application; still tagged, and not armed (epoll_ctl.c). */
	bool parked;
	/* The kernel has yet to report what was true at registration; that was reported already. */
	bool fresh;
	uint8_t listed; /* what the kernel's list says of it (epoll_adopt.c) */
	/* Tagged: the events in the kernel's entry. Bits are only added. */
	uint32_t kernel_events;
	/* EPOLLRDHUP, EPOLLHUP, EPOLLERR that were delivered. */
	uint32_t told_ends;
	/* Edge-triggered: bytes unknown to the kernel that were reported. */
	uint64_t over_told;
	/* The set's answer counter when this registration was last reported. */
	uint32_t answer;
	uint16_t answered; /* the events reported then */
	/* The stream's short_sends before the last check. */
	uint32_t shorts;
	/* The set's changed counter at the last EPOLL_CTL_ADD or MOD. */
	uint32_t changed;
	/* short_sends + 1 when an EPOLLOUT edge was last reported; 0: never. */
	uint32_t told_room;
	/* Quiet: bytes written to the TCP socket when it was given back. */
	uint64_t written;
	/* The ring's next index before the last check. */
	uint64_t index;
	/*
	 * On the set's calls list: set by the thread that pushes it, cleared by the thread that
	 * takes it.
	 */
	_Atomic(bool) called;
	struct rsk_reg *next_call;
	/*
	 * Changed under the family, set and chain locks; read under either the first or the last.
	 */
	struct rsk_reg *next_of_stream;
	struct rsk_reg *next_of_set, *next_ready, *prev_ready;
	/*
	 * The pointer that leads to it in the set's list, for O(1) removal: a set may hold very
	 * many.
	 */
	struct rsk_reg **at_of_set;
};

/* One set registered in another. */
struct rsk_nest {
	struct rsk_epoll *outer, *inner;
	int key_fd; /* the fd number in the kernel's key */
	struct rsk_nest *next;
};

/* struct rsk_epoll.besides */
#define RSK_EPOLL_REMOTE 1u /* a link leads to another host: its news arrives as completions */
#define RSK_EPOLL_RUNG 2u   /* the doorbell of an announced link was reported: epoll_links.h */

enum {
	RSK_EPOLL_BY_NONE,
	RSK_EPOLL_BY_RINGS,
	RSK_EPOLL_BY_KERNEL
};

struct rsk_epoll {
	/*
	 * Protects the fields below unless they say otherwise, and the set's registrations. The
	 * lock outlives the set.
	 */
	struct rsk_lock lock;
	/*
	 * These two outlive the set, too: a thread may sleep on it when it is closed.
	 *
	 * @on_set: low half: threads that may sleep on the kernel's set itself (epoll_apart.c);
	 * high half: the set's generation, by which such a thread knows whether it counts. Changed
	 * by any thread, read under the lock; seq_cst.
	 *
	 * @sleepers: threads in the kernel's wait with doorbells announced. Changed under the lock,
	 * read by threads that push to calls.
	 */
	_Atomic(uint64_t) on_set;
	_Atomic(uint32_t) sleepers;
	_Atomic(uint32_t) fds;
	/*
	 * Registrations for which other threads have news. Pushed under the chain lock, by a thread
	 * that holds another set's lock or none; taken under this set's lock. The pusher pushes,
	 * then checks for sleepers; a sleeper counts itself, then takes: all seq_cst.
	 */
	_Atomic(struct rsk_reg *) calls;
	/* One of its fds; each user of the set stores the one that it uses. Relaxed. */
	_Atomic(int) epfd;
	/* Other processes may hold the set since a fork. */
	struct rsk_shared kin;
	/*
	 * Streams in it have overread files (over.h), or unread bytes in a ring that they leave.
	 * Written under the lock, read without.
	 */
	_Atomic(bool) over;
	/*
	 * A fork happened, and it is not known yet whether the set is this process's alone again;
	 * lock.
	 */
	bool doubtful;
	/*
	 * Another process has changed the registrations: no stream in this set is promoted; lock.
	 */
	bool foreign;
	uint32_t unnamed; /* registrations whose key_fd is -1; lock */
	/* Eventfd that signals unread overread files (epoll_over.c); -1: none; lock. */
	int beacon;
	/*
	 * RSK_EPOLL_REMOTE, RSK_EPOLL_RUNG: what few sets have to check besides the ready maps.
	 * Written under the lock, read without by a thread that spins: relaxed.
	 */
	uint8_t besides;
	/* The kernel has reported a doorbell since the last check; lock. */
	bool rang;
	/*
	 * A thread that did not sleep has taken the event of a doorbell out of the kernel's set:
	 * that was to wake a sleeper, which is woken to announce again; lock.
	 */
	bool taken;
	/* The application's data look like our tag: no stream in this set is promoted. */
	bool collides;
	/* The set is polled itself, or is in another set: its doorbells are always announced. */
	_Atomic(bool) watched;
	bool lit;
	/*
	 * Of a watched set with streams taken over: epoll_nest.c; -1 otherwise. Written under the
	 * lock; sub is read without: a thread that reads an old value sleeps on the set itself,
	 * which shows the sub-set.
	 */
	_Atomic(int) sub;
	int ready_fd;
	/*
	 * Of a set that another process holds, too: epoll_apart.c. @private_set: a kernel set; -1:
	 * none yet; written under the lock before @apart is set, kept until the set is closed.
	 * @apart: the entries of ours are there; written under the lock, read without by a thread
	 * that is about to sleep (seq_cst, against @on_set). @kick: an eventfd that wakes who
	 * sleeps on the set itself; -1: none; written under the lock, read by a thread that no
	 * longer sleeps: kick(), which sets it, then reads @on_set; seq_cst.
	 */
	int private_set;
	_Atomic(int) kick;
	_Atomic(bool) apart;
	/*
	 * Changed under the lock, read without it by waiters: a waiter reads it again before it
	 * sleeps, or it is woken.
	 */
	_Atomic(uint32_t) ninner;    /* sets in this one; under the family lock */
	_Atomic(uint32_t) tagged;    /* registrations taken over, including parked ones */
	_Atomic(uint32_t) takeovers; /* total so far; counted under the lock, read without */
	/* Events that epoll_shown.c left out since a packet was taken; rsk_syn_taken then; lock. */
	uint32_t unshown, unshown_taken;
	uint32_t answer;  /* counts the results that waits return */
	uint32_t changed; /* counts EPOLL_CTL_ADD and MOD; lock */
	uint32_t told_n;  /* The data of the first events in the last result; lock. */
	uint64_t told[RSK_EPOLL_TOLD];
	uint8_t filled;		   /* RSK_EPOLL_BY_*: which side filled the last result */
	_Atomic(uint32_t) spin_ns; /* relaxed: any waiter */
	/*
	 * The registration that was reported last, if it is level-triggered and its stream's only
	 * one. The waiter polls its ring directly, and its bit in the ready map stays set, where it
	 * costs neither side a cache line. NULL: none. Under the lock.
	 */
	struct rsk_reg *busiest;
	/* Reported last, of any kind; NULL: gone; under the lock. */
	struct rsk_reg *last;
	/* How many times in a row the kernel had no event for the application; under the lock. */
	uint32_t kernel_idle;
	/* rsk_kernel_calls of the thread that asked the kernel last; under the lock. */
	uint32_t kernel_calls;
	/* When the kernel was asked last; kept once that happens often; under the lock. */
	uint64_t kernel_ns;
	/* When a writer whose ring is full falls back to TCP; 0: none; under the lock. */
	_Atomic(uint64_t) relief_ns;
	/*
	 * Our tag is or was in the kernel's set, so events that the kernel returns are searched for
	 * ours. Stored, under the lock, before the first entry with the tag is added; read without
	 * by a thread that comes back from the kernel. Never cleared, since a doorbell may be
	 * reported late (a child holds the eventfd).
	 */
	_Atomic(bool) belled;
	struct rsk_epoll_links links;
	/* Whether there are any is read without a lock: relaxed. */
	struct rsk_reg *regs;
	struct rsk_reg *ready, *ready_tail; /* a spinning thread also reads the first one */
	struct rsk_epoll *next_free;
};

/* Lock order: family, set, chain, then a stream's locks. See docs/locks.md. */
struct rsk_epoll_family {
	/* protects the lists of registrations and sets, free ones, nests */
	struct rsk_lock lock;
	/*
	 * Taken after a set's lock, of which a thread never holds two. Protects streams'
	 * registration lists and sets' links, so that ready bits can be passed to all sets of a
	 * stream.
	 */
	struct rsk_lock chain;
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

/* NULL: none. The family lock or the chain lock is held. */
static inline struct rsk_reg *rsk_reg_find(const struct rsk_stream *s, const struct rsk_epoll *e,
					   int fd)
{
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (r->set == e && r->key_fd == fd)
			return r;
	return NULL;
}

/*
 * All functions below need the set's lock, except rsk_epoll_check_inside() and
 * rsk_epoll_nest_ctl(); those marked + need the family lock as well.
 *
 * epoll_set.c: the kernel's entry for a stream that was taken over; adding to and removing from the
 * ready list; registrations.
 */
struct epoll_event rsk_reg_event(const struct rsk_epoll_family *f, const struct rsk_reg *r);
void rsk_epoll_queue(struct rsk_reg *r);
/* Also clears the set's busiest field if it is this registration. */
void rsk_epoll_unqueue(struct rsk_reg *r);

/* Stores @epfd as an fd of the set, so that later calls can name the set. */
static inline void rsk_epoll_name(struct rsk_epoll *e, int epfd)
{
	if (atomic_load_explicit(&e->epfd, memory_order_relaxed) != epfd)
		atomic_store_explicit(&e->epfd, epfd, memory_order_relaxed);
}

/* Removes @r from the ready list. @r is on it. */
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
 * Reports news for a registration from a thread that does not hold its set's lock; wakes a sleeper
 * there, and a watcher of the set. The chain lock is held.
 */
void rsk_reg_call(struct rsk_reg *r);

struct rsk_reg *rsk_reg_new(struct rsk_epoll_family *f);	    /* + NULL: no memory */
void rsk_reg_unlink(struct rsk_epoll_family *f, struct rsk_reg *r); /* + */
/*
 * + For a parked registration, with this process's number @fd: removes it from the kernel's set and
 * unlinks it. Does nothing if only other processes hold the set.
 */
void rsk_reg_drop(struct rsk_epoll_family *f, struct rsk_reg *r, int fd);
/* Wakes one sleeper. The chain lock may be held instead of the set's. */
void rsk_epoll_ring(struct rsk_epoll *e);
/* Peers ring the doorbells of the set from now on; each ringing takes the announcement back. */
void rsk_epoll_announce(struct rsk_epoll *e);
/* NULL: no memory. Call it within a signal-deferred section, without a lock. */
struct rsk_epoll *rsk_epoll_new(int epfd);

/* epoll_back.c: + gives a registration back to the kernel's set, if it is taken over. */
void rsk_reg_restore(struct rsk_epoll_family *f, struct rsk_reg *r);
/* The kernel's entry for a registration that is not taken over. */
struct epoll_event rsk_reg_plain_event(const struct rsk_epoll_family *f, const struct rsk_reg *r);
/*
 * Translates a kernel event @ev of a registration that is not taken over into what the application
 * gets; false: the event is dropped.
 */
bool rsk_epoll_told_back(struct rsk_reg *r, struct epoll_event *ev);

/*
 * epoll_shown.c - @ev, an event of the application's with EPOLLERR: removes what a segment caused
 * that the kernel has shown again. False: nothing is left. The set's lock is held.
 */
bool rsk_epoll_unshow(const struct rsk_epoll_family *f, struct rsk_epoll *e,
		      struct epoll_event *ev);

/* epoll.c */
int rsk_reg_take_over(struct rsk_epoll_family *f, struct rsk_reg *r); /* + 0 or -errno */
enum rsk_reason rsk_epoll_why_not(int rc);

/*
 * epoll_doorbell.c: + Adds the link's doorbell to the set, if it is not there: its number or
 * -errno.
 */
int rsk_epoll_ensure_doorbell(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_link *l);
void rsk_epoll_give_doorbells(struct rsk_epoll *e); /* + */

/* epoll_answer.c: what is true of a registration now; what a kernel event reports. */
short rsk_epoll_true_events(struct rsk_reg *r);
void rsk_epoll_news(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev);
/*
 * Removes our events from those that the kernel has reported, and returns how many are left (for
 * epoll_wait.c).
 */
int rsk_epoll_translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
			int n);
void rsk_epoll_fall_back_full(struct rsk_epoll *e);

struct rsk_epoll_spot;

/*
 * Both fill @evs (of @max) with the events there are now, and return how many; neither sleeps. The
 * set's lock is not held.
 *
 * rsk_epoll_gather - events of rings and queued registrations, and the kernel's where there are
 * any. On 0, *spot says where to spin.
 *
 * rsk_epoll_settle - called after the kernel's own wait, which has put @n events into @evs;
 * @takeovers: the set's counter before that wait; @began_ns: when the wait began, 0: the spin
 * budget is not adjusted.
 */
int rsk_epoll_gather(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int max, struct rsk_epoll_spot *spot);
int rsk_epoll_settle(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int n, int max, uint32_t takeovers,
		     uint64_t began_ns);

/* epoll_map.c */

/* One stream's bit in one link's ready map; l NULL: none. */
struct rsk_epoll_mark {
	const struct rsk_link *l;
	uint32_t sid;
};

/*
 * Where a spin looks. Taken under the lock, used without: if another thread closes something
 * meanwhile, the memory stays mapped as long as the spinning thread uses links (rsk_links_use()).
 */
struct rsk_epoll_spot {
	const struct rsk_epoll *e;
	struct rsk_epoll_mark known;
	/* The peer that was last heard of runs on this CPU: spinning would keep the CPU from it. */
	bool same_cpu;
	/* Of a spin with announced links: the kernel has an event of the set, which ended it. */
	bool kernel;
	uint32_t looks; /* of such a spin */
	struct rsk_stream_peek peek;
};

/*
 * drain - Moves what the ready maps show to the ready list; drain_link - that of one link, with the
 * chain lock held. spin - Takes no lock; true: check again; false: sleep, or ask the kernel. This
 * thread uses links meanwhile (rsk_links_use()), for a spin since the check that filled @spot.
 */
void rsk_epoll_drain(struct rsk_epoll_family *f, struct rsk_epoll *e);
void rsk_epoll_drain_link(const struct rsk_epoll *e, const struct rsk_link *l);
void rsk_epoll_check_at(struct rsk_epoll_spot *spot, const struct rsk_epoll *e);
bool rsk_epoll_spin(struct rsk_epoll_spot *spot);
/* After a sleep that began at @began_ns: when the news came. */
uint64_t rsk_epoll_woken(const struct rsk_epoll *e, uint64_t began_ns);

/*
 * epoll_over.c: whether bytes may lie there that neither the kernel nor a taken-over registration
 * reports; before a fork; + after a registration was added or changed; updates what the set shows
 * to its watchers.
 */
bool rsk_epoll_over_lies(const struct rsk_stream *s);
void rsk_epoll_over_fork(const struct rsk_epoll_family *f, struct rsk_epoll *e);
void rsk_epoll_over_paired(const struct rsk_epoll_family *f, struct rsk_epoll *e,
			   struct rsk_reg *r);
void rsk_epoll_over_show(const struct rsk_epoll_family *f, struct rsk_epoll *e);
/*
 * Reports what lies in overread files, together with all events of the kernel; 0: there is nothing
 * to report there. Takes the lock itself.
 */
int rsk_epoll_tell_over(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
			struct epoll_event *evs, int max);

/*
 * epoll_adopt.c: + True: the set is (again) this process's alone, and the kernel's entries are the
 * ones we know. False: it may be shared; try again, unless e->foreign.
 */
bool rsk_epoll_is_ours_again(struct rsk_epoll *e);
/*
 * + Of a set that another process holds, too: the kernel's entry of @r is as we know it, and only
 * this process can change it, since no other one has the socket.
 */
bool rsk_epoll_entry_is_ours(struct rsk_epoll *e, struct rsk_reg *r);

/* epoll_check.c */
bool rsk_epoll_validate(const struct rsk_epoll *e);

/* epoll_nest.c */

/* The kernel set that holds the entries of streams taken over. */
static inline int rsk_epoll_kernel_set(const struct rsk_epoll *e)
{
	return e->sub >= 0 ? e->sub : e->apart ? e->private_set : e->epfd;
}

/* Keeps only ready registrations on the ready list, and sets the ready eventfd accordingly. */
void rsk_epoll_show(struct rsk_epoll *e);
/* Moves what has come to the sub-set and to the ready maps to the ready list; announces again. */
void rsk_epoll_take_in(struct rsk_epoll_family *f, struct rsk_epoll *e);
/* Calls rsk_epoll_check() for every set in this one. */
bool rsk_epoll_check_inside(struct rsk_epoll_family *f, struct rsk_epoll *e, uint64_t *until_ns);
int rsk_epoll_nest_ctl(struct rsk_epoll_family *f, int epfd, int op, int fd,
		       struct epoll_event *ev);

/* epoll_sub.c */

/* + Creates the sub-set: 0 or -errno. */
int rsk_epoll_sub(const struct rsk_epoll_family *f, struct rsk_epoll *e);
/* Something may be ready: wakes sleepers and watchers. */
void rsk_epoll_stir(struct rsk_epoll *e);
/* removes our entries from the set itself */
void rsk_epoll_sub_empty(const struct rsk_epoll *e);
void rsk_epoll_sub_light(struct rsk_epoll *e, bool on); /* switches the ready eventfd */
/* Closes the eventfds when this process has no fd of the set any more. */
void rsk_epoll_nest_drop(const struct rsk_epoll *e);
void rsk_epoll_nest_closed(struct rsk_epoll_family *f, struct rsk_epoll *e);

#endif
