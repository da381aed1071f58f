// SPDX-License-Identifier: BSD-2-Clause
/* program.c - see program.h. */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Linkers put program headers and the name of the loader at the beginning of the file. */
#define HEAD_BYTES 65536
#define SEGMENTS_MAX 256

#if UINTPTR_MAX == UINT64_MAX
#define OWN_CLASS ELFCLASS64
#else
#error "librsock is for 64-bit machines"
#endif
#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#elif defined(__riscv)
#define OWN_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define OWN_MACHINE EM_PPC64
#elif defined(__s390x__)
#define OWN_MACHINE EM_S390
#else
#define OWN_MACHINE EM_NONE
#endif

/*
 * Whether @interp is glibc's loader. Only the file name decides, because it is part of each
 * machine's ABI: ld-linux-x86-64.so.2, ld-linux-aarch64.so.1, ld64.so.1 (s390x), ld.so.1 (mips,
 * ppc), ld-lsb-x86-64.so.3. The folder may be any (Nix, Guix, a copy beside the program). Every
 * other loader loads another C library, with which librsock.so cannot be linked: the program would
 * exit in the loader.
 */
static bool loader_is_glibc(const char *interp)
{
	static const char *const names[] = { "ld-linux", "ld-lsb", "ld64.so.", "ld.so.1" };
	const char *base = strrchr(interp, '/');

	base = base ? base + 1 : interp;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static enum program_kind classify_elf(const uint8_t *head, size_t len, char interp[static PATH_MAX])
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (len < sizeof(eh))
		return PROGRAM_UNKNOWN;
	memcpy(&eh, head, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != OWN_CLASS ||
	    (OWN_MACHINE != EM_NONE && eh.e_machine != OWN_MACHINE))
		return PROGRAM_FOREIGN;
	if ((eh.e_type != ET_EXEC && eh.e_type != ET_DYN) || eh.e_phentsize != sizeof(ph) ||
	    !eh.e_phnum || eh.e_phnum > SEGMENTS_MAX || eh.e_phoff > len ||
	    (len - eh.e_phoff) / sizeof(ph) < eh.e_phnum)
		return PROGRAM_UNKNOWN;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, head + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz < 2 || ph.p_filesz > PATH_MAX || ph.p_offset > len ||
		    len - ph.p_offset < ph.p_filesz || head[ph.p_offset] != '/' ||
		    head[ph.p_offset + ph.p_filesz - 1])
			return PROGRAM_UNKNOWN;
		memcpy(interp, head + ph.p_offset, ph.p_filesz);
		return loader_is_glibc(interp) ? PROGRAM_DYNAMIC : PROGRAM_OTHER_LIBC;
	}
	return PROGRAM_STATIC;
}

enum program_kind program_classify(const uint8_t *head, size_t len, char interp[static PATH_MAX])
{
	size_t from = 2, to;

	interp[0] = 0;
	if (len >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
		return classify_elf(head, len, interp);
	if (len < 3 || head[0] != '#' || head[1] != '!')
		return PROGRAM_UNKNOWN;
	while (from < len && (head[from] == ' ' || head[from] == '\t'))
		from++;
	for (to = from; to < len && head[to] > ' '; to++)
		;
	if (to == from || to == len || to - from >= PATH_MAX)
		return PROGRAM_UNKNOWN;
	memcpy(interp, head + from, to - from);
	interp[to - from] = 0;
	return PROGRAM_SCRIPT;
}

/*
 * Looks in @len bytes of ELF notes for the one of the Go linker: name "Go", type 4 (the build id).
 */
static bool has_go_note(const uint8_t *notes, size_t len)
{
	Elf64_Nhdr nh;

	while (len >= sizeof(nh) + 4) {
		size_t bytes;

		memcpy(&nh, notes, sizeof(nh));
		if (nh.n_namesz == 4 && nh.n_type == 4 &&
		    memcmp(notes + sizeof(nh), "Go\0", 4) == 0)
			return true;
		bytes = sizeof(nh) + ((size_t)nh.n_namesz + 3) / 4 * 4 +
			((size_t)nh.n_descsz + 3) / 4 * 4;
		if (bytes > len)
			return false;
		notes += bytes;
		len -= bytes;
	}
	return false;
}

bool program_is_go(const uint8_t *head, size_t len)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (len < sizeof(eh) || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != OWN_CLASS)
		return false;
	memcpy(&eh, head, sizeof(eh));
	if (eh.e_phentsize != sizeof(ph) || eh.e_phnum > SEGMENTS_MAX || eh.e_phoff > len ||
	    (len - eh.e_phoff) / sizeof(ph) < eh.e_phnum)
		return false;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, head + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_NOTE && ph.p_offset < len &&
		    has_go_note(head + ph.p_offset,
				ph.p_filesz < len - ph.p_offset ? ph.p_filesz : len - ph.p_offset))
			return true;
	}
	return false;
}

static enum program_kind classify_file(const char *path, char interp[static PATH_MAX])
{
	enum program_kind kind = PROGRAM_UNKNOWN;
	uint8_t *head = malloc(HEAD_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n;

	interp[0] = 0;
	if (fd >= 0 && head) {
		n = pread(fd, head, HEAD_BYTES, 0);
		if (n > 0)
			kind = program_classify(head, (size_t)n, interp);
	}
	if (fd >= 0)
		close(fd);
	free(head);
	return kind;
}

bool program_file_is_go(const char *path)
{
	uint8_t *head = malloc(HEAD_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd >= 0 && head ? pread(fd, head, HEAD_BYTES, 0) : -1;
	bool go = n > 0 && program_is_go(head, (size_t)n);

	if (fd >= 0)
		close(fd);
	free(head);
	return go;
}

bool program_takes_preload(enum program_kind kind)
{
	return kind != PROGRAM_OTHER_LIBC && kind != PROGRAM_FOREIGN;
}

enum program_kind program_kind(const char *path)
{
	char interp[PATH_MAX], next[PATH_MAX];
	enum program_kind kind = classify_file(path, interp);

	/* The kernel follows as many levels. */
	for (int depth = 0; kind == PROGRAM_SCRIPT && depth < 5; depth++) {
		memcpy(next, interp, sizeof(next));
		kind = classify_file(next, interp);
	}
	return kind;
}

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -ENOENT;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int program_find(const char *name, char out[static PATH_MAX])
{
	const char *path = getenv("PATH");
	int worst = -ENOENT;

	if (strchr(name, '/') || !*name) {
		snprintf(out, PATH_MAX, "%s", name);
		return executable(out);
	}
	for (const char *p = path ? path : "/bin:/usr/bin";; p++) {
		size_t n = strcspn(p, ":");
		int err;

		if (snprintf(out, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? p : ".", name) <
		    PATH_MAX) {
			err = executable(out);
			if (!err)
				return 0;
			if (err == -EACCES)
				worst = err;
		}
		p += n;
		if (!*p)
			return worst;
	}
}

bool program_is_secure(const char *path, uid_t uid, gid_t gid)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	if (((st.st_mode & S_ISUID) && st.st_uid != uid) ||
	    /* Set-gid without the group's execute bit means mandatory locking (inode(7)). */
	    ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != gid))
		return true;
	return uid != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}
