/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * privs.c - tests a child that gives up privileges by every available means, and then attacks its
 * parent: it shares nothing with the parent but sockets, and the parent's stream goes on, with the
 * right bytes. privs_after.c tests when the ring is used again.
 */
#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "app.h"

#define NOBODY 65534
#define MAPS 512

struct map {
	unsigned long from, to, dev, ino;
	char prot[8];
	char name[128];
};

static struct map maps[MAPS];

/* Reads this process's mappings, or those listed in @path. */
static int read_maps(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned int major, minor;
	char line[512];
	int n = 0;

	if (!f)
		app_die("no %s", path);
	while (n < MAPS && fgets(line, sizeof(line), f)) {
		struct map *m = &maps[n];

		m->name[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*x %x:%x %lu %127s", &m->from, &m->to, m->prot,
			   &major, &minor, &m->ino, m->name) >= 6) {
			m->dev = makedev(major, minor);
			n++;
		}
	}
	fclose(f);
	return n;
}

/*
 * Counts writable memory that other processes may share: not the test's own, nor what this process
 * has made for itself.
 */
static int count_shared(void)
{
	struct stat st;
	int n = read_maps("/proc/self/maps"), shared = 0;
	const char *own = getenv("APP_SHM");

	for (int i = 0; i < n; i++) {
		if (maps[i].prot[3] != 's' || maps[i].prot[1] != 'w')
			continue;
		if (own && stat(own, &st) == 0 && st.st_ino == maps[i].ino)
			continue;
		if (!strcmp(maps[i].name, "/memfd:rsock-stat")) /* which `rsock stat` reads */
			continue;
		LOG("maps %s %s", maps[i].prot, maps[i].name);
		shared++;
	}
	return shared;
}

/* The inode of the statistics segment: a child's differs from its parent's. */
static unsigned long stat_ino(void)
{
	int n = read_maps("/proc/self/maps");

	for (int i = 0; i < n; i++)
		if (!strcmp(maps[i].name, "/memfd:rsock-stat"))
			return maps[i].ino;
	return 0;
}

static int fds[1024], nfds;

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	char path[280], is[128];
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)) && nfds < 1024) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		len = readlink(path, is, sizeof(is) - 1);
		if (len < 0)
			continue;
		is[len] = 0;
		fds[nfds++] = atoi(e->d_name);
		n += strstr(is, "eventfd") || strstr(is, "rsock-link") ||
		     strstr(is, "rsock-mirror");
	}
	if (d)
		closedir(d);
	return n;
}

/* By calls that the library does not see: writes to everything open except the socket @keep. */
static void harm_fds(int keep)
{
	char junk[256];

	memset(junk, 0x41, sizeof(junk));
	for (int k = 0; k < nfds; k++) {
		int fd = fds[k];
		struct stat st;

		if (fd <= 2 || fd == keep || syscall(SYS_fstat, fd, &st) < 0)
			continue;
		for (int i = 0; i < 300; i++)
			syscall(SYS_sendto, fd, junk, (long)(i & 7), MSG_DONTWAIT | MSG_NOSIGNAL, 0,
				0);
		for (uint32_t i = 0; i < 64; i++)
			syscall(SYS_sendto, fd, &i, sizeof(i), MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
		if (S_ISREG(st.st_mode)) {
			syscall(SYS_pwrite64, fd, junk, sizeof(junk), 0);
			syscall(SYS_ftruncate, fd, 0);
		}
		syscall(SYS_ioctl, fd, FIONBIO, &(int){ 0 });
	}
}

/* The only call that a process without usable memory can still make. */
static void end(void)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0) : "memory");
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_exit_group, rc __asm__("x0") = 0;

	__asm__ volatile("svc 0" : : "r"(nr), "r"(rc) : "memory");
#else
#error "exit_group"
#endif
}

/* Fills the library's memory (@n entries of maps) with invalid addresses. */
static void harm_memory(int n)
{
	for (int i = 0; i < n; i++) {
		bool arena = !maps[i].name[0] && maps[i].to - maps[i].from >= 1ul << 29;
		bool data = strstr(maps[i].name, "librsock") && maps[i].prot[1] == 'w';
		unsigned long bytes = maps[i].to - maps[i].from;

		if (maps[i].prot[1] != 'w' || (!arena && !data))
			continue;
		if (bytes > 4u << 20)
			bytes = 4u << 20;
		for (unsigned long at = 0; at + 8 <= bytes; at += 8)
			*(volatile uint64_t *)(maps[i].from + at) = 0x0000424242424242;
	}
}

static int drop_ids(bool raw)
{
	if (raw)
		return (int)(syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) |
			     syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY));
	return setresgid(NOBODY, NOBODY, NOBODY) | setresuid(NOBODY, NOBODY, NOBODY);
}

static int drop_one_by_one(bool raw)
{
	if (raw)
		return (int)(syscall(SYS_setgid, NOBODY) | syscall(SYS_setuid, NOBODY));
	return setgid(NOBODY) | setuid(NOBODY);
}

static int drop_pairs(bool raw)
{
	if (raw)
		return (int)(syscall(SYS_setregid, NOBODY, NOBODY) |
			     syscall(SYS_setreuid, NOBODY, NOBODY));
	return setregid(NOBODY, NOBODY) | setreuid(NOBODY, NOBODY);
}

static int drop_groups(bool raw)
{
	return raw ? (int)syscall(SYS_setgroups, 0, NULL) : setgroups(0, NULL);
}

/* libc has no function for it. */
static int drop_caps(bool raw)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	(void)raw;
	return (int)syscall(SYS_capset, &head, data);
}

static int drop_root(bool raw)
{
	return raw ? (int)syscall(SYS_chroot, "/proc/self") : chroot("/proc/self");
}

static int drop_space(bool raw)
{
	return raw ? (int)syscall(SYS_unshare, CLONE_NEWUTS) : unshare(CLONE_NEWUTS);
}

static int drop_into(bool raw)
{
	int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC), rc;

	rc = raw ? (int)syscall(SYS_setns, fd, CLONE_NEWUTS) : setns(fd, CLONE_NEWUTS);
	close(fd);
	return rc;
}

static int drop_new(bool raw)
{
	return raw ? (int)syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) :
		     prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int drop_calls(bool raw)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &all };

	if (raw)
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

static void child(int fd, int (*drop)(bool raw), bool raw, unsigned long parents)
{
	int n;

	LOG("shared %d, fds %d, another's statistics %s", count_shared(), count_fds(),
	    parents && stat_ino() == parents ? "yes" : "no");
	n = read_maps("/proc/self/maps");
	LOG("dropped %d", drop(raw));
	harm_fds(fd);
	harm_memory(n);
	end();
}

/* Bytes are unread when the child is made; it lives while the parent reads them, and after. */
static void attack(int (*drop)(bool raw))
{
	int fd = app_open(WARM | NODELAY);

	for (int raw = 0; raw < 2; raw++) {
		if (CLI) {
			SAY(fd, "unread before the fork");
			app_sync();
			LOG("good %d", app_pingpong(fd, 200, true));
			app_sync();
			continue;
		}
		app_await_inq(fd, 22);
		unsigned long ino = stat_ino();
		pid_t pid = fork();

		if (!pid)
			child(fd, drop, raw, ino);
		app_reap(pid, "child");
		app_hear(fd, 22);
		app_sync();
		LOG("good %d", app_pingpong(fd, 200, false));
		app_sync();
	}
	app_close(fd);
}

CASE(ids, DIRECT, "setresuid and setresgid, by libc and by the system call")
{
	attack(drop_ids);
}

CASE(ids_one_by_one, DIRECT, "setuid and setgid")
{
	attack(drop_one_by_one);
}

CASE(ids_in_pairs, DIRECT, "setreuid and setregid")
{
	attack(drop_pairs);
}

CASE(groups, DIRECT, "setgroups")
{
	attack(drop_groups);
}

CASE(caps, DIRECT, "capset")
{
	attack(drop_caps);
}

CASE(root, DIRECT, "chroot")
{
	attack(drop_root);
}

CASE(space, DIRECT, "unshare")
{
	attack(drop_space);
}

CASE(into, DIRECT, "setns")
{
	attack(drop_into);
}

CASE(no_new, DIRECT, "prctl(PR_SET_NO_NEW_PRIVS)")
{
	attack(drop_new);
}

CASE(calls, DIRECT, "seccomp filters")
{
	attack(drop_calls);
}
