// SPDX-License-Identifier: BSD-2-Clause
/* test_std_use.c - tests which symbols mean one of stdin, stdout and stderr, and who uses them. */
#include "std_use.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define IN 1u
#define OUT 2u
#define ERR 4u
#define ALL 7u

static const struct {
	const char *symbol;
	unsigned int uses;
} names[] = {
	{ "stdin", IN },
	{ "_IO_2_1_stdin_", IN },
	{ "getchar", IN },
	{ "scanf", IN },
	{ "__isoc99_scanf", IN },
	{ "__isoc23_vwscanf", IN },
	{ "__gets_chk", IN },
	{ "stdout", OUT },
	{ "printf", OUT },
	{ "_IO_printf", OUT },
	{ "__printf_chk", OUT },
	{ "__vwprintf_chk", OUT },
	{ "__nldbl_printf", OUT },
	{ "__nldbl___printf_chk", OUT },
	{ "putwchar_unlocked", OUT },
	{ "stderr", ERR },
	{ "perror", ERR },
	{ "getopt_long", ERR },
	{ "__assert_fail", ERR },
	{ "openlog", ERR },
	{ "getpass", ALL },
	{ "system", ALL },
	{ "dlopen", ALL },
	/* Those of a FILE that the program has opened, or of a number. */
	{ "fprintf", 0 },
	{ "__fprintf_chk", 0 },
	{ "fdopen", 0 },
	{ "vdprintf", 0 },
	{ "__vdprintf_chk", 0 },
	{ "read", 0 },
	{ "__read_chk", 0 },
	{ "write", 0 },
	{ "syslog", 0 },
	/* Parts of names. */
	{ "print", 0 },
	{ "printf_s", 0 },
	{ "std", 0 },
	{ "_chk", 0 },
	{ "__", 0 },
	{ "__chk", 0 },
	{ "_IO_", 0 },
	{ "__isoc99_", 0 },
	{ "", 0 },
};

Test(std_use, names)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		cr_expect_eq(rsk_std_use_of(names[i].symbol), names[i].uses, "%s: %u",
			     names[i].symbol, rsk_std_use_of(names[i].symbol));
}

/* The test's own program, and its libraries. */
Test(std_use, this_program)
{
	cr_assert(rsk_std_use(OUT));
	cr_assert(rsk_std_use(ALL));
	cr_assert(!rsk_std_use(0));
	cr_assert_neq(printf("\n"), 0);
}
