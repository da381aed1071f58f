/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h - RSOCK_LOG: one raw write per line, to stderr or RSOCK_LOG_FILE; called from everywhere in
 * the library. No heap, no stdio lock.
 */
#ifndef RSK_LOG_H
#define RSK_LOG_H

enum rsk_log_level {
	RSK_LOG_OFF,
	RSK_LOG_ERROR,
	RSK_LOG_INFO,
	RSK_LOG_DEBUG
};

extern int rsk_log_level;

/* Reads the level from RSOCK_LOG, and RSOCK_LOG_FILE. */
void rsk_log_init(void);
/* Writes one line, truncated to 511 bytes; called by rsk_log(). */
void rsk_log_write(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define rsk_log(level, ...)                                                                        \
	do {                                                                                       \
		if (__builtin_expect(rsk_log_level >= (level), 0))                                 \
			rsk_log_write(__VA_ARGS__);                                                \
	} while (0)

#endif
