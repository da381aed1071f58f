// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_ifaces.c - fuzzes the reader of netlink messages with any bytes, and then with a dump that
 * contains nothing. Each datagram: its length as two bytes, then that many bytes of the input.
 */
#include "ifaces.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rsk_pm_addr ip = { .ip = { 10, 1, 0, 1 }, .ipv = 4 };
	struct rsk_ifaces l = { 0 };

	rsk_ifaces_begin(&l);
	while (size >= 2) {
		size_t n = (size_t)data[0] << 8 | data[1];
		void *copy;
		int rc;

		data += 2;
		size -= 2;
		n = n < size ? n : size;
		copy = malloc(n ? n : 1); /* aligned, and not one byte longer */
		require(copy != NULL);
		memcpy(copy, data, n);
		rc = rsk_ifaces_take(&l, copy, n, 1);
		free(copy);
		require(rc >= -200 && rc <= 7);
		require(rsk_ifaces_validate(&l));
		rsk_ifaces_carry(&l, &ip);
		data += n;
		size -= n;
	}
	rsk_ifaces_begin(&l);
	rsk_ifaces_end(&l);
	require(!l.links && !l.addresses && !rsk_ifaces_carry(&l, &ip));
	rsk_ifaces_fini(&l);
	return 0;
}
