/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symdoc.c - prints docs/symbols.md from symbols.def. A build tool that the target symbols-doc
 * runs; not part of the library.
 */
#include <stdio.h>
#include <string.h>

#define RSK_EVERY_ROW /* the page does not depend on the libc that it is printed with */

struct rsk_row {
	const char *name, *of, *family, *note;
};

static const struct rsk_row rsk_rows[] = {
#define RSK_SYM(ret, name, params, args, family, raw, note) { #name, NULL, #family, note },
#define RSK_VAR(ret, name, params, family, note) { #name, NULL, #family, note },
#define RSK_ALIAS(alias, name, family, note) { #alias, #name, #family, note },
#include "symbols.def"
};

static const char rsk_head[] =
	"# Symbols that the library replaces\n"
	"\n"
	"Generated from `preload/symbols.def` by `cmake --build <build> --target symbols-doc`; do\n"
	"not edit. The unit test `symbols` compares this page, that table and the exports of\n"
	"`librsock.so`. A note that begins with a version of glibc: the library has the hook if\n"
	"it was built with that version or a later one.\n"
	"\n"
	"| symbol | hook in `preload/` | note |\n"
	"|---|---|---|\n";

static const char rsk_tail[] =
	"\n"
	"The hooks of `hook_pass.c` only make the real call; the note gives the reason.\n"
	"\n"
	"These are left out on purpose: `pread`, `pwrite`, `preadv`, `pwritev` and their variants\n"
	"(a socket has no position, so the kernel returns ESPIPE before it reads a byte); "
	"`fstat`,\n"
	"`isatty`, `sockatmark` (they query the TCP socket, which is the application's own);\n"
	"`sigprocmask`, `sigignore` and `sighold` (they install no handler). `fclose` is in the\n"
	"table because it closes a descriptor without calling `close`; the calls of `hook_open.c`\n"
	"are in it because the number that they return may be one that was closed without the\n"
	"library. For `syscall()`, each system call that is not passed straight to the kernel "
	"has a\n"
	"row in `preload/syscalls.def`.\n"
	"\n"
	"Where libc has several versions of a symbol, the hook replaces all of them and calls the\n"
	"default version.\n";

int main(void)
{
	size_t i;

	fputs(rsk_head, stdout);
	for (i = 0; i < sizeof(rsk_rows) / sizeof(rsk_rows[0]); i++) {
		const struct rsk_row *r = &rsk_rows[i];

		if (strcmp(r->family, "vfork") == 0)
			printf("| `%s` | `vfork.S` | ", r->name);
		else
			printf("| `%s` | `hook_%s.c` | ", r->name, r->family);
		if (r->of)
			printf("= `%s`%s", r->of, *r->note ? "; " : "");
		printf("%s |\n", r->note);
	}
	fputs(rsk_tail, stdout);
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
