// SPDX-License-Identifier: BSD-2-Clause
/* explain.c - see explain.h. */
#include "explain.h"

#include "isolation.h"
#include "rsock.h"
#include "stats_json.h"
#include "tuple.h"

#include <inttypes.h>
#include <string.h>

static struct view view_of_reason(unsigned int reason)
{
	const struct rsk_reason_row *row = rsk_reason_row(reason);

	return (struct view){ row->token, row->sentence, row->cure };
}

/*
 * The process has the library, but the library has no record of the stream. Either it stopped
 * tracking new sockets, because the program set up an io_uring with SQPOLL, or a seccomp filter
 * that refuses what the library needs; or it never saw the socket opened (by an io_uring, for one).
 * A Go program makes its system calls without libc. At 0 to 2 the program may use stdio. Otherwise
 * the socket came through exec or from raw system calls; which of the two cannot be determined from
 * outside.
 */
static struct view view_unfollowed(const struct proc *p, int fd)
{
	if (p->io_uring == ANSWER_YES)
		return view_of_reason(RSK_REASON_IO_URING);
	if (p->seccomp > 0)
		return view_of_reason(RSK_REASON_SECCOMP);
	if (p->go)
		return view_of_reason(RSK_REASON_RAW_CALLS);
	if (fd >= 0 && fd <= 2)
		return view_of_reason(RSK_REASON_STDIO);
	return (struct view){
		rsk_reason_token(RSK_REASON_INHERITED),
		"got the socket through exec with an epoll set, or by raw system calls, which "
		"librsock.so does not see",
		"None; sockets that a program opens or accepts itself, through libc, are "
		"accelerated."
	};
}

struct view end_view(const struct end *end)
{
	const struct finding_row *row;
	enum finding finding;

	if (end->record) {
		if (stream_is_direct(end->record->stream))
			return (struct view){ "", "", "" };
		return view_of_reason(end->record->stream->reason);
	}
	if (!end->proc)
		return (struct view){ "unseen", "", "Run rsock as its user or as root." };
	finding = proc_finding(end->proc);
	row = finding_row(finding);
	if (finding == FINDING_READY)
		return view_unfollowed(end->proc, end->fd);
	return (struct view){ row->token, row->sentence, row->cure };
}

static const char *cure_of(const struct connection *c)
{
	static const unsigned int says_the_other[] = { RSK_REASON_NO_PEER, RSK_REASON_PEER_DENIED,
						       RSK_REASON_PEER_FELL_BACK,
						       RSK_REASON_LINK_ERROR };

	if (c->direct == ANSWER_YES)
		return "";
	if (c->far_is_remote)
		return c->near.record ? c->near_view.cure :
					rsk_reason_row(RSK_REASON_NO_RSOCKD)->cure;
	if (c->near.socket && !c->far.socket && c->far.record)
		return c->far_view.cure;
	if (!c->near.record)
		return c->near_view.cure;
	for (size_t i = 0; i < sizeof(says_the_other) / sizeof(says_the_other[0]); i++)
		if (c->near.record->stream->reason == says_the_other[i] && *c->far_view.token &&
		    !(c->far.record && c->far.record->stream->reason == says_the_other[i]))
			return c->far_view.cure;
	return c->near_view.cure;
}

/* The records of the two ends may change at different moments; one direct end decides for both. */
static void set_direct(struct connection *c)
{
	c->near_view = c->near.record ? (struct view){ "", "", "" } : c->near_view;
	c->far_view = c->far.record ? (struct view){ "", "", "" } : c->far_view;
}

void connection_explain(struct host *host, const struct rsk_tuple *near, pid_t pid,
			struct connection *out)
{
	struct rsk_tuple mirror = rsk_tuple_mirror(near);
	int err = 0;

	memset(out, 0, sizeof(*out));
	if (!nettab_find(&host->sockets, &mirror) && host_has_address(near->family, near->peer))
		err = host_look_again(host);
	/* The explanation goes by the first reading then. */
	if (err)
		failure("/proc cannot be read a second time, an end of a new connection may be "
			"missing: %s",
			strerror(-err));
	host_end(host, near, pid, &out->near);
	host_end(host, &mirror, 0, &out->far);
	out->near_view = end_view(&out->near);
	if (out->near.socket && !out->far.socket && out->far.record) {
		/*
		 * A veth pair between two namespaces of this host: the record still names the
		 * process.
		 */
		out->far_view = view_of_reason(RSK_REASON_OTHER_NETNS);
	} else if (out->far.socket || out->far.record) {
		out->far_view = end_view(&out->far);
	} else {
		out->far_is_remote = !host_has_address(near->family, near->peer);
		out->far_view = view_of_reason(RSK_REASON_TRANSLATED);
		if (out->far_is_remote)
			out->far_view = (struct view){
				"other-host",
				"is on another host, or in another network namespace of this host",
				""
			};
	}
	if ((out->near.record && stream_is_direct(out->near.record->stream)) ||
	    (out->far.record && stream_is_direct(out->far.record->stream)))
		out->direct = ANSWER_YES;
	else
		out->direct = out->near.record || out->near.proc || out->far.proc ||
					      out->far_is_remote ?
				      ANSWER_NO :
				      ANSWER_UNKNOWN;
	if (out->direct == ANSWER_YES)
		set_direct(out);
	else if (out->near.proc && out->far.proc)
		out->apart = isolated_by(out->near.proc->pid, out->far.proc->pid);
	out->cure = cure_of(out);
}

static void who_print(const struct end *end)
{
	if (end->proc)
		printf("%s (%d)", end->proc->comm, end->proc->pid);
}

/* The owner of a socket whose process cannot be read. */
static const char *whose(const struct end *end, char buf[static 33])
{
	return end->socket ? user_text(buf, end->socket->uid) : "(unknown)";
}

static const char *way(const struct rsk_stats_stream *s)
{
	if (s->tx == s->rx)
		return "accelerated";
	return s->tx == RSK_PATH_RING ? "accelerated when sending; it still receives by TCP" :
					"accelerated when receiving; it still sends by TCP";
}

/* A reason's sentence is complete; a finding's continues after the program's name. */
static bool is_sentence(const char *text)
{
	return *text >= 'A' && *text <= 'Z';
}

static void print_near(const struct connection *c)
{
	const struct end *end = &c->near;
	char user[33];

	if (end->record && !*c->near_view.token)
		printf("%s\n", way(end->record->stream));
	else if (end->record)
		printf("on TCP: %s: %s\n", c->near_view.token, c->near_view.sentence);
	else if (end->proc && is_sentence(c->near_view.sentence))
		printf("on TCP: %s: %s\n", c->near_view.token, c->near_view.sentence);
	else if (end->proc)
		printf("on TCP: %s (%d) %s.\n", end->proc->comm, end->proc->pid,
		       c->near_view.sentence);
	else if (end->socket)
		printf("held by a process of user %s that cannot be read\n", whose(end, user));
	else
		puts("the socket no longer exists");
}

static void print_far(const struct connection *c)
{
	const struct end *end = &c->far;
	char user[33];

	if (c->direct == ANSWER_YES && !*c->far_view.token) {
		if (end->proc) {
			printf("      with ");
			who_print(end);
			putchar('\n');
		}
		return;
	}
	printf("      The other end");
	if (end->proc)
		printf(", %s (%d)", end->proc->comm, end->proc->pid);
	if (c->far_is_remote)
		puts(" is on another host, or in another network namespace of this host.");
	else if (!end->socket && !end->record)
		puts(" is not in this network namespace, or an address is translated.");
	else if (!end->proc && end->socket && !end->socket->inode)
		puts(" has not been accepted yet, or is already closed.");
	else if (!end->proc)
		printf(" is held by a process of user %s that cannot be read.\n", whose(end, user));
	else if ((end->record || is_sentence(c->far_view.sentence)) && *c->far_view.token)
		printf(": %s: %s\n", c->far_view.token, c->far_view.sentence);
	else if (*c->far_view.token)
		printf(", %s.\n", c->far_view.sentence);
	else
		puts(": nothing there prevents acceleration.");
	if (end->holders > 1)
		printf("      %zu processes hold it.\n", end->holders);
}

/*
 * The reason and its cure name one namespace; prints the others that the two processes do not
 * share.
 */
static void print_isolation(const struct connection *c)
{
	if (!c->near.record ||
	    isolated_first(c->apart) != (enum rsk_reason)c->near.record->stream->reason)
		return;
	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++)
		if ((c->apart >> i & 1) && i != c->near.record->stream->reason)
			printf("      Also: %s: %s\n", rsk_reason_token(i),
			       rsk_reason_row(i)->cure);
}

/* The user of an end's process, or of its socket. False: neither can be read. */
static bool user_of(const struct end *end, uid_t *uid)
{
	if (!end->proc && !end->socket)
		return false;
	*uid = end->proc ? end->proc->euid : end->socket->uid;
	return true;
}

/* The cure of other-user, as a line to type. */
static void print_users(const struct connection *c)
{
	char near[33], far[33];
	uid_t a, b;

	if (!c->near.record || c->near.record->stream->reason != RSK_REASON_OTHER_USER ||
	    !user_of(&c->near, &a) || !user_of(&c->far, &b) || a == b)
		return;
	printf("      Here: usermod -aG rsock %s && usermod -aG rsock %s && "
	       "systemctl reload rsockd\n",
	       user_text(near, a), user_text(far, b));
}

void connection_print(const struct connection *c)
{
	const struct rsk_tuple *t = &c->near.tuple;
	char local[RSK_ADDR_TEXT], peer[RSK_ADDR_TEXT];

	rsk_addr_text(t->family, t->local, t->local_port, local);
	rsk_addr_text(t->family, t->peer, t->peer_port, peer);
	printf("  %s - %s", local, peer);
	if (c->near.fd >= 0)
		printf(", fd %d", c->near.fd);
	printf(": ");
	print_near(c);
	if (c->near.holders > 1)
		printf("      %zu processes hold it.\n", c->near.holders);
	print_far(c);
	if (*c->cure)
		printf("      Cure: %s\n", c->cure);
	print_users(c);
	print_isolation(c);
}

static json_t *end_json(const struct end *end, const struct view *view)
{
	const struct rsk_stats_stream *s = end->record ? end->record->stream : NULL;
	char local[RSK_ADDR_TEXT];

	rsk_addr_text(end->tuple.family, end->tuple.local, end->tuple.local_port, local);
	return json_pack("{s:s,s:o,s:s?,s:o,s:I,s:s,s:s,s:s,s:s?,s:s?}", "address", local, "pid",
			 end->proc ? json_integer(end->proc->pid) : json_null(), "comm",
			 end->proc ? end->proc->comm : NULL, "fd",
			 end->fd >= 0 ? json_integer(end->fd) : json_null(), "holders",
			 (json_int_t)end->holders, "reason",
			 *view->token ? view->token : rsk_reason_token(RSK_REASON_DIRECT),
			 "sentence", view->sentence, "cure", view->cure, "tx",
			 s ? rsk_path_token(s->tx) : NULL, "rx", s ? rsk_path_token(s->rx) : NULL);
}

json_t *connection_json(const struct connection *c)
{
	json_t *apart = json_array();

	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++)
		if (c->apart >> i & 1)
			json_array_append_new(apart, json_string(rsk_reason_token(i)));
	return json_pack("{s:o,s:o,s:o,s:s,s:o}", "accelerated",
			 c->direct == ANSWER_UNKNOWN ? json_null() :
						       json_boolean(c->direct == ANSWER_YES),
			 "end", end_json(&c->near, &c->near_view), "other_end",
			 end_json(&c->far, &c->far_view), "cure", c->cure, "apart", apart);
}

void proc_print(const struct proc *p)
{
	const struct finding_row *row = finding_row(proc_finding(p));
	char notes[PROC_NOTES][160];
	size_t n = proc_notes(p, notes);

	if (p->there)
		printf("%s (%d) %s.\n", p->comm, p->pid, row->sentence);
	else
		printf("%d %s.\n", p->pid, row->sentence);
	for (size_t i = 0; i < n; i++)
		printf("    %s\n", notes[i]);
	if (*row->cure)
		printf("    Cure: %s\n", row->cure);
}
