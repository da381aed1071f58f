/*
 * hostile_doorbells.c - the mode doorbells of bin/fault_hostile (hostile.c): a paired peer that
 * spoils the doorbells that it can reach.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rsock/splitmix.h>

#include "doorbell.h"
#include "hostile.h"

#define MOST_DOORBELLS 256
/* for the thread to announce its sleep; if it is late, only one attack of many is lost */
#define ASLEEP_US 30000

static int doorbells[MOST_DOORBELLS], ndoorbells;

static void find_doorbells(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!dir)
		die("/proc/self/fd");
	ndoorbells = 0;
	while ((entry = readdir(dir)) && ndoorbells < MOST_DOORBELLS)
		if (rsk_doorbell_check(atoi(entry->d_name)))
			doorbells[ndoorbells++] = atoi(entry->d_name);
	closedir(dir);
}

/*
 * Uses raw system calls: the library hides its descriptors from this program, but a hostile program
 * would not stop at that.
 */
static void set_blocking(int fd, bool on)
{
	long flags = syscall(SYS_fcntl, fd, F_GETFL, 0);

	syscall(SYS_fcntl, fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static void fill(int fd)
{
	uint64_t n = UINT64_MAX - 1;

	set_blocking(fd, false);
	for (; n; n /= 2)
		while (syscall(SYS_write, fd, &n, sizeof(n)) > 0)
			;
	set_blocking(fd, true);
}

static void stop_here(int signo)
{
	for (;;)
		pause();
}

static void *sleeper(void *arg)
{
	uint8_t buf[64];

	recv(*(int *)arg, buf, sizeof(buf), 0);
	return NULL;
}

void hostile_doorbells(uint64_t *state, int asleep)
{
	struct sigaction stop = { .sa_handler = stop_here };
	bool filled = rsk_splitmix_next(state) & 1;
	pthread_t thread;

	find_doorbells();
	if (sigaction(SIGUSR1, &stop, NULL) || pthread_create(&thread, NULL, sleeper, &asleep))
		die("sleeper");
	usleep(ASLEEP_US);
	/* the thread stays in the handler: its announcement of sleep is never retracted */
	pthread_kill(thread, SIGUSR1);
	for (int i = 0; i < ndoorbells; i++)
		if (filled)
			fill(doorbells[i]);
		else
			set_blocking(doorbells[i], true);
	/* The victim answers each byte, and so rings the doorbell. */
	for (uint64_t round = 0;; round++) {
		if (round < 200)
			send(asleep, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		for (int i = 0; i < ndoorbells; i++) {
			uint64_t n = 1;

			rsk_doorbell_ring(doorbells[i]);
			if (!filled && rsk_splitmix_next(state) % 4 == 0) {
				set_blocking(doorbells[i], false);
				syscall(SYS_write, doorbells[i], &n, sizeof(n));
				set_blocking(doorbells[i], true);
			}
		}
		if (rsk_splitmix_next(state) % 16 == 0)
			usleep((useconds_t)(rsk_splitmix_next(state) % 500));
	}
}
