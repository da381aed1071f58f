// SPDX-License-Identifier: BSD-2-Clause
/* rdma.c - see rdma.h. */
#include "rdma.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "progress.h"
#include "link.h"
#include "log.h"
#include "process.h"
#include "stats.h"

#define MODULE "librsock-verbs.so"
#define SYSFS "/sys/class/infiniband"
#define LISTEN_TRIES 16
#define BACKLOG 64

/*
 * Written by the progress thread before its state says that it runs, or before there is a link
 * whose streams lead here.
 */
const struct rsk_verbs_module *rsk_rdma_module;
struct rsk_verbs *rsk_rdma;

bool rsk_rdma_device(void)
{
	/* In the kernel's order: "." and ".." come first, every entry after them is a device. */
	uint8_t entries[1024];
	int fd = rsk_sys_openat(AT_FDCWD, SYSFS, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), found = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	n = rsk_sys_getdents64(fd, entries, sizeof(entries));
	for (ssize_t at = 0; at < n; found++) {
		uint16_t len;

		memcpy(&len, entries + at + offsetof(struct dirent64, d_reclen), sizeof(len));
		at += len;
	}
	rsk_sys_close(fd);
	return found > 2;
}

/* In the directory of this library. */
static int module_path(char path[static PATH_MAX])
{
	const char *slash;
	Dl_info here;
	int n;

	if (!dladdr((const void *)&rsk_rdma_module, &here) || !here.dli_fname)
		return -ENOENT;
	slash = strrchr(here.dli_fname, '/');
	n = snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - here.dli_fname) : 0,
		     here.dli_fname, MODULE);
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int rsk_rdma_open(const struct rsk_verbs_host *host)
{
	struct rsk_verbs_host counted = *host;
	const struct rsk_verbs_module *m;
	char path[PATH_MAX];
	struct rsk_verbs *v;
	void *lib;
	int rc = module_path(path);

	if (rc < 0)
		return rc;
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		rsk_log(RSK_LOG_INFO, "no RDMA: %s", dlerror());
		return -ENOENT;
	}
	m = dlsym(lib, "rsk_verbs_module");
	if (!m || m->version != RSK_VERBS_VERSION) {
		rsk_log(RSK_LOG_ERROR, "no RDMA: %s is of another version", path);
		return -EPROTO;
	}
	counted.counts = rsk_stats_self()->verbs;
	rc = m->open(&counted, &v);
	if (rc < 0) {
		rsk_log(RSK_LOG_INFO, "no RDMA: %s: %d", path, rc);
		return rc;
	}
	rsk_rdma_module = m;
	rsk_rdma = v;
	return 0;
}

void rsk_rdma_forked(void)
{
	if (rsk_rdma)
		rsk_rdma_module->forked(rsk_rdma);
	rsk_rdma = NULL;
}

/* Makes a listening TCP socket at any free port, which is stored in *port. Its fd or -errno. */
static int control_socket(uint16_t *port)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	struct sockaddr_in sa4 = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	const int off = 0;
	int fd = rsk_sys_socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd >= 0) {
		rsk_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		rc = rsk_sys_bind(fd, &sa, sizeof(sa));
	} else {
		fd = rsk_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		rc = fd < 0 ? fd : rsk_sys_bind(fd, &sa4, sizeof(sa4));
	}
	if (rc == 0)
		rc = rsk_sys_listen(fd, BACKLOG);
	if (rc == 0)
		rc = rsk_sys_getsockname(fd, &sa, &len);
	if (rc < 0) {
		if (fd >= 0)
			rsk_sys_close(fd);
		return rc;
	}
	*port = ntohs(sa.sin6_port); /* at the same offset in both */
	return rsk_own_fd(fd);
}

int rsk_rdma_listen(uint16_t *port, int *control)
{
	int rc = -EADDRINUSE;

	/* A number that is free for TCP may be taken for RDMA. */
	for (int i = 0; i < LISTEN_TRIES && rc == -EADDRINUSE; i++) {
		*control = control_socket(port);
		if (*control < 0)
			return *control;
		rc = rsk_rdma_module->listen(rsk_rdma, *port);
		if (rc < 0)
			rsk_own_close(*control);
	}
	return rc < 0 ? rc : 0;
}

int rsk_rdma_poll(bool events)
{
	int n;

	if (!rsk_rdma)
		return 0;
	rsk_sigdefer_enter();
	n = rsk_rdma_module->poll(rsk_rdma, events);
	rsk_sigdefer_exit();
	return n;
}

int rsk_rdma_news_fd(void)
{
	return rsk_rdma_module->news_fd(rsk_rdma);
}

/* Does what a peer on this host would do itself on seeing our announcements. */
void rsk_rdma_news(void *ctx, void *link, uint32_t sid, uint32_t what)
{
	struct rsk_link *l = link;
	struct rsk_seg_head *head = rsk_seg_own_head(&l->seg);
	uint64_t doorbells;

	if (sid >= rsk_seg_streams(&l->seg))
		return;
	doorbells = rsk_seg_due(head, sid, what);
	if (!doorbells)
		return;
	atomic_store_explicit(&head->rang_ns, rsk_now_ns(), memory_order_relaxed);
	rsk_link_strike(l, doorbells);
}
