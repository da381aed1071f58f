// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_over.c - tests the position of the overread file, which all processes that have the file
 * share.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rsock/sys.h>

#include "over.h"
#include "remote_kit.h"

#define TEXT "0123456789"
#define BYTES (sizeof(TEXT) - 1)

/*
 * Any thread may ask without the lock: the position that it knows may be old, and another process
 * may read meanwhile.
 */
Test(over, who_only_asks_does_not_move_it)
{
	char text[BYTES];
	struct iovec iov = { text, sizeof(text) };
	struct kit_stream ks;
	struct kit k;
	int file;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	cr_assert_eq(rsk_over_open(ks.s), 0);
	cr_assert_eq(rsk_over_add(ks.s, TEXT, BYTES), 0);
	rsk_over_seal(ks.s, ks.fd);
	file = atomic_load(&ks.s->over.fd);
	cr_assert_eq(rsk_over_recv(ks.s, ks.fd, &iov, 1, 6, false), 6);
	cr_assert_eq(lseek(file, 2, SEEK_SET), 2);
	cr_assert_eq(rsk_over_unread(ks.s), 4, "what was read here is not unread");
	cr_assert_eq(lseek(file, 0, SEEK_CUR), 2, "the position was moved");
	/* A later read does not return the same bytes twice. */
	cr_assert_eq(rsk_over_recv(ks.s, ks.fd, &iov, 1, BYTES, false), 4);
	cr_assert_arr_eq(text, "6789", 4);
	cr_assert_eq(lseek(file, 0, SEEK_CUR), (off_t)BYTES);
}

/* What cannot be read now is no end of the stream, nor do the TCP socket's bytes come before it. */
Test(over, a_failed_read_is_an_error)
{
	char text[BYTES], path[32];
	struct iovec iov[2] = { { text, 0 }, { text, sizeof(text) } };
	struct kit_stream ks;
	struct kit k;
	int file, other;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	cr_assert_eq(rsk_over_open(ks.s), 0);
	cr_assert_eq(rsk_over_add(ks.s, TEXT, BYTES), 0);
	file = atomic_load(&ks.s->over.fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	other = open(path, O_WRONLY);
	cr_assert_geq(other, 0);
	cr_assert_eq(rsk_sys_dup3(other, file, 0), file);
	cr_assert_eq(rsk_over_recv(ks.s, ks.fd, iov, 2, BYTES, false), -EBADF);
	cr_assert_eq(rsk_over_recv(ks.s, ks.fd, iov, 2, BYTES, true), -EBADF);
	cr_assert(rsk_over_is(ks.s));
}
