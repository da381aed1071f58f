/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unwind.c - provides the libgcc_s functions that the compiler's cleanups need, without loading
 * libgcc_s into every process.
 *
 * A cleanup runs when a thread is cancelled inside a hook, or an exception passes through one; the
 * code that unwinds has loaded libgcc_s by then (libc does so itself, for the same reason and in
 * the same way). So it is looked up when it is needed, and librsock.so depends on libc alone.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* As declared in <unwind.h>, whose declarations would export these functions. */
struct _Unwind_Exception;
struct _Unwind_Context;
typedef int rsk_personality_fn(int version, int actions, uint64_t class,
			       struct _Unwind_Exception *ex, struct _Unwind_Context *context);
typedef void rsk_resume_fn(struct _Unwind_Exception *ex);

rsk_personality_fn __gcc_personality_v0 __attribute__((visibility("hidden")));
rsk_resume_fn _Unwind_Resume __attribute__((visibility("hidden"), noreturn));

static void *rsk_unwind_symbol(const char *name)
{
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW), *found = lib ? dlsym(lib, name) : NULL;

	if (!found)
		abort(); /* unwinding cannot be stopped halfway */
	return found;
}

int __gcc_personality_v0(int version, int actions, uint64_t class, struct _Unwind_Exception *ex,
			 struct _Unwind_Context *context)
{
	static rsk_personality_fn *fn;

	if (!fn)
		fn = rsk_unwind_symbol("__gcc_personality_v0");
	return fn(version, actions, class, ex, context);
}

void _Unwind_Resume(struct _Unwind_Exception *ex)
{
	static rsk_resume_fn *fn;

	if (!fn)
		fn = rsk_unwind_symbol("_Unwind_Resume");
	fn(ex);
	abort();
}
