/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stat.c - reads `rsock stat --json` for the runner: did the streams of these processes go through
 * the ring?
 */
#include "runner.h"

#include "app.h"

#define STAT_BYTES                                                                                 \
	(1u << 20) /* initial size: other programs of this user may have very many streams */

/* The tool's output, owned by the caller; NULL with a reason. */
static char *ask_tool(const char *tool, char *why, int why_len)
{
	int pipe_fd[2], status;
	size_t len = 0, room = STAT_BYTES;
	ssize_t n;

	if (!tool || access(tool, X_OK)) {
		snprintf(why, (size_t)why_len, "RSOCK_TOOL does not name the rsock tool");
		return NULL;
	}
	char *text = malloc(STAT_BYTES);

	if (pipe2(pipe_fd, O_CLOEXEC))
		abort();
	pid_t pid = fork();

	if (!pid) {
		dup2(pipe_fd[1], 1);
		execl(tool, tool, "stat", "--json", (char *)NULL);
		_exit(127);
	}
	close(pipe_fd[1]);
	for (;;) {
		if (len == room - 1) {
			room *= 2;
			text = realloc(text, room);
		}
		if (!text)
			abort();
		n = read(pipe_fd[0], text + len, room - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(pipe_fd[0]);
	text[len] = '\0';
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status) {
		snprintf(why, (size_t)why_len, "%s stat --json: status %#x", tool, status);
		free(text);
		return NULL;
	}
	return text;
}

/* The value of a key inside one flat object that ends at @end; NULL if it is not there. */
static const char *member(const char *object, const char *end, const char *key)
{
	char quoted[40];

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	const char *at = strstr(object, quoted);

	if (!at || at > end)
		return NULL;
	at += strlen(quoted);
	return at + strspn(at, " ");
}

/* In an address as text: "10.5.0.2:4000", "[fd05::2]:4000". */
static bool has_port(const char *at, const char *end, const char *key, int port)
{
	const char *address = member(at, end, key);
	char wanted[16];

	snprintf(wanted, sizeof(wanted), ":%d\"", port);
	address = address ? strstr(address, wanted) : NULL;
	return address && address < end && strcspn(address, "\"") == strlen(wanted) - 1;
}

/* Does this record of the table count as a stream of this process in the ring? */
static bool in_ring(const char *at, const char *end, int pid, int port, char *seen, int seen_len)
{
	const char *owner = member(at, end, "pid");
	const char *tx = member(at, end, "tx"), *rx = member(at, end, "rx");
	const char *tx_bytes = member(at, end, "tx_ring_bytes");
	const char *rx_bytes = member(at, end, "rx_ring_bytes");
	const char *reason = member(at, end, "reason"), *open = member(at, end, "open");

	if (!owner || !tx || !rx || !tx_bytes || !rx_bytes || !reason || !open ||
	    atoi(owner) != pid || strncmp(open, "true", 4))
		return false;
	if (port && !has_port(at, end, "local", port) && !has_port(at, end, "peer", port))
		return false;
	if (!strncmp(tx, "\"ring\"", 6) && !strncmp(rx, "\"ring\"", 6) && atoll(tx_bytes) > 0 &&
	    atoll(rx_bytes) > 0)
		return true;
	snprintf(seen, (size_t)seen_len, "tx %.6s %lld bytes, rx %.6s %lld bytes, reason %.*s", tx,
		 atoll(tx_bytes), rx, atoll(rx_bytes), (int)strcspn(reason, ",}"), reason);
	return false;
}

bool runner_stat_ring(const char *tool, const int pids[static 2], const int streams[static 2],
		      int port, char *why, int why_len)
{
	char *text = ask_tool(tool, why, why_len);
	bool all = true;

	if (!text)
		return false;
	const char *table = strstr(text, "\"streams\"");

	for (int i = 0; i < 2; i++) {
		char seen[128] = "no open stream in the table";
		const char *at = table;
		int found = 0;

		while (at && (at = strchr(at, '{'))) {
			const char *end = strchr(at, '}');

			if (end)
				found += in_ring(at, end, pids[i], port, seen, sizeof(seen));
			at = end;
		}
		if (found < streams[i]) {
			size_t len = all ? 0 : strlen(why);

			snprintf(why + len, (size_t)why_len - len,
				 "%s%s, pid %d: %d of %d streams; %s", at ? "; " : "",
				 i ? "client" : "server", pids[i], found, streams[i], seen);
			all = false;
		}
	}
	free(text);
	return all;
}
