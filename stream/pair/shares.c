// SPDX-License-Identifier: BSD-2-Clause
/* shares.c - see shares.h. */
#include "shares.h"

#include <errno.h>
#include <string.h>

#include "pairing.h"
#include "log.h"
#include "stream.h"

#define LOOK_NS 1000000000ull

/* What the local socket brought and the keeper has not seen yet. Under the join lock. */
static struct {
	struct rsk_board board;
	bool is_new;
} came;

/* Of a port: what could not be given back at once. Of an earlier life nothing is. */
struct owed {
	bool is;
	uint32_t life;
	uint64_t need[RSK_BOARD_MEASURES]; /* of all of them */
};

/* Keeper only. */
static struct {
	struct rsk_board board;
	struct rsk_board_table table; /* as it was read last; all zero: it says nothing */
	uint32_t number;	      /* counts boards */
	uint64_t look_ns;
	struct owed owed[RSK_BOARD_PORTS];
} shares;

void rsk_shares_came(int fd, uint32_t number)
{
	struct rsk_board b = { 0 };
	int rc = fd < 0 ? 0 : rsk_board_attach(&b, fd, number);

	if (rc < 0)
		rsk_log(RSK_LOG_INFO, "rsockd's board cannot be used: %d", rc);
	rsk_board_detach(&came.board); /* one that nobody has looked at */
	came.board = b;
	came.is_new = true;
}

void rsk_shares_forked(void)
{
	rsk_board_detach(&came.board);
	rsk_board_detach(&shares.board);
	memset(&shares.table, 0, sizeof(shares.table));
	memset(&shares.owed, 0, sizeof(shares.owed));
	came.is_new = false;
}

/* ---- keeper ---- */

static bool take_over(void)
{
	bool is_new;

	rsk_pairing_take();
	is_new = came.is_new;
	if (is_new) {
		rsk_board_detach(&shares.board);
		shares.board = came.board;
		memset(&came, 0, sizeof(came));
	}
	rsk_pairing_give();
	if (!is_new)
		return false;
	memset(&shares.table, 0, sizeof(shares.table));
	memset(&shares.owed, 0, sizeof(shares.owed));
	shares.number++;
	shares.look_ns = 0;
	rsk_log(RSK_LOG_DEBUG, "rsockd's board: %s",
		rsk_board_is(&shares.board) ? "it is there" : "none");
	return true;
}

/* Others were at the record, or somebody keeps it busy: it is tried again. */
static bool is_busy(int rc)
{
	return rc == -EBUSY || rc == -EAGAIN;
}

static void give_owed(void)
{
	for (uint32_t i = 0; i < RSK_BOARD_PORTS; i++) {
		struct owed *o = &shares.owed[i];

		if (o->is && o->life == shares.board.life[i])
			o->is = is_busy(rsk_board_give(&shares.board, i, o->need));
		else
			o->is = false;
	}
}

/* Rails' shares are small, so the sum has room; what somebody has written on the table to make it none is not owed. */
static void owe(const struct rsk_share *s)
{
	struct owed *o = &shares.owed[s->port], more = { .is = true, .life = s->life };

	for (uint32_t i = 0; i < RSK_BOARD_MEASURES; i++)
		if (__builtin_add_overflow(s->need[i], o->is && o->life == s->life ? o->need[i] : 0,
					   &more.need[i]) ||
		    more.need[i] > RSK_RESERVE_MOST)
			return;
	*o = more;
}

bool rsk_shares_look(uint64_t now_ns)
{
	struct rsk_board_table t;
	bool changed = take_over();
	int rc;

	if (!rsk_board_is(&shares.board) || now_ns < shares.look_ns)
		return changed;
	shares.look_ns = now_ns + LOOK_NS;
	give_owed();
	rc = rsk_board_read(&shares.board, &t);
	if (rc < 0) {
		/* Being written: it stays as it was. Spoiled by somebody: it may be whole again. */
		rsk_log(RSK_LOG_DEBUG, "rsockd's board: %d", rc);
		return changed;
	}
	changed |= memcmp(&t, &shares.table, sizeof(t)) != 0;
	shares.table = t;
	return changed;
}

uint64_t rsk_shares_next(void)
{
	return rsk_board_is(&shares.board) ? shares.look_ns : UINT64_MAX;
}

uint64_t rsk_shares_owed_next(void)
{
	for (uint32_t i = 0; i < RSK_BOARD_PORTS; i++)
		if (shares.owed[i].is)
			return shares.look_ns;
	return UINT64_MAX;
}

uint32_t rsk_shares_port(const struct rsk_verbs_place *own, uint32_t n, uint32_t device)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t port =
			own[i].device != device ?
				RSK_BOARD_NOWHERE :
				rsk_board_find(&shares.table, own[i].addr.family, own[i].addr.ip);

		if (port != RSK_BOARD_NOWHERE)
			return port;
	}
	return RSK_BOARD_NOWHERE;
}

enum rsk_share_state rsk_shares_state(uint32_t port)
{
	if (port >= RSK_BOARD_PORTS)
		return RSK_SHARE_FREE;
	switch (shares.table.port[port].state) {
	case RSK_BOARD_NONE:
		return RSK_SHARE_FREE;
	case RSK_BOARD_UP:
		return shares.table.port[port].spare ? RSK_SHARE_SPARE : RSK_SHARE_UP;
	case RSK_BOARD_OVERLOADED:
		return RSK_SHARE_FULL;
	default:
		return RSK_SHARE_OUT;
	}
}

bool rsk_shares_spare(uint32_t port)
{
	return port < RSK_BOARD_PORTS && shares.table.port[port].spare;
}

const char *rsk_shares_name(uint32_t port)
{
	return port < RSK_BOARD_PORTS ? shares.table.port[port].name : "?";
}

static bool has(const struct rsk_share *s)
{
	return s->board && s->board == shares.number && s->life == shares.board.life[s->port];
}

int rsk_shares_take(struct rsk_share *s, uint32_t port)
{
	int rc;

	if (has(s) && s->port == port)
		return 0;
	rsk_shares_give(s);
	if (rsk_shares_state(port) == RSK_SHARE_FREE)
		return 0;
	rc = rsk_board_take(&shares.board, port, shares.table.need);
	if (rc < 0)
		return rc;
	*s = (struct rsk_share){ .board = shares.number,
				 .port = port,
				 .life = shares.board.life[port] };
	memcpy(s->need, shares.table.need, sizeof(s->need));
	return 0;
}

void rsk_shares_give(struct rsk_share *s)
{
	if (has(s) && rsk_board_is(&shares.board) &&
	    is_busy(rsk_board_give(&shares.board, s->port, s->need)))
		owe(s);
	*s = (struct rsk_share){ 0 };
}
