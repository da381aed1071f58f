// SPDX-License-Identifier: BSD-2-Clause
/*
 * main.c - rsockd's command line; starts the daemon, gives up root's rights, and runs the event
 * loop.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "sandbox.h"
#include "turns.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

static const char usage_text[] =
	"usage: rsockd [-c FILE] [-t]\n"
	"\n"
	"The port mapper's service for librsock: PMSP and policy agent of this host.\n"
	"\n"
	"  -c, --config FILE  the configuration, rsockd.conf(5); without it the defaults hold\n"
	"  -t, --test         read the configuration, say what is wrong with it, and end\n"
	"  -h, --help         this text\n"
	"  -V, --version      the version\n"
	"\n"
	"SIGHUP reads the configuration anew; SIGTERM and SIGINT end it.\n"
	"Exit status: 0 ended as told; 1 it could not start, or go on; 2 wrong usage.\n";

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "test", no_argument, NULL, 't' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

static int complain(const char *what)
{
	fprintf(stderr, "rsockd: %s\n", what);
	return EXIT_FAILED;
}

static int test_config(const char *path)
{
	struct rsk_conf *conf;
	char error[512];

	if (rsk_conf_load(path, &conf, error, sizeof(error)) < 0)
		return complain(error);
	rsk_conf_free(conf);
	return EXIT_OK;
}

static int serve(const char *path)
{
	struct rsk_daemon d;
	char error[512] = "";
	int rc = EXIT_OK;

	signal(SIGPIPE, SIG_IGN);
	rsk_turns_short();
	if (rsk_daemon_open(&d, path, error, sizeof(error)) < 0)
		rc = complain(error);
	else if (rsk_sandbox_drop(d.settings.user) < 0)
		rc = complain("cannot give up its rights (is there such a user?)");
	else if (rsk_disk_start(&d.disk, rsk_sandbox_filter) < 0)
		rc = complain("cannot start a thread, or confine it");
	else if ((d.cluster ? rsk_sandbox_filter_cluster() : rsk_sandbox_filter()) < 0)
		rc = complain("cannot set its system call filter");
	else if (rsk_daemon_run(&d) < 0)
		rc = complain("its event loop failed");
	rsk_daemon_close(&d);
	return rc;
}

int main(int argc, char **argv)
{
	const char *config = NULL;
	bool test = false;
	int c;

	while ((c = getopt_long(argc, argv, "c:thV", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			config = optarg;
			break;
		case 't':
			test = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return EXIT_OK;
		case 'V':
			puts("rsockd " RSOCK_VERSION);
			return EXIT_OK;
		default:
			fputs(usage_text, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc || (test && !config)) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	return test ? test_config(config) : serve(config);
}
