/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit.c - tests that fail, each in a different way, and two that pass, for the runners of unit
 * tests. teeth_programs.py has the expected results.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

Test(pass, plain)
{
	cr_assert(1 == 1);
}

Test(pass, signal, .signal = SIGABRT)
{
	abort();
}

Test(fail, old_assert)
{
	cr_assert(1 == 2);
}

Test(fail, old_expect)
{
	cr_expect(1 == 2, "said");
}

Test(fail, new_assert)
{
	cr_assert(eq(int, 1, 2));
}

Test(fail, new_expect)
{
	cr_expect(eq(int, 1, 2));
}

Test(fail, crash)
{
	raise(SIGSEGV);
}

Test(fail, exit_status)
{
	_exit(3);
}

Test(fail, no_signal, .signal = SIGABRT)
{
}

static void nothing(void)
{
}

static void refuse(void)
{
	cr_assert(1 == 2);
}

TestSuite(fail_init, .init = refuse);

Test(fail_init, init)
{
}

Test(fail, fini, .init = nothing, .fini = refuse)
{
}

ParameterizedTestParameters(fail, parameter)
{
	static int values[] = { 0, 1 };

	return cr_make_param_array(int, values, 2);
}

ParameterizedTest(int *value, fail, parameter)
{
	cr_assert(eq(int, *value, 0));
}

Test(skip, said)
{
	cr_skip_test("not today");
}
