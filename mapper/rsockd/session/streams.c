// SPDX-License-Identifier: BSD-2-Clause
/*
 * streams.c - see streams.h: takes the segments, for each of which it keeps a descriptor, and
 * remembers them for a while. streams_read.c reads them.
 */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "streams_parts.h"
#include <utlist.h>

#define REMEMBERED_MOST 1024
#define REMEMBERED_OF_USER 128
/* A stream that ended up to so much earlier than its segment was taken is counted. */
#define ENDED_BEFORE_NS 1000000000ull

const char *rsk_stream_mode_name(enum rsk_stream_mode mode)
{
	static const char *const names[RSK_STREAM_MODES] = {
		[RSK_STREAM_TCP] = "tcp",
		[RSK_STREAM_HALF] = "half",
		[RSK_STREAM_DIRECT] = "direct",
	};

	return names[mode];
}

static void add(struct rsk_streams_counters *to, const struct rsk_streams_counters *n)
{
#define X(name, text) to->name += n->name;
	RSK_STREAMS_COUNTERS(X)
#undef X
	to->ring_bytes += n->ring_bytes;
	to->tcp_bytes += n->tcp_bytes;
	for (int i = 0; i < RSK_STATS_REG_COUNT; i++)
		to->registrations[i] += n->registrations[i];
	for (int i = 0; i < RSK_STATS_VERBS_COUNT; i++)
		to->verbs[i] += n->verbs[i];
}

/* ---- users ---- */

static struct rsk_streams_user *user_of(struct rsk_streams *all, uint32_t uid)
{
	struct rsk_streams_user *u;

	HASH_FIND(hh, all->users, &uid, sizeof(uid), u);
	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->left = RSK_STREAMS_RECORDS_OF_USER;
	HASH_ADD(hh, all->users, uid, sizeof(uid), u);
	return u;
}

static void user_put(struct rsk_streams *all, struct rsk_streams_user *u)
{
	if (u->segments || u->remembered)
		return;
	HASH_DEL(all->users, u);
	free(u);
}

/* ---- taking and giving back ---- */

/*
 * Checks seals and size, and reads the first fields of the header. The size has to be fixed: a
 * process that could grow the file could keep the kernel busy with it, and make us wait.
 */
static bool is_segment(int fd, const struct stat *st, struct rsk_stats_header *h)
{
	int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_SHRINK | F_SEAL_GROW;

	return seals >= 0 && (seals & wanted) == wanted &&
	       st->st_size == sizeof(struct rsk_stats_segment) &&
	       rsk_streams_read_all(fd, h, offsetof(struct rsk_stats_header, spare), 0) &&
	       h->magic == RSK_STATS_MAGIC && h->version == RSK_STATS_VERSION &&
	       h->bytes == sizeof(struct rsk_stats_segment);
}

static struct rsk_streams_segment *find(const struct rsk_streams *all,
					const struct rsk_streams_identity *id)
{
	struct rsk_streams_segment *s;

	HASH_FIND(hh, all->segments, id, sizeof(*id), s);
	return s;
}

static void forget(struct rsk_streams *all, struct rsk_streams_segment *s)
{
	add(&all->gone, &s->last);
	DL_DELETE(all->remembered, s);
	all->n_remembered--;
	s->user->remembered--;
	user_put(all, s->user);
	HASH_DEL(all->segments, s);
	free(s);
}

/* A user whose processes come and go all the time displaces only the user's own segments. */
static void remember(struct rsk_streams *all, struct rsk_streams_segment *s)
{
	struct rsk_streams_segment *oldest = all->remembered;

	DL_APPEND(all->remembered, s);
	s->user->remembered++;
	all->n_remembered++;
	if (s->user->remembered > REMEMBERED_OF_USER)
		while (oldest->user != s->user)
			oldest = oldest->next;
	else if (all->n_remembered <= REMEMBERED_MOST)
		return;
	forget(all, oldest ? oldest : s);
}

static void hold(struct rsk_streams *all, struct rsk_streams_segment *s, int fd, uint64_t now_ns)
{
	s->fd = fd;
	s->refs = 1;
	s->of_many = false;
	s->taken_ns = now_ns;
	s->read_ns = now_ns > ENDED_BEFORE_NS ? now_ns - ENDED_BEFORE_NS : 0;
	s->user->segments++;
	all->n++;
	/* Read before those that have been read already. */
	DL_PREPEND(all->held, s);
}

static struct rsk_streams_segment *make(struct rsk_streams *all,
					const struct rsk_streams_identity *id, uint64_t created_ns,
					struct rsk_streams_user *user)
{
	struct rsk_streams_segment *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->id = *id;
	s->user = user;
	s->created_ns = created_ns;
	HASH_ADD(hh, all->segments, id, sizeof(s->id), s);
	return s;
}

/*
 * Uses the remembered segment if it is the same file, of the same user; else makes a new one. NULL:
 * out of memory.
 */
static struct rsk_streams_segment *again(struct rsk_streams *all, struct rsk_streams_segment *s,
					 const struct rsk_streams_identity *id, uint64_t created_ns,
					 struct rsk_streams_user *user)
{
	if (s && (created_ns != s->created_ns || s->user != user)) {
		user->segments++; /* so that forget() does not free the user */
		forget(all, s);
		user->segments--;
		s = NULL;
	}
	if (!s)
		return make(all, id, created_ns, user);
	DL_DELETE(all->remembered, s);
	all->n_remembered--;
	user->remembered--;
	return s;
}

struct rsk_streams_segment *rsk_streams_take(struct rsk_streams *all, int fd, uint32_t uid,
					     uint64_t now_ns)
{
	struct rsk_streams_segment *s;
	struct rsk_streams_user *user;
	struct rsk_stats_header h;
	struct rsk_streams_identity id;
	struct stat st;
	int own;

	/*
	 * The seals first: a file that is not a memfd may be on a file system whose server never
	 * answers fstat().
	 */
	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0) {
		all->refused++;
		return NULL;
	}
	id = (struct rsk_streams_identity){ st.st_dev, st.st_ino };
	s = find(all, &id);
	if (s && s->refs) {
		s->of_many |= s->user->uid != uid;
		s->refs++;
		return s;
	}
	user = user_of(all, uid);
	if (!user)
		return NULL;
	if (!is_segment(fd, &st, &h) || all->n >= all->max || user->segments >= all->max / 2)
		goto no;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		goto no;
	s = again(all, s, &id, h.created_ns, user);
	if (s) {
		hold(all, s, own, now_ns);
		return s;
	}
	close(own);
no:
	all->refused++;
	user_put(all, user);
	return NULL;
}

void rsk_streams_figures(struct rsk_streams *all, struct rsk_streams_figures *out)
{
	*out = (struct rsk_streams_figures){ .count = all->gone };
	for (struct rsk_streams_segment *s = all->segments; s; s = s->hh.next) {
		for (int m = 0; m < RSK_STREAM_MODES; m++)
			for (unsigned int r = 0; r < RSK_REASON_COUNT; r++)
				out->open[m][r] += s->open[m][r];
		add(&out->count, &s->last);
	}
}

/* ---- the end ---- */

void rsk_streams_put(struct rsk_streams *all, struct rsk_streams_segment *s, uint64_t now_ns)
{
	if (!s || --s->refs)
		return;
	/*
	 * A process that comes and goes all the time gets no larger share of the reading than one
	 * that stays.
	 */
	if (s->user->left)
		rsk_streams_charge(s->user, rsk_streams_read_segment(all, s, now_ns));
	else
		all->put_off++;
	rsk_streams_unfollow(s);
	memset(s->open, 0, sizeof(s->open));
	close(s->fd);
	s->fd = -1;
	all->n--;
	s->user->segments--;
	DL_DELETE(all->held, s);
	remember(all, s);
}

void rsk_streams_fini(struct rsk_streams *all)
{
	struct rsk_streams_segment *s = all->segments, *next;
	struct rsk_streams_user *u = all->users, *other;

	/* The tables are emptied; their entries are still linked as a list. */
	HASH_CLEAR(hh, all->segments);
	HASH_CLEAR(hh, all->users);
	for (; s; s = next) {
		next = s->hh.next;
		if (s->fd >= 0)
			close(s->fd);
		free(s->followed);
		free(s);
	}
	for (; u; u = other) {
		other = u->hh.next;
		free(u);
	}
}
