/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.h - reads and writes the files of the state directory. A thread writes them, since a disk
 * may be slow; that thread touches nothing but the bytes that it was given. A new file replaces the
 * old one only when it is on the disk. state.c and document_keep.c have a file each.
 */
#ifndef RSK_DISK_H
#define RSK_DISK_H

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A write has ended with 0 or -errno. Called from the event loop, and by rsk_disk_stop(). */
typedef void rsk_disk_done(void *ctx, int rc);

struct rsk_disk;

/* One file. The part of the daemon that writes it owns this. */
struct rsk_disk_file {
	struct rsk_disk *disk;
	struct rsk_disk_file *next;
	const char *name, *new_name; /* borrowed */
	rsk_disk_done *done;
	void *ctx;
	bool is_busy; /* bytes were given, and @done has not been called yet */
	/* Protected by the disk's lock, since the thread uses them, too */
	uint8_t *bytes; /* the thread's until it sets them to NULL */
	size_t n;
	bool is_ended;
	int result;
};

/* Only the event loop's thread uses it, except for the fields that are marked below. */
struct rsk_disk {
	char *path;  /* of the directory */
	int dir;     /* -1: it cannot be opened, and nothing is kept */
	int why_not; /* errno of that; 0: it is open */
	struct rsk_disk_file *files;
	struct event *on_told;
	bool is_started, is_stopped;
	pthread_t writer;
	pthread_mutex_t lock; /* protects the following fields, and those of the files */
	pthread_cond_t wake;
	int (*confine)(void);
	int confined; /* what confine() returned */
	bool up, ends;
	int told; /* eventfd: a write has ended */
};

/* Returns 0, also if there is no such directory, or -errno for lack of memory or descriptors. */
int rsk_disk_open(struct rsk_disk *d, struct event_base *base, const char *path);
/*
 * Starts the writer. It is called after rights are given up, so that the thread has no more than
 * the rest of the daemon. The thread first calls @confine. Returns 0 or -errno.
 */
int rsk_disk_start(struct rsk_disk *d, int (*confine)(void));
/* Waits until the writer has written what it was given, and ends it. */
void rsk_disk_stop(struct rsk_disk *d);
void rsk_disk_close(struct rsk_disk *d);

/* Reads a whole file. The caller frees *out. Returns 0 or -errno; -EFBIG: it has more bytes. */
int rsk_disk_read(const struct rsk_disk *d, const char *name, size_t most, uint8_t **out,
		  size_t *n);

/* @f has its names, @done and @ctx; the rest is zero. It stays there until rsk_disk_stop(). */
void rsk_disk_add(struct rsk_disk *d, struct rsk_disk_file *f);
/* True: the bytes are the writer's now. False: it is still busy with this file, or not there. */
bool rsk_disk_write(struct rsk_disk_file *f, uint8_t *bytes, size_t n);
/* Writes in here, after rsk_disk_stop(). Blocks. Returns 0 or -errno. */
int rsk_disk_write_last(struct rsk_disk_file *f, const uint8_t *bytes, size_t n);

#endif
