/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * runner.c - starts the two processes of a case for each mode and compares their transcripts;
 * called by main.c. It is never preloaded itself.
 */
#include "runner.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include "app.h"
#include "shm.h"
#include "side.h"

struct mode {
	const char *name;
	bool preload[2]; /* server, client */
};

static const struct mode modes[] = {
	{ "plain", { false, false } },
	{ "both", { true, true } },
	{ "server", { true, false } },
	{ "client", { false, true } },
};
#define MODES (sizeof(modes) / sizeof(modes[0]))
#define DEADLINE_MS 30000
#define GRACE_MS (2000 * app_scale())
#define DEADLINE_LONG_MS 90000

struct outcome {
	char *log[2];	 /* owned */
	char *err;	 /* owned; what the sides wrote to stderr and stdout */
	char fault[512]; /* empty: the run ended and passed its assertions */
};

static struct app_shm *shm; /* of the run in progress; the SIGCHLD handler wakes its waiters */

int runner_mode(struct runner_options *opt, const char *name)
{
	for (unsigned int i = 0; i < MODES; i++)
		if (!strcmp(modes[i].name, name)) {
			opt->modes |= 1u << i;
			return 0;
		}
	return -EINVAL;
}

static void on_child(int sig)
{
	(void)sig;
	if (shm) {
		atomic_fetch_add(&shm->attention, 1);
		app_futex_wake(&shm->attention);
	}
}

static pid_t start_side(const struct mode *mode, int side, const struct app_case *cs, int shm_fd,
			int err_fd)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid)
		return pid;

	char path[64];
	char *argv[] = { (char *)app_self(), NULL };
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	dup2(null, 0);
	dup2(err_fd, 1);
	dup2(err_fd, 2);
	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)parent, shm_fd);
	setenv("APP_SHM", path, 1);
	setenv("APP_SIDE", side ? "1" : "0", 1);
	setenv("APP_CASE", cs->name, 1);
	unsetenv("LD_PRELOAD");
	if (mode->preload[side]) {
		const char *library = getenv("LIBRSOCK");

		if (!library)
			_exit(4);
		setenv("LD_PRELOAD", library, 1);
	}
	execv(argv[0], argv);
	_exit(4);
}

/* Ends what is left of a run: children and, as this process is a subreaper, their orphans. */
static void end_all(void)
{
	char path[64], text[4096];

	for (;;) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		if (n <= 0)
			return;
		text[n] = '\0';
		for (char *at = text; *at;) {
			char *end;
			long pid = strtol(at, &end, 10);

			if (end == at)
				break;
			kill((pid_t)pid, SIGKILL);
			at = end;
		}
		if (waitpid(-1, NULL, 0) < 0)
			return;
	}
}

/* True if the stream has had as much time as it may take to get into the ring. */
static bool in_vain(int port)
{
	static struct {
		int port;
		int64_t since_ms;
	} warming;
	const char *most_s = getenv("APP_WARM_S");

	if (warming.port != port) {
		warming.port = port;
		warming.since_ms = app_now_ms();
	}
	return !most_s || app_now_ms() - warming.since_ms > atoi(most_s) * 1000;
}

static void check_ring(const struct mode *mode, struct outcome *out)
{
	const int pid[] = { atomic_load(&shm->check_pid[0]), atomic_load(&shm->check_pid[1]) };
	const char *tool = getenv("RSOCK_TOOL");
	const int streams[] = { (int)atomic_load(&shm->check_streams[0]),
				(int)atomic_load(&shm->check_streams[1]) };
	int port = (int)atomic_load(&shm->check_port);
	bool good = !mode->preload[0] || !mode->preload[1];
	char why[400];

	if (!good)
		good = runner_stat_ring(tool, pid, streams, port, why, sizeof(why));
	if (port)
		atomic_store(&shm->check_settled, good || in_vain(port));
	else if (!good && !out->fault[0])
		snprintf(out->fault, sizeof(out->fault), "not direct: %s", why);
}

static void supervise(const struct mode *mode, const struct app_case *cs, const pid_t *pid,
		      struct outcome *out)
{
	int64_t deadline =
		app_now_ms() +
		(int64_t)app_scale() * (cs->flags & LONG_RUN ? DEADLINE_LONG_MS : DEADLINE_MS);
	bool over[2] = { false, false };
	bool orphans = true;

	while (orphans) {
		uint32_t seen = atomic_load(&shm->attention);
		uint32_t want = atomic_load(&shm->check_wanted[0]);
		int status;
		pid_t got;

		while ((got = waitpid(-1, &status, WNOHANG)) > 0)
			for (int i = 0; i < 2; i++) {
				if (got != pid[i])
					continue;
				over[i] = true;
				if (status == 0)
					continue;
				if (!out->fault[0])
					snprintf(out->fault, sizeof(out->fault), "%s side: %s %d",
						 i ? "client" : "server",
						 WIFSIGNALED(status) ? "signal" : "exit",
						 WIFSIGNALED(status) ? WTERMSIG(status) :
								       WEXITSTATUS(status));
				atomic_store(&shm->aborted, 1);
			}
		orphans = got == 0;
		if (want == atomic_load(&shm->check_wanted[1]) &&
		    want != atomic_load(&shm->check_done)) {
			check_ring(mode, out);
			atomic_store(&shm->check_done, want);
			app_futex_wake(&shm->check_done);
		}
		/* One side failed: the other one may wait for it in the kernel. */
		if (atomic_load(&shm->aborted) && deadline > app_now_ms() + GRACE_MS)
			deadline = app_now_ms() + GRACE_MS;
		if (orphans && app_now_ms() > deadline) {
			size_t at = strlen(out->fault);

			snprintf(out->fault + at, sizeof(out->fault) - at, "%shangs: %s%s%s",
				 at ? "; " : "", over[0] ? "" : "server ", over[1] ? "" : "client ",
				 over[0] && over[1] ? "a process left behind" : "");
			break;
		}
		if (orphans)
			app_futex_wait(&shm->attention, seen, 500);
	}
	end_all();
}

static void run_mode(const struct mode *mode, const struct app_case *cs, struct outcome *out)
{
	int shm_fd = memfd_create("app-shm", MFD_CLOEXEC);
	int err_fd = memfd_create("app-err", MFD_CLOEXEC);
	pid_t pid[2];

	memset(out, 0, sizeof(*out));
	if (shm_fd < 0 || err_fd < 0 || ftruncate(shm_fd, sizeof(*shm))) {
		perror("memfd");
		exit(4);
	}
	struct app_shm *map =
		mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0);

	if (map == MAP_FAILED) {
		perror("mmap");
		exit(4);
	}
	shm = map;
	for (int i = 0; i < 2; i++)
		pid[i] = start_side(mode, i, cs, shm_fd, err_fd);
	supervise(mode, cs, pid, out);
	shm = NULL;
	for (int i = 0; i < 2; i++) {
		uint32_t len = atomic_load(&map->log_len[i]);

		if (len >= APP_LOG_BYTES)
			snprintf(out->fault, sizeof(out->fault), "transcript too long");
		out->log[i] = strndup(map->log[i], len < APP_LOG_BYTES ? len : APP_LOG_BYTES - 1);
		if (strstr(out->log[i], "FATAL") && !out->fault[0])
			snprintf(out->fault, sizeof(out->fault), "a side gave up");
	}
	off_t err_len = lseek(err_fd, 0, SEEK_END);

	out->err = calloc(1, (size_t)err_len + 1);
	if (pread(err_fd, out->err, (size_t)err_len, 0) != err_len)
		out->err[0] = '\0';
	munmap(map, sizeof(*map));
	close(shm_fd);
	close(err_fd);
}

static void free_outcome(struct outcome *out)
{
	free(out->log[0]);
	free(out->log[1]);
	free(out->err);
}

/* diff -u of two texts, from memory files. */
static void print_diff(const char *left, const char *right)
{
	int fd[2];
	char path[2][64];
	const char *text[2] = { left, right };

	for (int i = 0; i < 2; i++) {
		fd[i] = memfd_create("app-diff", 0);
		if (write(fd[i], text[i], strlen(text[i])) < 0)
			perror("diff");
		snprintf(path[i], sizeof(path[i]), "/proc/self/fd/%d", fd[i]);
	}
	fflush(stdout);
	pid_t pid = fork();

	if (!pid) {
		execlp("diff", "diff", "-u", "--label", "plain", "--label", "preloaded", path[0],
		       path[1], (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	close(fd[0]);
	close(fd[1]);
}

static bool compare(const struct app_case *cs, const struct mode *mode, const struct outcome *plain,
		    const struct outcome *out)
{
	bool same = true;

	for (int i = 0; i < 2; i++) {
		if (!strcmp(plain->log[i], out->log[i]))
			continue;
		printf("%s: %s preloaded: %s side differs\n", cs->name, mode->name,
		       i ? "client" : "server");
		print_diff(plain->log[i], out->log[i]);
		same = false;
	}
	if (out->fault[0]) {
		printf("%s: %s preloaded: %s\n", cs->name, mode->name, out->fault);
		same = false;
	}
	if (!same && out->err[0])
		printf("--- stderr\n%s---\n", out->err);
	return same;
}

static int run_once(const struct runner_options *opt, const struct app_case *cs)
{
	struct outcome plain, out;
	int bad = 0;

	run_mode(&modes[0], cs, &plain);
	if (opt->show)
		printf("--- server\n%s--- client\n%s", plain.log[0], plain.log[1]);
	if (plain.fault[0]) {
		printf("%s: on kernel TCP: %s\n--- server\n%s--- client\n%s--- stderr\n%s",
		       cs->name, plain.fault, plain.log[0], plain.log[1], plain.err);
		bad = 1; /* NOLINT(clang-analyzer-unix.Malloc): freed at the end */
	}
	for (unsigned int i = 0; i < MODES && !bad; i++) {
		if (!(opt->modes ? opt->modes & (1u << i) : i > 0))
			continue;
		int64_t start = app_now_ms();

		run_mode(&modes[i], cs, &out);
		if (opt->show)
			printf("--- %s: %lld ms\n", modes[i].name,
			       (long long)(app_now_ms() - start));
		bad |= !compare(cs, &modes[i], &plain, &out);
		free_outcome(&out);
	}
	free_outcome(&plain);
	return bad;
}

int runner_case(const struct runner_options *opt, const struct app_case *cs)
{
	const char *lib = getenv("LIBRSOCK");
	struct sigaction act = { .sa_handler = on_child };
	int64_t start = app_now_ms();
	int bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (opt->modes != 1u && (!lib || access(lib, R_OK))) {
		fprintf(stderr, "LIBRSOCK does not name a readable librsock.so\n");
		exit(2);
	}
	sigaction(SIGCHLD, &act, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < opt->runs && !bad; i++)
		bad = run_once(opt, cs);
	printf("%-28s %s  %lld ms\n", cs->name, bad ? "FAIL" : "ok",
	       (long long)(app_now_ms() - start));
	return bad;
}
