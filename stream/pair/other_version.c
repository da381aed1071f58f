// SPDX-License-Identifier: BSD-2-Clause
/* other_version.c - see other_version.h. pairing.c, rendezvous.c and stream/remote/ call it. */
#include "other_version.h"

#include "pm_steps.h"
#include "pm_transaction.h"
#include "tuple.h"

/*
 * The message is sent once: if the other end has no room for it, or does not look for its peer any
 * more, it goes on to say that it has found nobody.
 */
void rsk_other_version_stays(struct rsk_stream *s, int fd, struct rsk_link *l)
{
	struct rsk_link_version_msg m = { .fd = fd,
					  .cookie = rsk_cookie_of(fd),
					  .netns = s->tuple.netns,
					  .peer_fd = s->pairing.found.fd,
					  .apart = rsk_pm_transaction_met(s, l),
					  .tuple = s->tuple };

	rsk_link_version_send(l->control, &m);
	s->pairing.found.nonce = 0;
	rsk_stream_untrack(s, RSK_REASON_VERSION);
}

/* The end of ours that the message names, as a PAIR would: pinned, NULL: none that looks. */
static struct rsk_stream *named(const struct rsk_link *l, const struct rsk_link_version_msg *m)
{
	struct rsk_tuple ours = rsk_tuple_mirror(&m->tuple);
	int fd;

	ours.netns = 0;
	return m->apart ? rsk_pm_transaction_accepting_apart(l, m->peer_fd) :
			  rsk_pm_transaction_accepting(&ours, m->peer_fd, &fd);
}

/* Whoever could keep the stream on TCP by this could do so by holding its other end, too. */
void rsk_other_version_message(struct rsk_link *l, const struct rsk_link_version_msg *m)
{
	struct rsk_link_msg proof = {
		.fd = m->fd, .cookie = m->cookie, .netns = m->netns, .apart = m->apart
	};
	struct rsk_stream *s = named(l, m);

	if (!s)
		return;
	if (!rsk_pm_transaction_proof(s, l, &proof))
		rsk_stream_untrack(s, RSK_REASON_VERSION);
	rsk_stream_unpin(s);
}

void rsk_other_version_mapped(const struct rsk_tuple *ours)
{
	int fd;
	struct rsk_stream *s = rsk_pm_transaction_accepting(ours, -1, &fd);

	if (!s)
		return;
	rsk_stream_untrack(s, RSK_REASON_VERSION);
	rsk_stream_unpin(s);
}
