// SPDX-License-Identifier: BSD-2-Clause
/* proc.c - see proc.h; the files are described in proc(5). */
#include "proc.h"

#include "library.h"
#include "rsock.h"
#include "scan.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct finding_row rows[FINDING_COUNT] = {
#define FINDING(code, token, sentence, cure) [FINDING_##code] = { token, sentence, cure },
#include "finding.def"
#undef FINDING
};

const struct finding_row *finding_row(enum finding f)
{
	return &rows[f];
}

/* Reads a whole file of /proc/PID and zero-terminates it; the caller frees it. NULL with errno. */
static char *file_read(pid_t pid, const char *name, size_t *len)
{
	size_t room = 4096, have = 0;
	char path[48], *text, *more;
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	text = malloc(room);
	while (text && (n = read(fd, text + have, room - 1 - have)) > 0) {
		have += (size_t)n;
		if (have < room - 1)
			continue;
		room *= 2;
		more = realloc(text, room);
		if (!more) {
			free(text);
			errno = ENOMEM;
		}
		text = more;
	}
	if (text && n < 0) {
		int err = errno;

		free(text);
		text = NULL;
		errno = err;
	}
	close(fd);
	if (text) {
		text[have] = 0;
		*len = have;
	}
	return text;
}

/* The rest of the line that begins with @key; NULL: none. */
static const char *line_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *p = text; p && *p; p = strchr(p, '\n'), p += p != NULL)
		if (strncmp(p, key, len) == 0)
			return p + len;
	return NULL;
}

static void status_read(struct proc *p)
{
	size_t len;
	char *text = file_read(p->pid, "status", &len);
	const char *at;

	if (!text)
		return;
	p->there = true;
	at = line_of(text, "Name:\t");
	if (at)
		text_clean(p->comm, sizeof(p->comm), at, strcspn(at, "\n"));
	at = line_of(text, "State:\t");
	p->state = at ? *at : '?';
	at = line_of(text, "Uid:\t");
	if (at) {
		char *second;

		strtoul(at, &second, 10);
		p->euid = (uid_t)strtoul(second, NULL, 10);
	}
	at = line_of(text, "Seccomp:\t");
	p->seccomp = at ? (int)strtol(at, NULL, 10) : -1;
	/*
	 * Kthread is there since Linux 6.4; before that, a process without VmSize is a kernel
	 * thread.
	 */
	at = line_of(text, "Kthread:\t");
	if (at)
		p->kernel = *at == '1' ? ANSWER_YES : ANSWER_NO;
	else
		p->kernel = line_of(text, "VmSize:") || p->state == 'Z' ? ANSWER_NO : ANSWER_YES;
	free(text);
}

static uint64_t limit_of(const char *text, const char *key)
{
	const char *at = line_of(text, key);

	at = at ? at + strspn(at, " ") : NULL;
	return at && isdigit((unsigned char)*at) ? strtoull(at, NULL, 10) : UINT64_MAX;
}

static void limits_read(struct proc *p)
{
	size_t len;
	char *text = file_read(p->pid, "limits", &len);

	if (!text)
		return;
	p->address_bytes = limit_of(text, "Max address space");
	p->files_max = limit_of(text, "Max open files");
	free(text);
}

static void maps_read(struct proc *p)
{
	static const char name[] = "/" LIBRARY_FILE;
	size_t len;
	char *text = file_read(p->pid, "maps", &len);

	if (!text)
		return;
	p->loaded = ANSWER_NO;
	/* The name ends the line, or " (deleted)" follows because the file was replaced. */
	for (const char *at = text; (at = strstr(at, name)); at += sizeof(name) - 1)
		if (at[sizeof(name) - 1] == '\n' || at[sizeof(name) - 1] == ' ')
			p->loaded = ANSWER_YES;
	/* The file of a process that is exiting is empty. */
	if (!len)
		p->loaded = ANSWER_UNKNOWN;
	free(text);
}

const char *environ_value(const char *env, size_t len, const char *name)
{
	size_t want = strlen(name);

	for (const char *p = env; p < env + len; p += strlen(p) + 1)
		if (strncmp(p, name, want) == 0 && p[want] == '=')
			return p + want + 1;
	return NULL;
}

static void environ_read(struct proc *p)
{
	size_t len;
	char *text = file_read(p->pid, "environ", &len);
	const char *value;

	/*
	 * A program may overwrite its environment (nginx, postgres: process titles): empty is
	 * unknown.
	 */
	if (text && len) {
		value = environ_value(text, len, "LD_PRELOAD");
		p->asked = value && preload_names_library(value, NULL, NULL) ? ANSWER_YES :
									       ANSWER_NO;
		value = environ_value(text, len, "RSOCK_DISABLE");
		p->disabled = value && *value && *value != '0' ? ANSWER_YES : ANSWER_NO;
	}
	free(text);
}

enum answer auxv_secure(const void *auxv, size_t len)
{
	Elf64_auxv_t entry;

	for (size_t at = 0; at + sizeof(entry) <= len; at += sizeof(entry)) {
		memcpy(&entry, (const char *)auxv + at, sizeof(entry));
		if (entry.a_type == AT_SECURE)
			return entry.a_un.a_val ? ANSWER_YES : ANSWER_NO;
	}
	return ANSWER_UNKNOWN;
}

static void auxv_read(struct proc *p)
{
	size_t len;
	char *bytes = file_read(p->pid, "auxv", &len);

	if (bytes)
		p->secure = auxv_secure(bytes, len);
	free(bytes);
}

static void fds_read(struct proc *p)
{
	char path[48], target[40];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", p->pid);
	dir = opendir(path);
	if (!dir)
		return;
	p->files_seen = true;
	p->io_uring = ANSWER_NO;
	while ((entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		p->files += isdigit((unsigned char)entry->d_name[0]) != 0;
		if (n == (ssize_t)strlen("anon_inode:[io_uring]") &&
		    memcmp(target, "anon_inode:[io_uring]", (size_t)n) == 0)
			p->io_uring = ANSWER_YES;
		if (n == (ssize_t)strlen(SEGMENT_LINK) &&
		    memcmp(target, SEGMENT_LINK, (size_t)n) == 0)
			p->other_version = segment_other_version(dirfd(dir), entry->d_name);
	}
	closedir(dir);
}

void proc_read(pid_t pid, struct proc *out)
{
	char path[48];

	memset(out, 0, sizeof(*out));
	out->pid = pid;
	out->seccomp = -1;
	out->address_bytes = out->files_max = UINT64_MAX;
	status_read(out);
	if (!out->there)
		return;
	limits_read(out);
	maps_read(out);
	environ_read(out);
	auxv_read(out);
	fds_read(out);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	out->kind = program_kind(path);
	out->go = program_file_is_go(path);
}

uint64_t proc_netns(pid_t pid)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return stat(path, &st) ? 0 : st.st_ino;
}

enum finding proc_finding(const struct proc *p)
{
	if (!p->there)
		return FINDING_GONE;
	if (p->state == 'Z' || p->state == 'X')
		return FINDING_ZOMBIE;
	if (p->kernel == ANSWER_YES)
		return FINDING_KERNEL;
	if (p->loaded == ANSWER_YES) {
		if (p->secure == ANSWER_YES)
			return FINDING_SECURE;
		if (p->disabled == ANSWER_YES)
			return FINDING_DISABLED;
		return p->other_version ? FINDING_OTHER_VERSION : FINDING_READY;
	}
	if (p->kind == PROGRAM_STATIC)
		return FINDING_STATIC;
	if (p->kind == PROGRAM_FOREIGN)
		return FINDING_FOREIGN;
	if (p->kind == PROGRAM_OTHER_LIBC)
		return FINDING_OTHER_LIBC;
	if (p->loaded == ANSWER_UNKNOWN)
		return FINDING_UNREADABLE;
	if (p->secure == ANSWER_YES)
		return FINDING_SECURE;
	if (p->asked == ANSWER_UNKNOWN)
		return FINDING_NOT_LOADED;
	return p->asked == ANSWER_YES ? FINDING_PRELOAD_FAILED : FINDING_NO_PRELOAD;
}

size_t proc_notes(const struct proc *p, char text[static PROC_NOTES][160])
{
	size_t n = 0;

	if (p->seccomp > 0)
		snprintf(text[n++], 160,
			 "A seccomp filter is in force; it stops the library if it kills for a "
			 "call of it, or refuses one and the program has set it itself.");
	if (p->io_uring == ANSWER_YES)
		snprintf(text[n++], 160,
			 "It has an io_uring: the sockets that it uses there stay on TCP.");
	/* 16: the descriptors of a link and some doorbells. */
	if (p->files_seen && p->files_max != UINT64_MAX && p->files + 16 > p->files_max)
		snprintf(text[n++], 160,
			 "It has %" PRIu64 " of %" PRIu64
			 " descriptors (ulimit -n) open: none may be left for the library.",
			 p->files, p->files_max);
	if (p->address_bytes != UINT64_MAX)
		snprintf(text[n++], 160,
			 "Its address space is limited to %" PRIu64
			 " MiB (ulimit -v): a link reserves its whole range at once.",
			 p->address_bytes >> 20);
	return n;
}

json_t *proc_json(const struct proc *p)
{
	const struct finding_row *row = finding_row(proc_finding(p));
	char notes[PROC_NOTES][160], user[33];
	json_t *list = json_array();
	size_t n = proc_notes(p, notes);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(notes[i]));
	return json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:o}", "pid", (int)p->pid, "comm", p->comm,
			 "user", p->there ? user_text(user, p->euid) : "", "finding", row->token,
			 "sentence", row->sentence, "cure", row->cure, "notes", list);
}
