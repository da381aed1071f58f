// SPDX-License-Identifier: BSD-2-Clause
/*
 * forked.c - releases the copies that the child of a fork has of the module's descriptors and
 * mappings, so that the queue pairs end with the parent. Called through the module's table. It
 * allocates nothing and calls no libc function that may take a lock, because another thread of the
 * parent may have held that lock.
 *
 * Descriptors and mappings (queues, doorbells) keep a device's file open. The mappings are replaced
 * by empty memory, because a driver's destructor may still access or unmap them.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <rsock/sys.h>

#include "dev.h"
#include "rail.h"

static bool hex(const char **at, const char *end, uintptr_t *out)
{
	const char *from = *at;

	for (*out = 0; *at < end; ++*at) {
		char c = **at;

		if (c >= '0' && c <= '9')
			*out = *out * 16 + (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*out = *out * 16 + (uintptr_t)(c - 'a') + 10;
		else
			break;
	}
	return *at > from;
}

/* A line of /proc/PID/maps: "from-to perms ... path". */
static void one_mapping(const char *line, const char *end)
{
	static const char device[] = "/dev/infiniband/";
	const char *at = line;
	uintptr_t from, to;

	if (!memmem(line, (size_t)(end - line), device, sizeof(device) - 1) ||
	    !hex(&at, end, &from) || at == end || *at++ != '-' || !hex(&at, end, &to) || to <= from)
		return;
	rsk_sys_mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
		     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/*
 * The kernel lists mappings by address, so replacing them one by one while reading hides no line.
 */
static void drop_mappings(void)
{
	int fd = rsk_sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char text[4096];
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = rsk_sys_read(fd, text + have, sizeof(text) - have)) > 0) {
		char *line = text, *end = text + have + n, *stop;

		while ((stop = memchr(line, '\n', (size_t)(end - line)))) {
			one_mapping(line, stop);
			line = stop + 1;
		}
		have = (size_t)(end - line);
		if (have == sizeof(text)) /* no path of a device is that long */
			have = 0;
		memmove(text, line, have);
	}
	rsk_sys_close(fd);
}

/*
 * Another thread may have held the locks at the fork, so they are initialised anew. Puts fail from
 * here on.
 */
static void mute(struct rsk_verbs_rail *r)
{
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->in_lock, NULL);
	r->live = false;
	atomic_store(&r->fresh_n, 0);
}

void rsk_verbs_forked(struct rsk_verbs *v)
{
	for (struct rsk_verbs_rail *r = v->rails; r; r = r->next)
		mute(r);
	for (struct rsk_vdev *d = atomic_load(&v->devs); d; d = d->next) {
		if (atomic_load(&d->dead))
			continue;
		rsk_drop_fd(&d->recv_channel->fd);
		rsk_drop_fd(&d->send_channel->fd);
	}
	rsk_contexts_forked();
	drop_mappings();
	rsk_drop_fd(&v->channel->fd);
	rsk_drop_fd(&v->work_fd);
	rsk_drop_fd(&v->news_fd);
	rsk_drop_fd(&v->more_fd);
	rsk_drop_fd(&v->kernel_fd);
	rsk_cm_lib_forked();
}
