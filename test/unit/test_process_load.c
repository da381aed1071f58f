// SPDX-License-Identifier: BSD-2-Clause
/* test_process_load.c - tests whether the loader's state is seen, by which children are told. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>

#include "process.h"

Test(process_load, while_a_library_is_being_loaded)
{
	/* Not by its name: the program would get a variable of its own (a copy relocation). */
	struct r_debug *loader = dlsym(RTLD_DEFAULT, "_r_debug");

	cr_assert(rsk_process_can_load());
	loader->r_state = RT_ADD; /* as the loader does */
	cr_assert(!rsk_process_can_load());
	loader->r_state = RT_DELETE;
	cr_assert(!rsk_process_can_load());
	loader->r_state = RT_CONSISTENT;
	cr_assert(rsk_process_can_load());
}
