// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tool_args.c - tests the tool's command lines, the numbers in them, and how a query selects
 * streams.
 */
#include "rsock.h"
#include "target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The options and words of a command line as text: "0=5 w=x" and so on, "end 3" with what is left.
 */
static const char *taken(const struct command *cmd, const char *const *words)
{
	char *argv[16] = { NULL };
	static char text[256];
	struct args a;
	int argc = 1, arg;

	argv[0] = strdup(cmd->name);
	for (; words[argc - 1]; argc++)
		argv[argc] = strdup(words[argc - 1]);
	a = args_begin(cmd, argc, argv);
	text[0] = 0;
	while ((arg = args_next(&a)) >= ARG_WORD) {
		size_t len = strlen(text);
		bool valued = arg == ARG_WORD || cmd->options[arg].value;

		if (arg == ARG_WORD)
			snprintf(text + len, sizeof(text) - len, "w=%s ", a.value);
		else
			snprintf(text + len, sizeof(text) - len, "%d%s%s ", arg, valued ? "=" : "",
				 valued ? a.value : "");
	}
	if (arg == ARG_STOP)
		snprintf(text, sizeof(text), "stop %d", a.status);
	else
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "end %d", a.at - 1);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return text;
}

#define TAKEN(cmd, ...) taken(&(cmd), (const char *const[]){ __VA_ARGS__, NULL })

Test(tool_args, command_lines)
{
	static const struct option_row rows[] = { { "--long", "N", "" },
						  { "--flag", NULL, "" },
						  { "-n", "N", "" },
						  { "-b", NULL, "" },
						  { NULL, NULL, NULL } };
	const struct command words = { .name = "x", .help = "", .words = "WORD", .options = rows };
	const struct command none = { .name = "x", .help = "", .options = rows };
	const struct command program = {
		.name = "x", .help = "", .words = "P", .options = rows, .program = true
	};

	cr_assert_str_eq(TAKEN(words, "--long", "5", "--flag", "-n", "1", "-b"),
			 "0=5 1 2=1 3 end 6");
	cr_assert_str_eq(TAKEN(words, "--long=5", "-n1", "w", "--flag"), "0=5 2=1 w=w 1 end 4");
	cr_assert_str_eq(TAKEN(words, "--long="), "0= end 1");
	cr_assert_str_eq(TAKEN(words, "--", "--flag", "-b"), "w=--flag w=-b end 3");
	cr_assert_str_eq(TAKEN(words, "-"), "w=- end 1");
	cr_assert_str_eq(TAKEN(words, "--long"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "--flag=1"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-b1"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-bn1", "-n"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-bn1", "-n="), "3 2=1 2== end 2");
	cr_assert_str_eq(TAKEN(words, "--lon=5"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "--lon"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "--hel"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "--help=1"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-long", "5"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-h"), "stop 0");
	cr_assert_str_eq(TAKEN(words, "--lon", "5"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "-x"), "stop 2");
	cr_assert_str_eq(TAKEN(words, "--help"), "stop 0");
	cr_assert_str_eq(TAKEN(words, "--", "--help"), "w=--help end 2");
	cr_assert_str_eq(TAKEN(none, "w"), "stop 2");
	cr_assert_str_eq(TAKEN(program, "--flag", "ls", "--flag", "--help"), "1 end 1");
	cr_assert_str_eq(TAKEN(program, "--flag", "--", "ls", "-b"), "1 end 2");
	cr_assert_str_eq(TAKEN(program, "--", "--flag"), "end 1");
}

Test(tool_args, numbers)
{
	static const char *const bad[] = { "",	 "x",  "-1",  "+1",
					   " 1", "1 ", "0x1", "99999999999999999999" };
	static const char *const bad_s[] = { "",   "0",	  "-1",	   "nan", "inf",   "1e1",
					     "1s", "0x1", "1.2.3", ".",	  "86401", "0.0001" };
	uint64_t n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(parse_number(bad[i], 0, UINT64_MAX, &n), -EINVAL, "%s", bad[i]);
	for (size_t i = 0; i < sizeof(bad_s) / sizeof(bad_s[0]); i++)
		cr_assert_eq(parse_seconds(bad_s[i], &n), -EINVAL, "%s", bad_s[i]);
	cr_assert_eq(parse_number("16", 16, 16, &n), 0);
	cr_assert_eq(n, 16);
	cr_assert_eq(parse_number("17", 16, 16, &n), -EINVAL);
	cr_assert_eq(parse_number("15", 16, 16, &n), -EINVAL);
	cr_assert_eq(parse_seconds("0.25", &n), 0);
	cr_assert_eq(n, 250000000);
	cr_assert_eq(parse_seconds("2", &n), 0);
	cr_assert_eq(n, 2000000000);
}

Test(tool_args, what_a_question_is_about)
{
	static const char *const bad[] = {
		"",	"0",	"x",   "-1",	 "1@",		"@1",	 "1@0",	   "a@1",
		"1:",	":",	":0",  ":65536", "host",	"host:", "host:x", "[::1:80",
		"[:80", "1:2:", "1:x", "1:2:3x", "99999999999", "1@2@3", "::1",
	};
	struct target t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(target_parse(bad[i], &t), -EINVAL, "%s", bad[i]);
	cr_assert_eq(target_parse("123", &t), 0);
	cr_assert(t.kind == TARGET_PID && t.pid == 123);
	cr_assert_eq(target_parse("7@123", &t), 0);
	cr_assert(t.kind == TARGET_FD && t.pid == 123 && t.fd == 7);
	cr_assert_eq(target_parse("123:0", &t), 0);
	cr_assert(t.kind == TARGET_FD && t.pid == 123 && t.fd == 0);
	cr_assert_eq(target_parse("127.0.0.1:80", &t), 0);
	cr_assert(t.kind == TARGET_ADDRESS && t.port == 80);
	cr_assert_str_eq(t.host, "127.0.0.1");
	cr_assert_eq(target_parse("[::1]:443", &t), 0);
	cr_assert_str_eq(t.host, "::1");
	cr_assert_eq(target_parse(":80", &t), 0);
	cr_assert_str_eq(t.host, "");
	cr_assert_eq(target_parse("*:65535", &t), 0);
	cr_assert_eq(t.port, 65535);
}

Test(tool_args, names_of_hosts)
{
	static const uint8_t here[16] = { 127, 0, 0, 1 }, six[16] = { [15] = 1 };
	struct addresses a;

	cr_assert_eq(addresses_resolve("127.0.0.1", &a), 0);
	cr_assert(addresses_have(&a, AF_INET, here));
	cr_assert_not(addresses_have(&a, AF_INET6, here));
	cr_assert_eq(addresses_resolve("::ffff:127.0.0.1", &a), 0);
	cr_assert(addresses_have(&a, AF_INET, here), "v4-mapped is IPv4");
	cr_assert_eq(addresses_resolve("::1", &a), 0);
	cr_assert(addresses_have(&a, AF_INET6, six));
	cr_assert_eq(addresses_resolve("", &a), 0);
	cr_assert(addresses_have(&a, AF_INET6, six) && addresses_have(&a, AF_INET, here));
	cr_assert_neq(addresses_resolve("256.1.1.1", &a), 0);
}
