/* SPDX-License-Identifier: BSD-2-Clause */
/* symdoc.c - prints docs/symbols.md from symbols.def. A build tool, not part of the library. */
#include <stdio.h>
#include <string.h>

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
	"# What the library stands in front of\n"
	"\n"
	"Made of `preload/symbols.def` by `cmake --build <build> --target symbols-doc`; the unit\n"
	"test `symbols` compares this page, that table and the exports of `librsock.so`.\n"
	"\n"
	"| symbol | hook in `preload/` | note |\n"
	"|---|---|---|\n";

static const char rsk_tail[] =
	"\n"
	"Rows of `hook_pass.c` only make the real call; the note says why that is right.\n"
	"\n"
	"Not in the table, on purpose: `pread`, `pwrite`, `preadv`, `pwritev` and their twins (a\n"
	"socket has no position: the kernel answers ESPIPE before it looks at a byte);\n"
	"`fstat`, `isatty`, `sockatmark` (they ask about the companion, which is the application's\n"
	"own socket); `sigprocmask`, `sigignore` and `sighold` (they install no handler). `fclose`\n"
	"is in it, since it closes fds unseen; the calls of `hook_open.c`, since the number that\n"
	"they return may be one that was closed unseen. Of `syscall()` each call that is not passed\n"
	"straight on has a row in `preload/syscalls.def`.\n"
	"\n"
	"Where libc has a symbol in several versions, the hook takes the place of all of them and\n"
	"calls the default one.\n";

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
