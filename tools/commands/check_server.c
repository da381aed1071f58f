// SPDX-License-Identifier: BSD-2-Clause
/*
 * check_server.c - rsock check: opens a connection without sending a byte, finds the process that
 * has its other end, and predicts whether the stream would be accelerated. See check.h.
 */
#include "check.h"

#include "isolation.h"
#include "echo.h"
#include "library.h"
#include "rsock.h"
#include "tuple.h"
#include "vouch.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rsock/clock.h>

#define TIMEOUT_NS UINT64_C(2000000000)
/* A server that sets options on what it has accepted has done so by then. */
#define SETTLED_NS UINT64_C(50000000)

/* The prediction. */
struct verdict {
	enum answer would; /* it would be accelerated */
	struct view view;
	const struct proc *proc; /* the server's process; NULL: it cannot be read */
	const char *how;	 /* why it would be accelerated */
	bool accepted;		 /* proc has accepted the connection; else it is the listener's */
	bool early;		 /* the server is just after accept(): check again soon */
};

static struct view reason_view(unsigned int reason)
{
	const struct rsk_reason_row *row = rsk_reason_row(reason);

	return (struct view){ row->token, row->sentence, row->cure };
}

/*
 * Waits until a process has accepted the connection or the deadline is reached. Servers that are
 * busy or wait for data first may accept late or never.
 */
static void wait_accepted(const struct rsk_tuple *far, uint64_t deadline_ns)
{
	const struct timespec pause = { 0, 5000000 };
	bool accepted = false;

	while (!accepted && rsk_monotonic_ns() < deadline_ns) {
		const struct sock_row *row;
		struct nettab tab;

		if (nettab_read(0, &tab))
			return;
		row = nettab_find(&tab, far);
		/* Not found: it is on another host or in another namespace. */
		accepted = !row || row->inode;
		nettab_free(&tab);
		if (!accepted)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
}

/* The process that listens on the address to which this connection goes. */
static const struct proc *listener(struct host *host, const struct rsk_tuple *far)
{
	static const uint8_t any[16];

	for (size_t i = 0; i < host->sockets.count; i++) {
		const struct sock_row *row = &host->sockets.row[i];
		const struct holder *h;
		size_t n;

		if (row->state != TCP_LISTEN || row->tuple.local_port != far->local_port ||
		    (memcmp(row->tuple.local, any, 16) != 0 &&
		     memcmp(row->tuple.local, far->local, 16) != 0))
			continue;
		h = holders_of(&host->holders, row->inode, &n);
		if (h)
			return host_proc(host, h->pid);
	}
	return NULL;
}

/* Reasons that a stream has before it has carried anything; they are not obstacles. */
static bool still_open(unsigned int reason)
{
	return reason == RSK_REASON_NOT_EARNED || reason == RSK_REASON_NO_PEER ||
	       reason == RSK_REASON_DIRECT;
}

static void no(struct verdict *v, unsigned int reason)
{
	v->would = ANSWER_NO;
	v->view = reason_view(reason);
}

/*
 * The kernel shows no such end here. rsockd brings the two together if they are containers of one
 * host; it asks the port mapper of another host, or says why it cannot. @theirs: a library's record
 * shows that the other end is in another network namespace.
 */
static void judge_away(int fd, uint64_t deadline_ns, bool theirs, struct verdict *v)
{
	bool by_syn;
	enum rsk_reason why = vouch_ask(fd, deadline_ns, &by_syn);

	if (by_syn) {
		v->would = ANSWER_UNKNOWN;
		v->view = (struct view){
			"unseen",
			"The other end is not in this container. If it is on this host and has the "
			"library, rsockd brings the two ends together once the stream has carried "
			"bytes.",
			"Run rsock check --serve PORT there, and rsock check --echo HOST PORT here."
		};
		return;
	}
	if (why != RSK_REASON_MAPPED) {
		no(v, theirs ? RSK_REASON_OTHER_NETNS : why);
		return;
	}
	v->would = ANSWER_YES;
	v->how = "the port mapper of the other host maps it to RDMA";
}

/* The server's process cannot be read: it is another user's. */
static void judge_unseen(const struct sock_row *socket, int fd, uint64_t deadline_ns,
			 struct verdict *v)
{
	bool theirs = socket->inode && socket->uid != geteuid() &&
		      vouch_ask(fd, deadline_ns, NULL) != RSK_REASON_DIRECT;

	v->would = theirs ? ANSWER_NO : ANSWER_UNKNOWN;
	v->view = theirs ? reason_view(RSK_REASON_OTHER_USER) :
			   (struct view){ "unseen", "The server's process cannot be read.",
					  "Run rsock as its user or as root." };
}

/* The server's process has the library; checks the other obstacles. */
static void judge_ready(const struct end *end, int fd, uint64_t deadline_ns, struct verdict *v)
{
	uint64_t isolation = isolated_by(getpid(), v->proc->pid);
	bool same = v->proc->euid == geteuid();

	if (!same && vouch_ask(fd, deadline_ns, NULL) != RSK_REASON_DIRECT) {
		no(v, RSK_REASON_OTHER_USER);
	} else if (isolation) {
		no(v, isolated_first(isolation));
	} else if (end->fd >= 0 && end->fd <= 2 && !end->record) {
		no(v, RSK_REASON_STDIO);
	} else if (end->record && !still_open(end->record->stream->reason)) {
		no(v, end->record->stream->reason);
	} else if (end->holders > 1) {
		v->early = true; /* a forking server: a child may get it alone */
		no(v, RSK_REASON_SHARED_HOLDER);
	} else if (v->accepted && !end->record) {
		v->early = true;
		v->view = end_view(end);
	} else {
		v->early = end->record &&
			   rsk_monotonic_ns() - end->record->stream->opened_ns < SETTLED_NS;
		v->would = ANSWER_YES;
		v->how = same ? "both ends have the library, one user, one network namespace" :
				"both ends have the library, and rsockd vouches for the two users";
	}
}

static void judge(struct host *host, const struct rsk_tuple *near, int fd, uint64_t deadline_ns,
		  struct verdict *v)
{
	struct rsk_tuple far = rsk_tuple_mirror(near);
	enum finding finding;
	struct end end;

	memset(v, 0, sizeof(*v));
	v->view = (struct view){ "", "", "" };
	v->how = "";
	v->would = ANSWER_NO;
	host_end(host, &far, 0, &end);
	v->accepted = end.proc;
	/*
	 * After accept(), the socket appears first, then its descriptor, then the library's record.
	 */
	v->early = end.socket && end.socket->inode && !end.proc && !host->holders.unreadable;
	v->proc = end.proc ? end.proc : listener(host, &far);
	if (!end.socket && end.record) {
		v->proc = end.proc;
		judge_away(fd, deadline_ns, true, v);
		return;
	}
	if (!end.socket && host_has_address(far.family, far.local)) {
		v->proc = NULL;
		no(v, RSK_REASON_TRANSLATED);
		return;
	}
	if (!end.socket) {
		v->proc = NULL;
		judge_away(fd, deadline_ns, false, v);
		return;
	}
	if (!v->proc) {
		judge_unseen(end.socket, fd, deadline_ns, v);
		return;
	}
	finding = proc_finding(v->proc);
	if (finding != FINDING_READY) {
		const struct finding_row *row = finding_row(finding);

		v->view = (struct view){ row->token, row->sentence, row->cure };
		v->would = finding == FINDING_UNREADABLE || finding == FINDING_OTHER_VERSION ?
				   ANSWER_UNKNOWN :
				   ANSWER_NO;
		return;
	}
	judge_ready(&end, fd, deadline_ns, v);
}

/*
 * Judges until the prediction is final or the deadline is reached. The caller frees @host, unless
 * this fails. 0 or -errno.
 */
static int look(const struct rsk_tuple *near, int fd, uint64_t deadline_ns, struct host *host,
		struct verdict *v)
{
	struct timespec pause = { 0, 5000000 };
	int err;

	for (;;) {
		err = host_take(0, host);
		if (err)
			return err;
		judge(host, near, fd, deadline_ns, v);
		if (!v->early || rsk_monotonic_ns() >= deadline_ns)
			return 0;
		host_free(host);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		if (pause.tv_nsec < 100000000)
			pause.tv_nsec *= 2;
	}
}

static int tell_json(const char *address, const struct verdict *v)
{
	return json_print(
		json_pack("{s:s,s:o,s:b,s:s,s:s,s:s,s:o}", "address", address, "accelerated",
			  v->would == ANSWER_UNKNOWN ? json_null() :
						       json_boolean(v->would == ANSWER_YES),
			  "accepted", v->accepted, "reason",
			  *v->view.token ? v->view.token : rsk_reason_token(RSK_REASON_DIRECT),
			  "sentence", v->view.sentence, "cure", v->view.cure, "server",
			  v->proc ? proc_json(v->proc) : json_null()));
}

static void tell(const char *address, const struct verdict *v)
{
	static const char *const would[] = {
		[ANSWER_UNKNOWN] = "It is unknown whether a stream to it would be accelerated",
		[ANSWER_NO] = "A stream to it stays on TCP",
		[ANSWER_YES] = "A stream to it would be accelerated, once it has earned promotion",
	};

	if (v->proc) {
		printf("%s: %s\n", address,
		       v->accepted ? "accepted by" : "not accepted yet; the listener:");
		proc_print(v->proc);
	} else {
		printf("%s: connected\n", address);
	}
	printf("%s", would[v->would]);
	if (v->would == ANSWER_YES)
		printf(": %s.\n", v->how);
	else if (v->proc && proc_finding(v->proc) != FINDING_READY)
		printf(": %s.\n", v->view.token);
	else
		printf(": %s: %s\n    Cure: %s\n", v->view.token, v->view.sentence, v->view.cure);
}

int check_server(const struct check *check)
{
	static const int exits[] = {
		[ANSWER_UNKNOWN] = EXIT_UNKNOWN, [ANSWER_NO] = EXIT_NO, [ANSWER_YES] = EXIT_OK
	};
	uint64_t timeout_ns = check->timeout_ns ? check->timeout_ns : TIMEOUT_NS;
	int fd = echo_connect(check->host, check->port, timeout_ns), err;
	char address[RSK_ADDR_TEXT], library[PATH_MAX];
	struct rsk_tuple near, far;
	struct verdict v;
	struct host host;

	if (fd < 0) {
		fprintf(stderr, "rsock: %s port %s: %s\n", check->host, check->port,
			fd == -EHOSTUNREACH ? "there is no such host, or no route to it" :
					      strerror(-fd));
		return EXIT_UNKNOWN;
	}
	if (library_find(library))
		return failure("no %s: %s cannot be read", LIBRARY_FILE, library);
	err = rsk_tuple_names(fd, &near);
	if (err)
		return failure("%s", strerror(-err));
	far = rsk_tuple_mirror(&near);
	wait_accepted(&far, rsk_monotonic_ns() + timeout_ns);
	err = look(&near, fd, rsk_monotonic_ns() + timeout_ns, &host, &v);
	if (err)
		return failure("cannot read /proc: %s", strerror(-err));
	rsk_addr_text(near.family, near.peer, near.peer_port, address);
	if (check->json)
		err = tell_json(address, &v);
	else
		tell(address, &v);
	host_free(&host);
	close(fd);
	return err ? err : exits[v.would];
}
