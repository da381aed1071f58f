/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - RSOCK_LOG: lines by one raw write each, to stderr or RSOCK_LOG_FILE. No heap, no stdio lock. */
#ifndef RSK_LOG_H
#define RSK_LOG_H

enum rsk_log_level {
	RSK_LOG_OFF,
	RSK_LOG_ERROR,
	RSK_LOG_INFO,
	RSK_LOG_DEBUG
};

extern int rsk_log_level;

void rsk_log_init(void);
void rsk_log_write(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define rsk_log(level, ...)                                                                        \
	do {                                                                                       \
		if (__builtin_expect(rsk_log_level >= (level), 0))                                 \
			rsk_log_write(__VA_ARGS__);                                                \
	} while (0)

#endif
