// SPDX-License-Identifier: BSD-2-Clause
/*
 * std_use.c - see std_use.h. What an object can call is what its relocations name: a stream of
 * stdio is a variable that it refers to (stdin), or is meant by a function (getchar()). Functions
 * that are given a FILE are not looked for, since the program has none of these three without the
 * variable.
 */
#include "std_use.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define IN 1u
#define OUT 2u
#define ERR 4u
#define ALL (IN | OUT | ERR)

/* Fortified names (__printf_chk) and those of other C standards (__isoc99_scanf) are derived. */
static const struct {
	const char *name;
	unsigned int uses;
} symbols[] = {
	{ "stdin", IN },
	{ "_IO_2_1_stdin_", IN },
	{ "getchar", IN },
	{ "getchar_unlocked", IN },
	{ "getwchar", IN },
	{ "getwchar_unlocked", IN },
	{ "gets", IN },
	{ "scanf", IN },
	{ "vscanf", IN },
	{ "wscanf", IN },
	{ "vwscanf", IN },

	{ "stdout", OUT },
	{ "_IO_2_1_stdout_", OUT },
	{ "printf", OUT },
	{ "vprintf", OUT },
	{ "puts", OUT },
	{ "putchar", OUT },
	{ "putchar_unlocked", OUT },
	{ "putwchar", OUT },
	{ "putwchar_unlocked", OUT },
	{ "wprintf", OUT },
	{ "vwprintf", OUT },

	{ "stderr", ERR },
	{ "_IO_2_1_stderr_", ERR },
	{ "perror", ERR },
	{ "psignal", ERR },
	{ "psiginfo", ERR },
	{ "herror", ERR },
	{ "error", ERR },
	{ "error_at_line", ERR },
	{ "err", ERR },
	{ "errx", ERR },
	{ "verr", ERR },
	{ "verrx", ERR },
	{ "warn", ERR },
	{ "warnx", ERR },
	{ "vwarn", ERR },
	{ "vwarnx", ERR },
	{ "__assert", ERR },
	{ "__assert_fail", ERR },
	{ "__assert_perror_fail", ERR },
	{ "getopt", ERR }, /* reports options that it does not know */
	{ "__posix_getopt", ERR },
	{ "getopt_long", ERR },
	{ "getopt_long_only", ERR },
	{ "argp_parse", ERR },
	{ "openlog", ERR }, /* LOG_PERROR */
	{ "fmtmsg", ERR },
	{ "malloc_stats", ERR },
	{ "mcheck", ERR },
	{ "_obstack_begin", ERR }, /* reports that there is no memory */
	{ "_obstack_newchunk", ERR },
	{ "rcmd", ERR },
	{ "rcmd_af", ERR },
	{ "rexec", ERR },
	{ "rexec_af", ERR },

	{ "getpass", ALL },
	/* A shell, and what it executes, has the descriptors, and the call no hook. */
	{ "system", ALL },
	{ "popen", ALL },
	{ "wordexp", ALL },
	{ "forkpty", ALL },
	{ "login_tty", ALL },
	/* Objects that are loaded later are not looked at. */
	{ "dlopen", ALL },
	{ "dlmopen", ALL },
};

/* Other objects that belong to libc; their own use of stdio is that of the functions above. */
static const char *const libcs[] = { "libc.so.6", "ld-linux", "libpthread.so.0", "libdl.so.2" };

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static unsigned int uses_of(const char *name, size_t len)
{
	for (size_t i = 0; len && i < sizeof(symbols) / sizeof(*symbols); i++)
		if (*symbols[i].name == *name && strncmp(symbols[i].name, name, len) == 0 &&
		    !symbols[i].name[len])
			return symbols[i].uses;
	return 0;
}

unsigned int rsk_std_use_of(const char *symbol)
{
	static const char *const prefixes[] = { "__isoc99_", "__isoc23_", "__nldbl_", "_IO_",
						"__" };
	size_t len = strlen(symbol);
	unsigned int uses = uses_of(symbol, len);

	if (uses)
		return uses;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		size_t skip = strlen(prefixes[i]);

		if (!begins(symbol, prefixes[i]))
			continue;
		symbol += skip;
		len -= skip;
	}
	if (len > 4 && strcmp(symbol + len - 4, "_chk") == 0)
		len -= 4;
	return uses_of(symbol, len);
}

/* The tables of an object that its dynamic section names. */
struct tables {
	const ElfW(Sym) * symbol;
	const char *text;
	size_t text_bytes;
	const uint8_t *rel[3]; /* DT_REL, DT_RELA, DT_JMPREL */
	size_t rel_bytes[3];
	size_t entry[3]; /* bytes of one */
	const char *soname;
};

/* The loader has added the address at which the object lies to most of these pointers. */
static const void *pointer(const struct dl_phdr_info *o, const ElfW(Dyn) * d)
{
	ElfW(Addr) at = d->d_un.d_ptr < o->dlpi_addr ? o->dlpi_addr + d->d_un.d_ptr : d->d_un.d_ptr;

	return (const void *)at; /* NOLINT(performance-no-int-to-ptr) */
}

static bool read_tables(const struct dl_phdr_info *o, const ElfW(Dyn) * d, struct tables *t)
{
	ElfW(Addr) soname = 0;
	bool named = false;

	*t = (struct tables){ .entry = { sizeof(ElfW(Rel)), sizeof(ElfW(Rela)), 0 } };
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			t->symbol = pointer(o, d);
			break;
		case DT_STRTAB:
			t->text = pointer(o, d);
			break;
		case DT_STRSZ:
			t->text_bytes = d->d_un.d_val;
			break;
		case DT_REL:
			t->rel[0] = pointer(o, d);
			break;
		case DT_RELSZ:
			t->rel_bytes[0] = d->d_un.d_val;
			break;
		case DT_RELA:
			t->rel[1] = pointer(o, d);
			break;
		case DT_RELASZ:
			t->rel_bytes[1] = d->d_un.d_val;
			break;
		case DT_JMPREL:
			t->rel[2] = pointer(o, d);
			break;
		case DT_PLTRELSZ:
			t->rel_bytes[2] = d->d_un.d_val;
			break;
		case DT_PLTREL:
			t->entry[2] = t->entry[d->d_un.d_val == DT_RELA];
			break;
		case DT_SONAME:
			soname = d->d_un.d_val;
			named = true;
			break;
		default:
			break;
		}
	}
	if (!t->symbol || !t->text || (t->rel[2] && !t->entry[2]))
		return false;
	t->soname = named && soname < t->text_bytes ? t->text + soname : "";
	return true;
}

/* Both kinds of entries begin with the same two words. */
static unsigned int uses_in(const struct tables *t, int kind)
{
	unsigned int uses = 0;

	for (size_t at = 0; t->rel[kind] && at + t->entry[kind] <= t->rel_bytes[kind];
	     at += t->entry[kind]) {
		const ElfW(Rel) *r = (const ElfW(Rel) *)(const void *)(t->rel[kind] + at);
#if __ELF_NATIVE_CLASS == 64
		size_t symbol = ELF64_R_SYM(r->r_info);
#else
		size_t symbol = ELF32_R_SYM(r->r_info);
#endif

		if (symbol && t->symbol[symbol].st_name < t->text_bytes)
			uses |= rsk_std_use_of(t->text + t->symbol[symbol].st_name);
	}
	return uses;
}

/* Whether the object is libc's, or this library. */
static bool is_known(const struct dl_phdr_info *o, const struct tables *t)
{
	ElfW(Addr) here = (ElfW(Addr)) & symbols;

	for (size_t i = 0; i < sizeof(libcs) / sizeof(*libcs); i++)
		if (begins(t->soname, libcs[i]))
			return true;
	for (size_t i = 0; i < o->dlpi_phnum && *t->soname; i++) {
		ElfW(Addr) from = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;

		if (o->dlpi_phdr[i].p_type == PT_LOAD && here >= from &&
		    here - from < o->dlpi_phdr[i].p_memsz)
			return true;
	}
	return false;
}

/* *@arg: the descriptors. 1: it uses one of them. */
static int object_uses(struct dl_phdr_info *o, size_t size, void *arg)
{
	const ElfW(Dyn) *dynamic = NULL;
	unsigned int which = *(unsigned int *)arg;
	struct tables t;

	(void)size;
	for (size_t i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	/* An object without relocations that name something, such as the vDSO, calls nobody. */
	if (!dynamic)
		return 0;
	if (!read_tables(o, dynamic, &t))
		return 1;
	if (is_known(o, &t))
		return 0;
	return ((uses_in(&t, 0) | uses_in(&t, 1) | uses_in(&t, 2)) & which) != 0;
}

bool rsk_std_use(unsigned int which)
{
	return dl_iterate_phdr(object_uses, &which);
}
