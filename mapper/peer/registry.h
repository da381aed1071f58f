/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry.h - posts one end of a connection, and finds the other. Called by streams that are worth
 * promoting: they post their own tuple and look for its mirror image.
 *
 * Every call first checks whether the descriptor still refers to the file that it opened (an
 * application may have closed or reused the descriptor, someone may have unlinked or overwritten
 * the file) and repairs what it can; a failure costs a missed pairing, never harm. An offer may be
 * lost at any time (there are few places and no lock): post again at each lookup; posting what is
 * there already writes nothing.
 *
 * A found offer is a hint. owner.h proves which process holds the socket.
 */
#ifndef RSK_MAPPER_REGISTRY_H
#define RSK_MAPPER_REGISTRY_H

#include <rsock/registry.h>
#include <sys/types.h>

/* Owned by the process; calls on one object are serialised by the caller. */
struct rsk_registry {
	int fd; /* -1: not open */
	dev_t dev;
	ino_t ino;
	uint64_t key;
	const char *base;    /* borrowed for the object's life */
	unsigned int number; /* which of the directory's names is used (registry_dir.h) */
	/* Moves a new descriptor to where the library keeps its own; or NULL */
	int (*place_fd)(int fd);
};

/*
 * Opens or makes the registry of the effective user below base (NULL: /dev/shm). place_fd, if
 * given, is handed each fd opened and returns the fd to use instead (having closed the other) or
 * -errno (having closed it). Returns 0; -EACCES: no directory, or not the file, belongs to this
 * user alone: there is no registry; other -errno. *reg is initialised in any case and may be passed
 * to every call below.
 */
int rsk_registry_open(struct rsk_registry *reg, const char *base, int (*place_fd)(int fd));

/* Closes the descriptor if it still is the registry's. */
void rsk_registry_close(struct rsk_registry *reg);

/*
 * Posts an offer: the caller sets pid, fd, tuple, sock_cookie, nonce, posted_ns (now)
 * and user.  Takes the place of an offer for the same tuple, else a free or damaged
 * place, else a dead process's, else the oldest of the probe window.
 * Returns 0 or -errno (-EINVAL, -ENOSPC, -EACCES, ...).
 */
int rsk_registry_post(struct rsk_registry *reg, const struct rsk_registry_entry *offer);

/*
 * Finds the newest valid offer for the mirror image of the caller's own tuple.
 * Returns 0 with a validated copy in *out, -ENOENT, or -errno.
 */
int rsk_registry_find(struct rsk_registry *reg, const struct rsk_tuple *mine,
		      struct rsk_registry_entry *out);

/* Removes the offer for this tuple with this nonce. Returns 0, -ENOENT or -errno. */
int rsk_registry_withdraw(struct rsk_registry *reg, const struct rsk_tuple *mine, uint64_t nonce);

/* Returns false if the poster's process is gone for certain (kill(pid, 0) says so). */
bool rsk_registry_alive(const struct rsk_registry_entry *entry);

/* --- the pure part, for tests and fuzzing ------------------------------------------------ */

/* First place of a tuple's probe window of RSK_REGISTRY_PROBES places. */
uint32_t rsk_registry_place(uint64_t key, const struct rsk_tuple *tuple);

/* Fills in magic and checksum for a place. */
void rsk_registry_seal(struct rsk_registry_entry *entry, uint64_t key, uint32_t place);

/* True if this is a complete entry that belongs to this place and has sane content. */
bool rsk_registry_validate(const struct rsk_registry_entry *entry, uint64_t key, uint32_t place);

/* Chooses the place of a window for an offer: 0 ... RSK_REGISTRY_PROBES - 1. */
unsigned int rsk_registry_choose(const struct rsk_registry_entry *window, uint64_t key,
				 uint32_t place, const struct rsk_tuple *tuple, uint64_t now_ns,
				 bool (*alive)(const struct rsk_registry_entry *));

/* Newest valid entry of a window with exactly this tuple, or -1. */
int rsk_registry_match(const struct rsk_registry_entry *window, uint64_t key, uint32_t place,
		       const struct rsk_tuple *tuple);

#endif /* RSK_MAPPER_REGISTRY_H */
