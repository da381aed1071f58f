/*
 * hostile_control.c - the modes control and slow of bin/fault_hostile (hostile.c): the other end of
 * a victim's control socket, which sends what no honest peer sends; and damage to a segment.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rsock/reason.h>
#include <rsock/splitmix.h>

#include "doorbell.h"
#include "handshake.h"
#include "hostile.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RING_KB 64u
#define MAX_FDS 12

void hostile_scribble(uint64_t *state, uint8_t *at, size_t len)
{
	uint64_t d = rsk_splitmix_next(state), where = rsk_splitmix_next(state);
	const struct rsk_seg_geometry g = { .streams = RSK_SEG_STREAMS };
	size_t n = d % 64 + 1, off;

	switch ((d >> 8) % 4) {
	case 0: /* the head, with its counters and the ready map */
		off = where % 512;
		break;
	case 1: /* control words and wake words of the first streams */
		off = rsk_seg_ctl_off(0) + where % (16 * sizeof(struct rsk_seg_ctl));
		break;
	case 2: /* rings of the first streams */
		off = rsk_seg_ring_off(&g, 0) + where % (4u << 20);
		break;
	default: /* the headers of slots, which a reader checks first */
		off = rsk_seg_ring_off(&g, 0) + where % (1u << 16) * 64;
		n = 16;
		break;
	}
	if (off + n > len)
		return;
	for (size_t i = 0; i < n; i++)
		switch ((d >> 12) % 4) {
		case 0:
			at[off + i] = (uint8_t)rsk_splitmix_next(state);
			break;
		case 1:
			at[off + i] ^= (uint8_t)(1u << (where >> 32) % 8);
			break;
		case 2:
			at[off + i] = 0xff;
			break;
		default:
			at[off + i] = 0;
			break;
		}
}

/* Finds the abstract name at which process pid listens: its socket's inode in the kernel's list. */
static bool endpoint_of(int pid, struct sockaddr_un *sa, socklen_t *len)
{
	char line[512], path[64], is[64], want[64], name[128];
	unsigned long inode, flags;
	bool found = false;
	FILE *file = fopen("/proc/net/unix", "r");

	if (!file)
		die("/proc/net/unix");
	while (!found && fgets(line, sizeof(line), file)) {
		struct dirent *entry;
		DIR *dir;

		if (sscanf(line, "%*s %*s %*s %lx %*s %*s %lu @%127s", &flags, &inode, name) != 3 ||
		    strncmp(name, "rsock-", 6) || !(flags & 0x10000))
			continue;
		snprintf(want, sizeof(want), "socket:[%lu]", inode);
		snprintf(path, sizeof(path), "/proc/%d/fd", pid);
		dir = opendir(path);
		while (dir && !found && (entry = readdir(dir))) {
			ssize_t n = readlinkat(dirfd(dir), entry->d_name, is, sizeof(is) - 1);

			is[n > 0 ? n : 0] = 0;
			found = !strcmp(is, want);
		}
		if (dir)
			closedir(dir);
	}
	fclose(file);
	if (!found)
		return false;
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path + 1, name, strlen(name));
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	return true;
}

static int make_memfd(uint64_t bytes, unsigned int seals, bool short_one)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)(short_one ? bytes / 2 : bytes)) ||
	    fcntl(fd, F_ADD_SEALS, seals))
		die("memfd");
	return fd;
}

static int any_fd(uint64_t *state, uint64_t bytes)
{
	int pair[2];

	switch (rsk_splitmix_next(state) % 8) {
	case 0:
		return make_memfd(bytes, 0, false);
	case 1:
		return make_memfd(bytes, SEALS, true);
	case 2:
		return make_memfd(bytes, SEALS | F_SEAL_WRITE, false);
	case 3:
		return open("/dev/zero", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	case 4:
		return open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 5:
		return eventfd(UINT32_MAX, EFD_CLOEXEC);
	case 6:
		return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	default:
		if (pipe2(pair, O_CLOEXEC | O_NONBLOCK))
			die("pipe2");
		close(pair[0]);
		return pair[1];
	}
}

static void say(int fd, const void *data, size_t len, const int *fds, size_t nfds)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * MAX_FDS)];
	} c = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(&c.head), fds, sizeof(int) * nfds);
	}
	/* a full queue, or a peer that hung up, does not matter */
	(void)sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static struct rsk_link_msg hello(uint64_t *state, bool honest)
{
	struct rsk_link_msg m = { .magic = RSK_LINK_MAGIC, .type = RSK_LINK_HELLO };

	m.geometry = (struct rsk_seg_geometry){ .ring_bytes = RING_KB << 10,
						.streams = RSK_SEG_STREAMS };
	m.geometry.bytes = rsk_seg_ring_off(&m.geometry, RSK_SEG_STREAMS);
	if (honest)
		return m;
	switch (rsk_splitmix_next(state) % 6) {
	case 0:
		m.geometry.ring_bytes = (uint32_t)rsk_splitmix_next(state);
		break;
	case 1:
		m.geometry.bytes = rsk_splitmix_next(state);
		break;
	case 2:
		m.geometry.streams = (uint32_t)rsk_splitmix_next(state);
		break;
	case 3:
		m.magic = rsk_splitmix_next(state);
		break;
	case 4:
		m.type = (uint32_t)rsk_splitmix_next(state);
		break;
	default:
		break; /* the descriptors are wrong */
	}
	return m;
}

static void say_anything(int fd, uint64_t *state)
{
	uint8_t junk[400];
	int fds[MAX_FDS];
	size_t nfds = rsk_splitmix_next(state) % (MAX_FDS + 1);
	struct rsk_link_msg m = hello(state, false);

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)rsk_splitmix_next(state);
	for (size_t i = 0; i < nfds; i++) {
		fds[i] = any_fd(state, m.geometry.bytes < 1u << 30 ? m.geometry.bytes : 4096);
		if (fds[i] < 0)
			die("fd");
	}
	if (rsk_splitmix_next(state) & 1)
		say(fd, junk, rsk_splitmix_next(state) % sizeof(junk), fds, nfds);
	else
		say(fd, &m,
		    rsk_splitmix_next(state) % 4 ? sizeof(m) :
						   sizeof(m) - rsk_splitmix_next(state) % 100,
		    fds, nfds);
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
}

/*
 * A correct link handshake. Maps the segment of the answer and returns it; NULL if there was none.
 */
static uint8_t *handshake_well(int fd, uint64_t *state, size_t *len)
{
	struct rsk_link_msg m = hello(state, true), answer;
	const struct timeval patience = { .tv_usec = 200000 };
	int fds[RSK_LINK_MSG_FDS], got[RSK_LINK_MSG_FDS];
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(got))];
	} c;
	struct iovec iov = { &answer, sizeof(answer) };
	struct msghdr r = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	uint8_t *map = MAP_FAILED;

	fds[0] = make_memfd(m.geometry.bytes, SEALS, false);
	for (size_t i = 1; i < RSK_LINK_MSG_FDS; i++)
		fds[i] = rsk_doorbell_new();
	/*
	 * Correct except for one descriptor: of another kind, or an eventfd whose read would block.
	 */
	if (rsk_splitmix_next(state) % 4 == 0) {
		size_t k = 1 + rsk_splitmix_next(state) % (RSK_LINK_MSG_FDS - 1);

		close(fds[k]);
		fds[k] = rsk_splitmix_next(state) & 1 ? any_fd(state, m.geometry.bytes) :
							eventfd(0, EFD_CLOEXEC);
	}
	say(fd, &m, sizeof(m), fds, RSK_LINK_MSG_FDS);
	for (size_t i = 0; i < RSK_LINK_MSG_FDS; i++)
		close(fds[i]);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("SO_RCVTIMEO");
	if (recvmsg(fd, &r, MSG_CMSG_CLOEXEC) != sizeof(answer) ||
	    c.head.cmsg_len != CMSG_LEN(sizeof(got)))
		return NULL;
	memcpy(got, CMSG_DATA(&c.head), sizeof(got));
	*len = answer.geometry.bytes;
	map = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, got[0], 0);
	for (size_t i = 0; i < RSK_LINK_MSG_FDS; i++)
		close(got[i]);
	return map == MAP_FAILED ? NULL : map;
}

static void talk_nonsense(int fd, uint64_t *state, uint8_t *map, size_t len)
{
	struct rsk_seg_head *head = (struct rsk_seg_head *)(void *)map;

	for (int i = 0; i < 200; i++) {
		struct rsk_link_msg m = { .magic = RSK_LINK_MAGIC };

		m.type = RSK_LINK_PAIR + (uint32_t)(rsk_splitmix_next(state) % 4);
		m.sid = (uint32_t)(rsk_splitmix_next(state) % RSK_SEG_STREAMS) &
			(i < 150 ? ~1u : ~0u);
		m.key_up = rsk_splitmix_next(state);
		m.netns = rsk_splitmix_next(state);
		m.fd = (int)(rsk_splitmix_next(state) % 64);
		m.peer_fd = (int)(rsk_splitmix_next(state) % 64);
		m.reason = (uint32_t)(rsk_splitmix_next(state) % RSK_REASON_COUNT);
		/* Mostly a correct port mapper message, so that more than the codec is reached. */
		m.pm_bytes = RSK_PM_WIRE_BYTES;
		m.pm[0] = (uint8_t)((m.type - RSK_LINK_PAIR) << 4 | RSK_PM_IPV4);
		for (size_t k = 4; k < RSK_PM_WIRE_BYTES; k++)
			m.pm[k] = (uint8_t)(k >= 20 && k < 32 ? 0 :
					    k >= 36	      ? 0 :
								rsk_splitmix_next(state));
		if (rsk_splitmix_next(state) % 32 == 0)
			m.pm[rsk_splitmix_next(state) % sizeof(m.pm)] ^=
				(uint8_t)rsk_splitmix_next(state);
		if (i % 50 == 49)
			say_anything(fd, state);
		else
			say(fd, &m, sizeof(m), NULL, 0);
		atomic_fetch_add(&head->messages, 1);
		for (int k = 0; k < 50; k++)
			hostile_scribble(state, map, len);
	}
}

/*
 * Connects as the process's present user. Returns the socket, or -1 if the victim's queue is full.
 */
static int dial(const struct sockaddr_un *sa, socklen_t len)
{
	const struct timeval patience = { .tv_usec = 100000 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		die("socket");
	if (connect(fd, (const struct sockaddr *)sa, len) == 0)
		return fd;
	if (errno != EAGAIN)
		die("connect"); /* the listener is closed: the victim is gone */
	close(fd);
	return -1;
}

/* A TCP socket whose last close() blocks: it has bytes that no one reads. */
static int lingerer(const struct sockaddr_in *to)
{
	const struct linger minute = { .l_onoff = 1, .l_linger = 60 };
	static char bytes[65536];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &minute, sizeof(minute)))
		die("lingerer");
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return fd;
}

static void say_slowly(int fd, uint64_t *state, const struct sockaddr_in *to)
{
	struct rsk_link_msg m = hello(state, true);
	size_t nfds = rsk_splitmix_next(state) % 3 ? RSK_LINK_MSG_FDS :
						     rsk_splitmix_next(state) % MAX_FDS + 1;
	int fds[MAX_FDS];

	for (size_t i = 0; i < nfds; i++)
		fds[i] = i ? rsk_doorbell_new() : make_memfd(m.geometry.bytes, SEALS, false);
	for (size_t i = rsk_splitmix_next(state) % nfds; i < nfds; i += 4) {
		close(fds[i]);
		fds[i] = lingerer(to);
	}
	say(fd, &m, rsk_splitmix_next(state) % 4 ? sizeof(m) : rsk_splitmix_next(state) % sizeof(m),
	    fds, nfds);
	/*
	 * From here on the victim has the last references; otherwise this process blocks itself,
	 * and is killed.
	 */
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
}

/* Runs in a process of its own. */
static void slow_child(const struct sockaddr_un *sa, socklen_t len, uint64_t state,
		       const struct sockaddr_in *to)
{
	int fd = dial(sa, len);

	if (fd < 0)
		return;
	say_slowly(fd, &state, to);
	if (rsk_splitmix_next(&state) & 1)
		say_slowly(fd, &state, to);
	/* some are gone before the victim has read their messages */
	usleep((useconds_t)(rsk_splitmix_next(&state) % 4000));
}

int hostile_slow(int pid, double until, uint64_t seed, unsigned int uid)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t state = seed;
	unsigned int dials = 0;
	struct sockaddr_un sa;
	socklen_t sa_len, len = sizeof(to);

	if (listener < 0 || bind(listener, (struct sockaddr *)&to, len) || listen(listener, 4096) ||
	    getsockname(listener, (struct sockaddr *)&to, &len))
		die("listener");
	while (!endpoint_of(pid, &sa, &sa_len)) {
		if (now_s() > until) {
			fprintf(stderr, "slow: process %d never opened its door\n", pid);
			return 1;
		}
		usleep(10000); /* between looks at a list */
	}
	if (uid && setresuid(uid, uid, uid))
		die("setresuid");
	while (now_s() < until) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			slow_child(&sa, sa_len, rsk_splitmix_next(&state), &to);
			_exit(0);
		}
		for (int i = 0; i < 10 && waitpid(child, NULL, WNOHANG) == 0; i++)
			poll(NULL, 0, 5);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		dials++;
		rsk_splitmix_next(&state);
	}
	printf("%u\n", dials);
	return 0;
}

int hostile_control(int pid, double until, uint64_t seed)
{
	uint64_t state = seed;
	unsigned int dials = 0, accepted = 0;
	struct sockaddr_un sa;
	socklen_t sa_len;

	while (!endpoint_of(pid, &sa, &sa_len)) {
		if (now_s() > until) {
			fprintf(stderr, "control: process %d never opened its door\n", pid);
			return 1;
		}
		usleep(10000); /* between looks at a list */
	}
	while (now_s() < until) {
		int fd = dial(&sa, sa_len);
		size_t len = 0;
		uint8_t *map;

		if (fd < 0)
			continue;
		dials++;
		if (rsk_splitmix_next(&state) % 3) {
			say_anything(fd, &state);
			/* some disconnect before the victim has read their messages */
			usleep((useconds_t)(rsk_splitmix_next(&state) % 4000));
		} else {
			map = handshake_well(fd, &state, &len);
			accepted += !!map;
			if (map) {
				talk_nonsense(fd, &state, map, len);
				munmap(map, len);
			}
		}
		close(fd);
	}
	printf("%u %u\n", dials, accepted);
	return 0;
}
