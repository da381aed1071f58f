/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_symbols.c - tests that the symbol table, the library's exports, libc and the documentation
 * name the same symbols, and that nothing inside the library calls a libc name that the library
 * itself defines.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const table[] = {
#define RSK_SYM(ret, name, params, args, family, raw, note) #name,
#define RSK_VAR(ret, name, params, family, note) #name,
#define RSK_ALIAS(alias, name, family, note) #alias,
#include "symbols.def"
};

#define TABLE_ROWS (sizeof(table) / sizeof(table[0]))

static bool in_table(const char *name)
{
	for (size_t i = 0; i < TABLE_ROWS; i++)
		if (strcmp(table[i], name) == 0)
			return true;
	return false;
}

/* ---- a 64-bit ELF file, mapped ---- */

struct elf {
	char *at;
	size_t bytes;
	const Elf64_Shdr *section;
	size_t sections;
};

static struct elf elf_open(const char *path)
{
	struct elf e = { 0 };
	const Elf64_Ehdr *h;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && fstat(fd, &st) == 0, "cannot open %s", path);
	e.bytes = (size_t)st.st_size;
	e.at = mmap(NULL, e.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	cr_assert(e.at != MAP_FAILED && e.bytes > sizeof(*h));
	h = (const void *)e.at;
	cr_assert(memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64);
	e.section = (const void *)(e.at + h->e_shoff);
	e.sections = h->e_shnum;
	return e;
}

static const char *elf_name(const struct elf *e, const Elf64_Shdr *symtab, const Elf64_Sym *sym)
{
	return e->at + e->section[symtab->sh_link].sh_offset + sym->st_name;
}

/* ---- exports ---- */

/* Symbols that the linker or a sanitizer puts into every library. */
static bool is_linkers(const char *name)
{
	return name[0] == '_' &&
	       (strcmp(name, "_init") == 0 || strcmp(name, "_fini") == 0 ||
		strcmp(name, "_edata") == 0 || strcmp(name, "_end") == 0 ||
		strcmp(name, "__bss_start") == 0 || strncmp(name, "__asan", 6) == 0 ||
		strncmp(name, "__odr_asan", 10) == 0);
}

static const char *env(const char *name)
{
	const char *value = getenv(name);

	cr_assert(value && *value, "%s is not set: run by ctest", name);
	return value;
}

Test(symbols, library_exports_the_table_and_nothing_else)
{
	struct elf e = elf_open(env("LIBRSOCK"));
	bool seen[TABLE_ROWS] = { false };
	size_t exported = 0;

	for (size_t i = 0; i < e.sections; i++) {
		const Elf64_Shdr *s = &e.section[i];
		const Elf64_Sym *sym = (const void *)(e.at + s->sh_offset);

		if (s->sh_type != SHT_DYNSYM)
			continue;
		for (size_t n = s->sh_size / sizeof(*sym); n; n--, sym++) {
			const char *name = elf_name(&e, s, sym);
			bool found = false;

			if (sym->st_shndx == SHN_UNDEF ||
			    ELF64_ST_BIND(sym->st_info) == STB_LOCAL || is_linkers(name))
				continue;
			exported++;
			for (size_t row = 0; row < TABLE_ROWS; row++)
				if (strcmp(table[row], name) == 0)
					found = seen[row] = true;
			cr_expect(found, "%s is exported, but not in symbols.def", name);
		}
	}
	cr_expect(exported > 100, "only %zu exports: is this the library?", exported);
	for (size_t row = 0; row < TABLE_ROWS; row++)
		cr_expect(seen[row], "%s is in symbols.def, but not exported", table[row]);
}

Test(symbols, table_has_no_name_twice)
{
	for (size_t i = 0; i < TABLE_ROWS; i++)
		for (size_t j = i + 1; j < TABLE_ROWS; j++)
			cr_expect_str_neq(table[i], table[j]);
}

/*
 * A name that libc has for old programs only is found by its version: the first one that libc has
 * had on this processor.
 */
#if defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#else
#define FIRST_VERSION "GLIBC_2.2.5"
#endif

Test(symbols, libc_has_every_name)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	cr_assert_not_null(libc);
	for (size_t i = 0; i < TABLE_ROWS; i++)
		cr_expect(dlsym(libc, table[i]) || dlvsym(libc, table[i], FIRST_VERSION),
			  "libc does not know %s", table[i]);
}

/* ---- documentation ---- */

static char *slurp(FILE *f)
{
	static const size_t max = 1 << 20;
	char *text = malloc(max);
	size_t n;

	cr_assert(f && text);
	n = fread(text, 1, max - 1, f);
	text[n] = 0;
	return text;
}

Test(symbols, docs_are_made_of_the_table)
{
	FILE *made = popen(env("RSK_SYMDOC"), "r"), *kept = fopen(env("RSK_SYMBOLS_MD"), "r");
	char *want = slurp(made), *have = slurp(kept);

	cr_expect(pclose(made) == 0 && strlen(want) > 1000);
	cr_expect(strcmp(want, have) == 0,
		  "docs/symbols.md is not what symbols.def says: build the target symbols-doc");
	fclose(kept);
	free(want);
	free(have);
}

/* ---- stray calls ---- */

/*
 * A reference to a name of the table is wrong in every object, the one that defines it included: a
 * call from a preloaded library would come back to its own hook. Checks the relocations of loaded
 * sections, not of debug information.
 */
static void no_stray_calls(const char *path)
{
	struct elf e = elf_open(path);

	for (size_t i = 0; i < e.sections; i++) {
		const Elf64_Shdr *s = &e.section[i], *symtab = &e.section[s->sh_link];
		const Elf64_Rela *rela = (const void *)(e.at + s->sh_offset);

		if (s->sh_type != SHT_RELA || !(e.section[s->sh_info].sh_flags & SHF_ALLOC))
			continue;
		for (size_t n = s->sh_size / sizeof(*rela); n; n--, rela++) {
			const Elf64_Sym *sym =
				(const Elf64_Sym *)(const void *)(e.at + symtab->sh_offset) +
				ELF64_R_SYM(rela->r_info);
			const char *name = elf_name(&e, symtab, sym);

			cr_expect(ELF64_ST_TYPE(sym->st_info) == STT_SECTION || !in_table(name),
				  "%s calls libc's %s", path, name);
		}
	}
	munmap(e.at, e.bytes);
}

Test(symbols, nothing_inside_calls_a_hooked_name)
{
	char *objects = strdup(env("RSK_OBJECTS")), *at = objects, *path;
	size_t n = 0;

	while ((path = strsep(&at, ":")) != NULL) {
		if (!*path)
			continue;
		no_stray_calls(path);
		n++;
	}
	cr_expect(n >= 20, "only %zu objects", n);
	free(objects);
}

/* The library depends on libc only. */
Test(symbols, library_needs_libc_only)
{
	struct elf e = elf_open(env("LIBRSOCK"));

	for (size_t i = 0; i < e.sections; i++) {
		const Elf64_Shdr *s = &e.section[i];
		const Elf64_Dyn *dyn = (const void *)(e.at + s->sh_offset);

		if (s->sh_type != SHT_DYNAMIC)
			continue;
		for (; dyn->d_tag != DT_NULL; dyn++) {
			const char *lib = e.at + e.section[s->sh_link].sh_offset + dyn->d_un.d_val;

			if (dyn->d_tag == DT_NEEDED)
				cr_expect(strncmp(lib, "libc.so", 7) == 0 ||
						  strncmp(lib, "ld-linux", 8) == 0 ||
						  strstr(lib, "san.so"),
					  "needs %s", lib);
		}
	}
}
