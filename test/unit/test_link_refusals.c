// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_link_refusals.c - tests what rsockd remembers of refused links: for its time, of exactly
 * that service, and no more than there is room for.
 */
#include "link_refusals.h"

#include <criterion/criterion.h>

#include "pm_msg.h"

static struct rsk_pm_addr service(uint8_t last, uint16_t port)
{
	return (struct rsk_pm_addr){ .ip = { 10, 0, 0, last }, .port = port, .ipv = RSK_PM_IPV4 };
}

Test(link_refusals, of_that_service_and_for_its_time)
{
	struct rsk_link_refusals r = { 0 };
	struct rsk_pm_addr one = service(2, 80), other = service(3, 80), port = service(2, 81),
			   six = one;

	six.ipv = RSK_PM_IPV6;
	cr_assert_not(rsk_link_refusals_any(&r, 0));
	rsk_link_refusals_add(&r, &one, 100);
	cr_assert(rsk_link_refusals_has(&r, &one, 99));
	cr_assert_not(rsk_link_refusals_has(&r, &one, 100));
	cr_assert_not(rsk_link_refusals_has(&r, &other, 50));
	cr_assert_not(rsk_link_refusals_has(&r, &port, 50));
	cr_assert_not(rsk_link_refusals_has(&r, &six, 50));
	cr_assert(rsk_link_refusals_any(&r, 99));
	cr_assert_not(rsk_link_refusals_any(&r, 100));
	rsk_link_refusals_add(&r, &one, 200);
	cr_assert(rsk_link_refusals_has(&r, &one, 199), "refused again");
}

Test(link_refusals, the_oldest_makes_room)
{
	struct rsk_link_refusals r = { 0 };
	struct rsk_pm_addr at = service(2, 0);
	uint32_t n = 0;

	for (uint16_t i = 1; i <= RSK_LINK_REFUSALS_MOST; i++) {
		at.port = i;
		rsk_link_refusals_add(&r, &at, 1000u + i);
		rsk_link_refusals_add(&r, &at, 1000u + i); /* the same takes no second place */
	}
	at.port = RSK_LINK_REFUSALS_MOST + 1;
	rsk_link_refusals_add(&r, &at, 2000);
	cr_assert(rsk_link_refusals_has(&r, &at, 10));
	for (uint16_t i = 1; i <= RSK_LINK_REFUSALS_MOST; i++) {
		at.port = i;
		n += rsk_link_refusals_has(&r, &at, 10);
		cr_assert_eq(rsk_link_refusals_has(&r, &at, 10), i != 1, "port %u", i);
	}
	cr_assert_eq(n, RSK_LINK_REFUSALS_MOST - 1);
}
