/* SPDX-License-Identifier: BSD-2-Clause */
/* rounds.h - words of 8 bytes there and back, for families whose streams another program has. */
#ifndef APP_ROUNDS_H
#define APP_ROUNDS_H

#include "app.h"

/* Of an echo: by then a stream is on the ring; between hosts that takes longer. */
#ifndef ROUNDS
#define ROUNDS (getenv("APP_WARM_S") ? 4000 : 300)
#endif

/* Logs how many words it has sent back: @rounds, or fewer at the end of the stream. */
static inline void echo(int in, int out, int rounds)
{
	int good = 0;

	for (int i = 0; i < rounds; i++) {
		char word[8];

		if (app_read_full(in, word, sizeof(word)) != sizeof(word))
			break;
		app_write_all(out, word, sizeof(word));
		good++;
	}
	LOG("echoed %d", good);
}

/* Logs, and returns, how many words have come back. */
static inline int ask(int fd, int rounds)
{
	int good = 0;

	for (int i = 0; i < rounds; i++) {
		char word[9], got[8];

		snprintf(word, sizeof(word), "%08d", i);
		app_write_all(fd, word, 8);
		good += app_read_full(fd, got, 8) == 8 && !memcmp(got, word, 8);
	}
	LOG("good %d", good);
	return good;
}

#endif
