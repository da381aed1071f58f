// SPDX-License-Identifier: BSD-2-Clause
/* clock.c - see clock.h. */
#include "clock.h"

#include <fcntl.h>
#include <rsock/clock.h>
#include <string.h>
#include <unistd.h>

uint64_t rsk_clock_ns(void)
{
	return rsk_monotonic_ns();
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rsk_clock_boot_id(uint8_t out[static 16])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	size_t digits = 0;

	memset(out, 0, 16);
	for (ssize_t i = 0; i < n && digits < 32; i++) {
		int v = hex(text[i]);

		if (v >= 0) {
			out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | v);
			digits++;
		}
	}
	if (fd >= 0)
		close(fd);
}
