/*
 * crowd.c - many connections of one process (the order "crowd" of peer.c): pattern bytes on each of
 * them, all under way at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl.h"

/* the most that a connection sends in a round: kernel buffers must hold it */
#define CROWD_BYTES 65536u

static struct conn *crowd;
static uint32_t crowd_n;

/* Moves all of buf; on an error the process prints it and ends. */
static void move_all(int fd, uint8_t *buf, size_t bytes, bool send_it)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send_it ? send(fd, buf + done, bytes - done, MSG_NOSIGNAL) :
				      recv(fd, buf + done, bytes - done, 0);

		if (n > 0) {
			done += (size_t)n;
		} else if (!n || errno != EINTR) {
			printf("error crowd %s: %s\n", send_it ? "send" : "recv",
			       n ? errno_name(errno) : "eof");
			fflush(stdout);
			exit(1);
		}
	}
}

void crowd_open(uint32_t count, int (*next)(void *arg), void *arg, bool server)
{
	crowd = calloc(count, sizeof(*crowd));
	if (!crowd)
		abort();
	crowd_n = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t index = i;
		int fd = next(arg);

		/*
		 * The accept order may differ from the connect order: the client sends the index.
		 */
		move_all(fd, (uint8_t *)&index, sizeof(index), !server);
		if (index >= count || crowd[index].fd)
			abort();
		crowd[index] = (struct conn){ .fd = fd,
					      .tx_seed = 2 * (uint64_t)index + server,
					      .rx_seed = 2 * (uint64_t)index + !server };
	}
}

uint64_t crowd_talk(uint32_t rounds, size_t bytes)
{
	static uint8_t buf[CROWD_BYTES];
	uint64_t wrong = 0;

	if (bytes > sizeof(buf))
		abort();
	for (uint32_t round = 0; round < rounds; round++) {
		for (uint32_t i = 0; i < crowd_n; i++) {
			pattern_fill(crowd[i].tx_seed, crowd[i].tx_pos_bytes, buf, bytes);
			move_all(crowd[i].fd, buf, bytes, true);
			crowd[i].tx_pos_bytes += bytes;
		}
		for (uint32_t i = 0; i < crowd_n; i++) {
			move_all(crowd[i].fd, buf, bytes, false);
			wrong += pattern_check(crowd[i].rx_seed, crowd[i].rx_pos_bytes, buf,
					       bytes) != UINT64_MAX;
			crowd[i].rx_pos_bytes += bytes;
		}
	}
	return wrong;
}

void crowd_close(void)
{
	for (uint32_t i = 0; i < crowd_n; i++)
		close(crowd[i].fd);
	free(crowd);
	crowd = NULL;
	crowd_n = 0;
}
