// SPDX-License-Identifier: BSD-2-Clause
/* user.c - see user.h. */
#include "user.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>

#include <rsock/sys.h>

#define OVERFLOW_UID "/proc/sys/kernel/overflowuid"
#define OVERFLOW_UID_DEFAULT 65534u
#define UID_MAP "/proc/self/uid_map"
#define ALL_UIDS UINT32_MAX

/*
 * The overflow uid plus 1; 0: not read yet. Every thread writes the same value; relaxed, because no
 * other data depends on it. Only the administrator of the host changes the number, and not while
 * programs run that compare users.
 */
static _Atomic(uint64_t) overflow_plus_1;

/* Reads the numbers in the file, at most @most. Returns how many, or -errno. */
static int read_numbers(const char *path, uint64_t *out, int most)
{
	int fd = rsk_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), n = 0;
	char text[128];
	bool inside = false;
	ssize_t bytes;

	if (fd < 0)
		return fd;
	bytes = rsk_sys_read(fd, text, sizeof(text));
	rsk_sys_close(fd);
	for (ssize_t i = 0; i < bytes; i++) {
		bool digit = text[i] >= '0' && text[i] <= '9';

		if (digit && !inside && n++ == most)
			return most;
		if (digit)
			out[n - 1] = (inside ? out[n - 1] * 10 : 0) + (uint64_t)(text[i] - '0');
		inside = digit;
	}
	return bytes < 0 ? (int)bytes : n;
}

static uid_t overflow_uid(void)
{
	uint64_t known = atomic_load_explicit(&overflow_plus_1, memory_order_relaxed);
	uint64_t number;

	if (known)
		return (uid_t)(known - 1);
	if (read_numbers(OVERFLOW_UID, &number, 1) != 1)
		return OVERFLOW_UID_DEFAULT;
	atomic_store_explicit(&overflow_plus_1, number + 1, memory_order_relaxed);
	return (uid_t)number;
}

/*
 * True if there is one range from 0 on with all ids: a namespace can only be given ids that its
 * parent has, so no user lacks one. It is read each time: the process may have moved to another
 * namespace.
 */
static bool all_users_have_numbers(void)
{
	uint64_t map[4];

	return read_numbers(UID_MAP, map, 4) == 3 && map[0] == 0 && map[2] == ALL_UIDS;
}

bool rsk_user_root_is_one(void)
{
	uint64_t map[3];

	return read_numbers(UID_MAP, map, 3) == 3 && map[0] == 0 && map[2] == 1;
}

bool rsk_user_is_one(uid_t uid)
{
	return uid != (uid_t)-1 && (uid != overflow_uid() || all_users_have_numbers());
}

bool rsk_user_same(uid_t a, uid_t b)
{
	return a == b && rsk_user_is_one(a);
}
