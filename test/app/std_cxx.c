/* SPDX-License-Identifier: BSD-2-Clause */
/* std_cxx.c - the case of the family std with a C++ program: libstdc++ keeps stdio's streams. */
#include "app.h"
#include "std.h"

CASE(cout, 0, "a C++ service that uses cin and cout")
{
	char *argv[] = { (char *)app_beside("app_std_cout"), NULL };

	program_case(argv, ALSO_2);
}
