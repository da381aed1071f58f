// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmd_bench.c - rsock bench: runs a command with the library and without it, alternately, and
 * compares.
 */
#include "rsock.h"

#include "json.h"
#include "knobs.h"
#include "library.h"
#include "measure.h"
#include "program.h"
#include "launch.h"
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rsock/clock.h>

#define ROUNDS 10
#define ROUNDS_MOST 1000

enum {
	OPT_ROUNDS,
	OPT_POLICY,
	OPT_OUTPUT,
	OPT_JSON,
};

static const struct option_row options[] = {
	{ "--rounds", "N", "number of runs of each kind, at least 6 (10)" },
	{ "--policy", "KEY=VALUE", "a knob of the library, as for rsock run: ring-kb=64" },
	{ "--output", NULL, "copy the command's standard output to standard error" },
	{ "--json", NULL, "one JSON object on one line" },
	{ NULL, NULL, NULL },
};

struct bench {
	char *const *argv;
	char path[PATH_MAX];
	char library[PATH_MAX];
	char stat_file[PATH_MAX];
	size_t rounds;
	bool output;
	bool json;
	/* The time of each round; first index: enum launch_way. */
	double seconds[2][ROUNDS_MOST];
	struct travelled travelled;
};

__attribute__((noreturn)) static void child(const struct bench *b, enum launch_way way)
{
	int out = b->output ? dup(STDERR_FILENO) : open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || launch_environment(way, b->library) ||
	    setenv("RSOCK_STAT_FILE", b->stat_file, 1))
		_exit(EXIT_CANNOT_RUN);
	close(out);
	execv(b->path, b->argv);
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Runs the command once. Returns its exit status or -errno. */
static int run_once(const struct bench *b, enum launch_way way, double *seconds)
{
	uint64_t from = rsk_monotonic_ns();
	pid_t pid = launch_fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		child(b, way);
	status = launch_wait(pid);
	*seconds = (double)(rsk_monotonic_ns() - from) / 1e9;
	return status;
}

static int told_failure(int status, enum launch_way way)
{
	if (status < 0)
		return failure("cannot start it: %s", strerror(-status));
	fprintf(stderr, "rsock: the command exits with status %d%s; there is nothing to compare\n",
		status, way == LAUNCH_PRELOADED ? " when librsock.so is preloaded" : "");
	return status == EXIT_NOT_FOUND || status == EXIT_CANNOT_RUN ? status :
	       way == LAUNCH_PRELOADED				     ? EXIT_NO :
								       EXIT_UNKNOWN;
}

/*
 * Runs all rounds. The two ways alternate in going first, so that a drift affects both. 0, or an
 * exit status after a message.
 */
static int measure(struct bench *b)
{
	double ignored;
	int status;

	/* One run of each first: it fills caches and shows whether the command works at all. */
	for (int way = 0; way < 2; way++) {
		status = run_once(b, (enum launch_way)way, &ignored);
		if (status)
			return told_failure(status, (enum launch_way)way);
	}
	if (truncate(b->stat_file, 0))
		return failure("%s: %s", b->stat_file, strerror(errno));
	for (size_t i = 0; i < b->rounds; i++) {
		for (size_t k = 0; k < 2; k++) {
			enum launch_way way = (i + k) % 2 ? LAUNCH_PRELOADED : LAUNCH_PLAIN;

			status = run_once(b, way, &b->seconds[way][i]);
			if (status)
				return told_failure(status, way);
		}
	}
	return 0;
}

static void read_stat_file(struct bench *b)
{
	FILE *file = fopen(b->stat_file, "re");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		return;
	while (getline(&line, &room, file) >= 0)
		travelled_add(&b->travelled, line);
	free(line);
	fclose(file);
}

struct outcome {
	double seconds[2]; /* medians */
	double gain;	   /* median of the rounds' ratios of plain to preloaded time */
	double low;	   /* of its 95 % interval */
	double high;
};

static int outcome_of(const struct bench *b, struct outcome *o)
{
	static double ratio[ROUNDS_MOST], copy[ROUNDS_MOST];

	for (size_t i = 0; i < b->rounds; i++)
		ratio[i] = b->seconds[LAUNCH_PLAIN][i] / b->seconds[LAUNCH_PRELOADED][i];
	for (int way = 0; way < 2; way++) {
		memcpy(copy, b->seconds[way], b->rounds * sizeof(copy[0]));
		o->seconds[way] = median(copy, b->rounds);
	}
	o->gain = median(ratio, b->rounds);
	return median_interval(ratio, b->rounds, &o->low, &o->high);
}

static void print_times(const struct bench *b, enum launch_way way, double middle)
{
	double least = b->seconds[way][0], most = least;

	for (size_t i = 1; i < b->rounds; i++) {
		least = b->seconds[way][i] < least ? b->seconds[way][i] : least;
		most = b->seconds[way][i] > most ? b->seconds[way][i] : most;
	}
	printf("%-18s %9.3f s   (%.3f to %.3f)\n",
	       way == LAUNCH_PLAIN ? "plain" : "with librsock.so", middle, least, most);
}

static const char *verdict(const struct outcome *o)
{
	return o->low > 1 ? "faster" : o->high < 1 ? "slower" : "no gain";
}

static int print_text(const struct bench *b, const struct outcome *o)
{
	const struct travelled *t = &b->travelled;
	char ring[16], all[16];

	printf("%zu rounds each, alternating; median, minimum and maximum\n", b->rounds);
	print_times(b, LAUNCH_PLAIN, o->seconds[LAUNCH_PLAIN]);
	print_times(b, LAUNCH_PRELOADED, o->seconds[LAUNCH_PRELOADED]);
	printf("%s: %.2f times as fast (95 %%: %.2f to %.2f)\n", verdict(o), o->gain, o->low,
	       o->high);
	if (!t->streams) {
		puts("no TCP streams in the statistics: its processes had none, did not call "
		     "exit(), or ran without the library");
		return EXIT_OK;
	}
	printf("streams of its processes: %" PRIu64 " of %" PRIu64
	       " promoted, %s of %s bytes by shared memory\n",
	       t->direct, t->streams, size_text(ring, t->ring_bytes),
	       size_text(all, t->ring_bytes + t->tcp_bytes));
	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++)
		if (t->reason[i])
			printf("  %" PRIu64 " on TCP: %s: %s\n", t->reason[i], rsk_reason_token(i),
			       rsk_reason_row(i)->sentence);
	return EXIT_OK;
}

static int print_json(const struct bench *b, const struct outcome *o)
{
	const struct travelled *t = &b->travelled;
	json_t *times[2] = { json_array(), json_array() }, *reasons = json_object();

	for (int way = 0; way < 2; way++)
		for (size_t i = 0; i < b->rounds; i++)
			json_array_append_new(times[way], json_real(b->seconds[way][i]));
	for (unsigned int i = 0; i < RSK_REASON_COUNT; i++)
		if (t->reason[i])
			json_object_set_new(reasons, rsk_reason_token(i), json_u64(t->reason[i]));
	return json_print(json_pack("{s:s,s:f,s:[ff],s:f,s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
				    "verdict", verdict(o), "gain", o->gain, "interval", o->low,
				    o->high, "plain_s", o->seconds[LAUNCH_PLAIN], "preloaded_s",
				    o->seconds[LAUNCH_PRELOADED], "plain_rounds_s", times[0],
				    "preloaded_rounds_s", times[1], "streams", json_u64(t->streams),
				    "promoted", json_u64(t->direct), "ring_bytes",
				    json_u64(t->ring_bytes), "tcp_bytes", json_u64(t->tcp_bytes),
				    "reasons", reasons));
}

static int bench(struct bench *b)
{
	const char *folder = getenv("TMPDIR");
	struct outcome o;
	int fd, status;

	snprintf(b->stat_file, sizeof(b->stat_file), "%s/rsock-bench-XXXXXX",
		 folder && *folder ? folder : "/tmp");
	fd = mkostemp(b->stat_file, O_CLOEXEC);
	if (fd < 0)
		return failure("%s: %s", b->stat_file, strerror(errno));
	close(fd);
	status = measure(b);
	if (!status)
		read_stat_file(b);
	unlink(b->stat_file);
	if (status)
		return status;
	if (outcome_of(b, &o))
		return failure("no interval can be computed from %zu rounds", b->rounds);
	status = b->json ? print_json(b, &o) : print_text(b, &o);
	return status ? status : o.low > 1 && b->travelled.direct ? EXIT_OK : EXIT_NO;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct args a = args_begin(self, argc, argv);
	static struct bench b;
	const char *warning;
	uint64_t rounds = ROUNDS;
	int arg, status = 0;

	while ((arg = args_next(&a)) != ARG_END) {
		if (arg == ARG_STOP)
			return a.status;
		b.json |= arg == OPT_JSON;
		b.output |= arg == OPT_OUTPUT;
		if (arg == OPT_POLICY)
			status = knob_set_pair(self, a.value);
		if (arg == OPT_ROUNDS && parse_number(a.value, MEASURE_LEAST, ROUNDS_MOST, &rounds))
			status = usage_error(self, "--rounds '%s': a number from %d to %d", a.value,
					     MEASURE_LEAST, ROUNDS_MOST);
		if (status)
			return status;
	}
	if (a.at == argc)
		return usage_error(self, "a command is needed");
	b.rounds = (size_t)rounds;
	b.argv = argv + a.at;
	status = start_find(argv[a.at], b.library, b.path);
	if (status)
		return status;
	unsetenv("RSOCK_DISABLE");
	warning = start_warning(b.path);
	if (warning)
		fprintf(stderr, "rsock: %s %s\n", argv[a.at], warning);
	if (!program_takes_preload(program_kind(b.path))) {
		fputs("rsock: it runs only without librsock.so; there is nothing to compare\n",
		      stderr);
		return EXIT_NO;
	}
	return bench(&b);
}

const struct command cmd_bench = {
	.name = "bench",
	.help = "run a command with librsock.so and without it, in turns, and compare the times",
	.words = "[--] COMMAND [ARGUMENT...]",
	.details = "A server that the command connects to must already run with the library;\n"
		   "programs that the command starts get it too.\n"
		   "Exit status 0: faster, and streams were accelerated; 1: not faster, or the\n"
		   "interval contains 1 (no gain); 3: the command fails without the library.",
	.options = options,
	.program = true,
	.run = run,
};
