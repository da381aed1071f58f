/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main.c - the command line of a family: lists, runs and compares cases; in the processes that the
 * runner starts, runs one side of a case, or a helper.
 */
#include "app.h"
#include "shm.h"

#include <getopt.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "runner.h"
#include "side.h"

extern const struct app_case *const __start_app_cases[];
extern const struct app_case *const __stop_app_cases[];
extern const struct app_helper *const __start_app_helpers[] __attribute__((weak));
extern const struct app_helper *const __stop_app_helpers[] __attribute__((weak));

static char self_path[PATH_MAX], cat_path[PATH_MAX];

const char *app_self(void)
{
	return self_path;
}

const char *app_static_cat(void)
{
	return cat_path;
}

const char *app_beside(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(self_path, '/') - self_path),
		 self_path, name);
	return path;
}

static void find_self(void)
{
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

	if (n < 0)
		_exit(4);
	self_path[n] = '\0';
	snprintf(cat_path, sizeof(cat_path), "%.*s/app_static_cat",
		 (int)(strrchr(self_path, '/') - self_path), self_path);
}

char **app_self_argv(const char *helper, ...)
{
	static char *argv[16];
	int argc = 0;
	va_list ap;

	argv[argc++] = self_path;
	argv[argc++] = (char *)"--helper";
	argv[argc++] = (char *)helper;
	va_start(ap, helper);
	while (argc < 15 && (argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	argv[argc] = NULL;
	return argv;
}

static const struct app_case *find_case(const char *name)
{
	for (const struct app_case *const *at = __start_app_cases; at < __stop_app_cases; at++)
		if (!strcmp((*at)->name, name))
			return *at;
	return NULL;
}

static int run_helper(int argc, char **argv)
{
	for (const struct app_helper *const *at = __start_app_helpers; at < __stop_app_helpers;
	     at++)
		if (argc > 0 && !strcmp((*at)->name, argv[0]))
			return (*at)->run(argc, argv);
	return 4;
}

/* A variable that the runner passes in the environment. */
static const char *handed(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		_exit(4);
	return value;
}

/* A process started by the runner, perhaps preloaded; environment: APP_SHM, APP_SIDE, APP_CASE. */
static int be_side(void)
{
	const struct app_case *cs = find_case(handed("APP_CASE"));

	if (!cs)
		return 4;
	app_case_flags = cs->flags;
	cs->run();
	app_log("end");
	return 0;
}

static int usage(FILE *out, int code)
{
	fprintf(out,
		"usage: app_FAMILY --list | [--runs N] [--mode NAME]... --all | CASE...\n"
		"  --list       names and one line on each case\n"
		"  --all        every case\n"
		"  --runs N     repeat (default 1)\n"
		"  --mode NAME  compare only this one with plain: plain, both, server, client\n"
		"  --show       print the transcripts\n"
		"environment: LIBRSOCK=path of librsock.so, RSOCK_TOOL=path of rsock;\n"
		"  APP_HOST, APP_HOST6=address to listen on and connect to instead of loopback,\n"
		"  APP_WARM_S=seconds to wait for a promotion, "
		"APP_SCALE=how much longer to wait\n"
		"  APP_FILTERED=1: all processes begin under a seccomp filter\n");
	return code;
}

/* It kills for a call that nobody makes but the library's trial of such a filter. */
static void set_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_swapoff, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("APP_FILTERED");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "all", no_argument, NULL, 'a' },
		{ "runs", required_argument, NULL, 'r' },
		{ "mode", required_argument, NULL, 'm' },
		{ "show", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct runner_options opt = { .runs = 1 };
	bool all = false;
	int c;

	find_self();
	if (getenv("APP_SHM")) {
		app_attach(handed("APP_SHM"), atoi(handed("APP_SIDE")));
		if (argc > 2 && !strcmp(argv[1], "--helper"))
			return run_helper(argc - 2, argv + 2);
		return be_side();
	}
	if (getenv("APP_FILTERED"))
		set_filter();
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'l') {
			for (const struct app_case *const *at = __start_app_cases;
			     at < __stop_app_cases; at++)
				printf("%-28s %s\n", (*at)->name, (*at)->about);
			return 0;
		}
		if (c == 'h')
			return usage(stdout, 0);
		if (c == 'a')
			all = true;
		else if (c == 's')
			opt.show = true;
		else if (c == 'r')
			opt.runs = atoi(optarg);
		else if (c != 'm' || runner_mode(&opt, optarg))
			return usage(stderr, 2);
	}
	if (opt.runs < 1 || (!all && optind == argc))
		return usage(stderr, 2);

	int failed = 0, ran = 0;

	if (all)
		for (const struct app_case *const *at = __start_app_cases; at < __stop_app_cases;
		     at++, ran++)
			failed += runner_case(&opt, *at) != 0;
	for (; optind < argc; optind++, ran++) {
		const struct app_case *cs = find_case(argv[optind]);

		if (!cs) {
			fprintf(stderr, "%s: no such case\n", argv[optind]);
			return 2;
		}
		failed += runner_case(&opt, cs) != 0;
	}
	printf("%d cases, %d failed\n", ran, failed);
	return failed != 0 || !ran;
}
