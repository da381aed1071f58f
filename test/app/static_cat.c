/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * static_cat.c - a statically linked program that no preloaded library can see: copies fd 0 to fd 1
 * until EOF. Cases start it.
 */
#include <errno.h>
#include <unistd.h>

int main(void)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(0, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 1;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = write(1, buf + done, (size_t)(n - done));

			if (w < 0)
				return 1;
			done += w;
		}
	}
	return 0;
}
