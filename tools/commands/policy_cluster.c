// SPDX-License-Identifier: BSD-2-Clause
/*
 * policy_cluster.c - rsock policy push, history, diff and rollback: the document that the hosts of
 * a cluster share. rsockd asks etcd for us: see docs/adr/cluster.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"
#include "daemon.h"
#include "json.h"
#include "policy.h"

static int revision_of(const struct asked *q, const char *text, uint64_t *out)
{
	if (parse_number(text, 0, INT64_MAX, out) < 0)
		return usage_error(q->self, "'%s' is not a revision", text);
	return EXIT_OK;
}

/* The members that push and rollback have in common. Takes and returns the reference; NULL: no
 * memory. */
static json_t *with_options(const struct asked *q, uint64_t base, json_t *body)
{
	if (body && q->base && json_object_set_new(body, "base", json_integer((json_int_t)base))) {
		json_decref(body);
		return NULL;
	}
	/* A note that is not UTF-8 is left out. */
	if (body && q->note)
		json_object_set_new(body, "note", json_string(q->note));
	return body;
}

static int change(const struct asked *q, const char *path, json_t *body)
{
	uint64_t base = 0;
	json_t *answer;
	int rc = q->base ? revision_of(q, q->base, &base) : EXIT_OK;

	if (rc != EXIT_OK) {
		json_decref(body);
		return rc;
	}
	body = with_options(q, base, body);
	if (!body)
		return failure("no memory");
	rc = daemon_ask(q->path, "POST", path, body, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("revision %lld is the cluster's document\n",
	       json_integer_value(json_object_get(answer, "revision")));
	json_decref(answer);
	return EXIT_OK;
}

int policy_push(const struct asked *q)
{
	char *text, error[512];
	json_t *content;
	size_t bytes;

	if (q->n != 2)
		return usage_error(q->self, "policy push takes a file");
	if (rsk_conf_read(q->words[1], &text, &bytes, error, sizeof(error)) < 0) {
		fprintf(stderr, "rsock: %s\n", error);
		return EXIT_UNKNOWN;
	}
	if (bytes > RSK_CONF_DOCUMENT_MOST) {
		free(text);
		fprintf(stderr, "rsock: %s is larger than %u bytes\n", q->words[1],
			RSK_CONF_DOCUMENT_MOST);
		return EXIT_NO;
	}
	content = json_stringn(text, bytes);
	free(text);
	if (!content) {
		fprintf(stderr, "rsock: %s is not UTF-8\n", q->words[1]);
		return EXIT_NO;
	}
	return change(q, "/v1/policy/push", json_pack("{s:o}", "text", content));
}

int policy_rollback(const struct asked *q)
{
	uint64_t revision;
	int rc;

	if (q->n != 2)
		return usage_error(q->self, "policy rollback takes a revision");
	rc = revision_of(q, q->words[1], &revision);
	return rc != EXIT_OK ? rc :
			       change(q, "/v1/policy/rollback",
				      json_pack("{s:I}", "revision", (json_int_t)revision));
}

int policy_history(const struct asked *q)
{
	json_t *answer, *one;
	size_t i;
	int rc;

	if (q->n != 1)
		return usage_error(q->self, "policy history takes no other argument");
	rc = daemon_ask(q->path, "GET", "/v1/policy/history", NULL, &answer);
	if (rc != EXIT_OK)
		return rc;
	if (q->json)
		return json_print(answer);
	printf("%-10s %8s  %s\n", "REVISION", "BYTES", "PUSHED");
	json_array_foreach(json_object_get(answer, "revisions"), i, one)
	{
		const char *by = json_string_value(json_object_get(one, "by"));

		printf("%-10lld %8lld  %s%s\n",
		       json_integer_value(json_object_get(one, "revision")),
		       json_integer_value(json_object_get(one, "bytes")),
		       by && *by ? by : "not by rsock",
		       json_is_true(json_object_get(one, "current")) ? " (current)" : "");
	}
	json_decref(answer);
	return EXIT_OK;
}

/* ---- diff ---- */

/* A file in memory with the text of a revision, which diff(1) can open. -1: errno. */
static int file_of(const json_t *document)
{
	const json_t *text = json_object_get(document, "text");
	size_t left = json_string_length(text);
	const char *p = json_string_value(text);
	int fd = memfd_create("document", 0);

	while (fd >= 0 && left) {
		ssize_t n = write(fd, p, left);

		if (n < 0) {
			close(fd);
			return -1;
		}
		p += n;
		left -= (size_t)n;
	}
	return fd;
}

static char *read_all(int fd, size_t *n)
{
	size_t room = 4 * RSK_CONF_DOCUMENT_MOST;
	char *text = malloc(room + 1);
	ssize_t got = 1;

	for (*n = 0; text && got > 0 && *n<room; *n += got> 0 ? (size_t)got : 0)
		got = read(fd, text + *n, room - *n);
	if (text)
		text[*n] = 0;
	return text;
}

/* Runs in the child. */
__attribute__((noreturn)) static void be_diff(const int files[static 2], long long from,
					      long long to, int out)
{
	char paths[2][32], labels[2][64];

	for (int i = 0; i < 2; i++)
		snprintf(paths[i], sizeof(paths[i]), "/dev/fd/%d", files[i]);
	snprintf(labels[0], sizeof(labels[0]), "--label=revision %lld", from);
	snprintf(labels[1], sizeof(labels[1]), "--label=revision %lld", to);
	dup2(out, STDOUT_FILENO);
	execlp("diff", "diff", "-u", labels[0], labels[1], paths[0], paths[1], (char *)NULL);
	_exit(EXIT_NOT_FOUND);
}

/* Returns what diff(1) says about two documents; NULL, after a message: it failed. */
static char *compare(const json_t *from, const json_t *to)
{
	int files[2] = { file_of(from), file_of(to) }, pipes[2] = { -1, -1 }, status = -1;
	char *text = NULL;
	pid_t child = -1;
	size_t n;

	if (files[0] >= 0 && files[1] >= 0 && pipe2(pipes, O_CLOEXEC) == 0)
		child = fork();
	if (child == 0)
		be_diff(files, json_integer_value(json_object_get(from, "revision")),
			json_integer_value(json_object_get(to, "revision")), pipes[1]);
	close(pipes[1]);
	if (child > 0) {
		text = read_all(pipes[0], &n);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(pipes[0]);
	close(files[0]);
	close(files[1]);
	if (text && WIFEXITED(status) && WEXITSTATUS(status) <= 1)
		return text;
	free(text);
	failure("diff(1) failed");
	return NULL;
}

static int read_document(const struct asked *q, uint64_t revision, json_t **out)
{
	int rc = daemon_ask(q->path, "POST", "/v1/policy/read",
			    json_pack("{s:I}", "revision", (json_int_t)revision), out);

	if (rc == EXIT_OK && !json_is_string(json_object_get(*out, "text"))) {
		fprintf(stderr, "rsock: revision %lld is not text\n",
			json_integer_value(json_object_get(*out, "revision")));
		json_decref(*out);
		*out = NULL;
		rc = EXIT_UNKNOWN;
	}
	return rc;
}

/* The newest revision that is not the current one. */
static int former_revision(const struct asked *q, uint64_t *out)
{
	json_t *answer, *one;
	size_t i;
	int rc = daemon_ask(q->path, "GET", "/v1/policy/history", NULL, &answer);

	*out = 0;
	if (rc != EXIT_OK)
		return rc;
	json_array_foreach(json_object_get(answer, "revisions"), i,
			   one) if (!*out && !json_is_true(json_object_get(one, "current"))) *out =
		(uint64_t)json_integer_value(json_object_get(one, "revision"));
	json_decref(answer);
	if (*out)
		return EXIT_OK;
	fprintf(stderr, "rsock: there is no former revision\n");
	return EXIT_UNKNOWN;
}

static int print_diff(const struct asked *q, const json_t *from, const json_t *to)
{
	char *text = compare(from, to);
	int rc = EXIT_OK;

	if (!text)
		return EXIT_FAILED;
	if (q->json)
		rc = json_print(json_pack("{s:O,s:O,s:s}", "from",
					  json_object_get(from, "revision"), "to",
					  json_object_get(to, "revision"), "diff", text));
	else
		fputs(text, stdout);
	free(text);
	return rc;
}

int policy_diff(const struct asked *q)
{
	json_t *from = NULL, *to = NULL;
	uint64_t revision;
	int rc;

	if (q->n > 2)
		return usage_error(q->self, "policy diff takes a revision, or none");
	rc = q->n == 2 ? revision_of(q, q->words[1], &revision) : former_revision(q, &revision);
	if (rc == EXIT_OK)
		rc = read_document(q, revision, &from);
	if (rc == EXIT_OK)
		rc = read_document(q, 0, &to);
	if (rc == EXIT_OK)
		rc = print_diff(q, from, to);
	json_decref(from);
	json_decref(to);
	return rc;
}

/* ---- show ---- */

/* How long the document stays in force without etcd. */
static void show_expiry(const json_t *contact, const json_t *expire)
{
	long long left = json_integer_value(expire) - json_integer_value(contact);

	if (json_is_integer(contact))
		printf("etcd was last heard %lld s ago; ", json_integer_value(contact));
	else
		printf("it is not known when etcd was last heard; ");
	if (json_is_integer(expire))
		printf("the document expires in %lld s\n", left > 0 ? left : 0);
	else
		printf("the document does not expire\n");
}

static void show_ledger(const json_t *ledger)
{
	if (json_is_object(ledger))
		printf("the ledger is %s: this host holds %lld sessions of remote RNICs, and uses "
		       "%lld\n",
		       json_string_value(json_object_get(ledger, "state")),
		       json_integer_value(json_object_get(ledger, "held")),
		       json_integer_value(json_object_get(ledger, "used")));
}

void policy_show_cluster(const json_t *cluster)
{
	const char *refused = json_string_value(json_object_get(cluster, "refused"));
	const char *error = json_string_value(json_object_get(cluster, "error"));
	const char *kept_error = json_string_value(json_object_get(cluster, "kept_error"));
	const char *member =
		json_string_value(json_object_get(json_object_get(cluster, "member"), "error"));
	const json_t *roles = json_object_get(cluster, "roles");
	const char *agent = json_string_value(json_object_get(roles, "agent"));
	long long running = json_integer_value(json_object_get(cluster, "revision"));

	if (!cluster)
		return;
	if (running)
		printf("\ncluster: revision %lld is in force; ", running);
	else if (json_is_true(json_object_get(cluster, "expired")))
		printf("\ncluster: the document has expired, and this host's own configuration is "
		       "in force; ");
	else
		printf("\ncluster: this host's own configuration is in force; ");
	printf("the newest is %lld; etcd (%s) is %s\n",
	       json_integer_value(json_object_get(cluster, "newest")),
	       json_string_value(json_object_get(cluster, "endpoint")),
	       json_is_true(json_object_get(cluster, "reached")) ? "reached" : "not reached");
	if (refused)
		printf("refused: %s\n", refused);
	if (error)
		printf("etcd: %s\n", error);
	if (error && running)
		show_expiry(json_object_get(cluster, "last_contact_s"),
			    json_object_get(cluster, "expire_s"));
	if (kept_error)
		printf("the document is not kept for a start without etcd: %s\n", kept_error);
	if (member)
		printf("not among the members: %s\n", member);
	if (agent)
		printf("the cluster's central policy agent: %s%s\n", agent,
		       json_is_true(json_object_get(roles, "agent-here")) ? ", this daemon" : "");
	show_ledger(json_object_get(cluster, "ledger"));
}
