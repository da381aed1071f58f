// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_sessions.c - tests that what is held for a stream is given back once: on request, with its
 * process, or when it was never used.
 */
#include "sessions.h"

#include <errno.h>

#include "dice.h"

#define NOW 1000u
#define LATE (NOW + RSK_SESSIONS_PROMISED_NS)

static uint64_t released, last;

static void release(void *ctx, uint64_t reservation)
{
	++*(uint64_t *)ctx;
	last = reservation;
}

static struct rsk_sessions empty(void)
{
	released = last = 0;
	return (struct rsk_sessions){ .release = release, .ctx = &released };
}

static int add(struct rsk_sessions *s, uint32_t process, uint64_t link, bool used, uint64_t now)
{
	const struct rsk_session new = { .handle = link,
					 .process = process,
					 .used = used,
					 .cookie = link + 1,
					 .reservation = process * 1000 + link };
	int rc = rsk_sessions_add(s, &new, now);

	cr_assert(rsk_sessions_validate(s));
	return rc;
}

Test(sessions, by_process_and_link)
{
	struct rsk_sessions s = empty();
	const struct rsk_session *one;

	cr_assert_eq(add(&s, 1, 5, true, NOW), 0);
	cr_assert_eq(add(&s, 1, 5, false, NOW), -EEXIST);
	cr_assert_eq(add(&s, 2, 5, false, NOW), 0, "another process's is another one");
	one = rsk_sessions_find(&s, 1, 5);
	cr_assert(one && one->used && one->reservation == 1005 && one->cookie == 6);
	cr_assert_null(rsk_sessions_find(&s, 1, 6));
	cr_assert_not(rsk_sessions_drop(&s, 3, 5));
	cr_assert_not(rsk_sessions_use(&s, 3, 5));
	cr_assert(rsk_sessions_drop(&s, 1, 5));
	cr_assert(released == 1 && last == 1005);
	cr_assert_not(rsk_sessions_drop(&s, 1, 5));
	rsk_sessions_fini(&s);
	cr_assert(released == 2 && !s.entries && !s.owners && !s.promised && !s.n);
}

Test(sessions, no_handle_or_no_process)
{
	struct rsk_sessions s = empty();

	cr_assert_eq(add(&s, 1, 0, true, NOW), -EINVAL);
	cr_assert_eq(add(&s, 0, 5, true, NOW), -EINVAL);
	cr_assert(!s.n && !released);
}

Test(sessions, validate_sees_a_promise_that_would_not_expire)
{
	struct rsk_sessions s = empty(), wrong;

	add(&s, 1, 5, false, NOW);
	wrong = s;
	wrong.promised = NULL;
	wrong.n_promised = 0;
	cr_assert_not(rsk_sessions_validate(&wrong));
	rsk_sessions_fini(&s);
}

Test(sessions, a_promise_that_nobody_uses)
{
	struct rsk_sessions s = empty();

	add(&s, 1, 5, false, NOW);
	add(&s, 1, 6, false, NOW);
	add(&s, 2, 7, false, NOW + 1);
	add(&s, 2, 8, true, NOW);
	cr_assert_eq(s.n_promised, 3);
	cr_assert(rsk_sessions_promised(&s, 1) == 2 && rsk_sessions_promised(&s, 2) == 1);
	cr_assert_eq(rsk_sessions_promised(&s, 3), 0);
	cr_assert(rsk_sessions_use(&s, 1, 5) && rsk_sessions_use(&s, 1, 5));
	cr_assert_eq(rsk_sessions_expire(&s, LATE - 1), 0);
	cr_assert_eq(rsk_sessions_expire(&s, LATE), 1);
	cr_assert_eq(last, 1006);
	cr_assert(rsk_sessions_promised(&s, 1) == 0 && rsk_sessions_promised(&s, 2) == 1);
	cr_assert_eq(rsk_sessions_expire(&s, UINT64_MAX), 1);
	cr_assert(s.n == 2 && s.n_promised == 0, "what is used stays");
	cr_assert(rsk_sessions_validate(&s));
	rsk_sessions_fini(&s);
}

Test(sessions, nothing_of_a_process_outlives_it)
{
	struct rsk_sessions s = empty();

	for (uint64_t link = 1; link <= 10; link++) {
		add(&s, 1, link, link % 2, NOW);
		add(&s, 2, link, link % 2, NOW);
	}
	rsk_sessions_gone(&s, 3);
	rsk_sessions_gone(&s, 1);
	cr_assert(released == 10 && s.n == 10 && s.n_promised == 5);
	cr_assert(rsk_sessions_validate(&s));
	rsk_sessions_gone(&s, 1);
	rsk_sessions_gone(&s, 2);
	cr_assert(released == 20 && !s.n && !s.owners);
	rsk_sessions_fini(&s);
}

Test(sessions, a_process_has_so_many)
{
	struct rsk_sessions s = empty();
	struct rsk_session new = { .process = 1, .used = true, .reservation = 1 };

	for (new.handle = 1; new.handle <= RSK_SESSIONS_MOST_OF_ONE; new.handle++)
		cr_assert_eq(rsk_sessions_add(&s, &new, NOW), 0);
	cr_assert_eq(rsk_sessions_add(&s, &new, NOW), -ENOSPC);
	cr_assert_eq(released, 0, "it is the caller's still");
	new.process = 2;
	cr_assert_eq(rsk_sessions_add(&s, &new, NOW), 0);
	cr_assert(rsk_sessions_validate(&s));
	rsk_sessions_fini(&s);
	cr_assert_eq(released, RSK_SESSIONS_MOST_OF_ONE + 1);
}

/* Compares with a plain table. */
Test(sessions, random_walk)
{
	enum {
		PROCESSES = 5,
		LINKS = 9
	};
	struct rsk_sessions s = empty();
	uint64_t seed = dice_seed("sessions"), added = 0, now = NOW;
	bool has[PROCESSES + 1][LINKS + 1] = { 0 };
	size_t n = 0;

	for (int step = 0; step < 20000; step++) {
		uint32_t process = 1 + (uint32_t)(dice_roll(&seed) % PROCESSES);
		uint64_t link = 1 + dice_roll(&seed) % LINKS;
		bool *is = &has[process][link];

		switch (dice_roll(&seed) % 16) {
		case 0:
			rsk_sessions_gone(&s, process);
			for (int i = 1; i <= LINKS; i++)
				has[process][i] = false;
			break;
		case 1:
			now += dice_roll(&seed) % RSK_SESSIONS_PROMISED_NS;
			rsk_sessions_expire(&s, now);
			for (uint32_t p = 1; p <= PROCESSES; p++)
				for (uint64_t i = 1; i <= LINKS; i++)
					has[p][i] = rsk_sessions_find(&s, p, i);
			break;
		case 2:
		case 3:
		case 4:
			cr_assert_eq(rsk_sessions_use(&s, process, link), *is);
			break;
		case 5:
		case 6:
		case 7:
			cr_assert_eq(rsk_sessions_drop(&s, process, link), *is);
			*is = false;
			break;
		default:
			cr_assert_eq(add(&s, process, link, dice_roll(&seed) % 2, now),
				     *is ? -EEXIST : 0);
			added += !*is;
			*is = true;
		}
		n = 0;
		for (uint32_t p = 1; p <= PROCESSES; p++)
			for (uint64_t i = 1; i <= LINKS; i++)
				n += has[p][i];
		cr_assert(s.n == n && added - released == n);
		cr_assert(rsk_sessions_validate(&s));
	}
	rsk_sessions_fini(&s);
	cr_assert_eq(released, added);
}
