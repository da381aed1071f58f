/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_value.h - parses the configuration's values with units. Called by conf*.c and api.c. All
 * functions return 0, or -EINVAL with *out unchanged. Pure.
 */
#ifndef RSK_CONF_VALUE_H
#define RSK_CONF_VALUE_H

#include "conf.h"

int rsk_conf_number(const char *text, uint64_t *out);
/* "500ms", "1.5s", "2min", "1h"; ns, us; 0 needs no unit. */
int rsk_conf_time(const char *text, uint64_t *ns);
/* "25Gbit", "1.5Mbit": decimal multiples, per second. */
int rsk_conf_rate(const char *text, uint64_t *bps);
/* "0.8" or "80%"; not negative. */
int rsk_conf_part(const char *text, double *out);
/* "80" or "8000-8099". */
int rsk_conf_range(const char *text, struct rsk_conf_range *out);
/* An address without a port. */
int rsk_conf_ip(const char *text, struct rsk_pm_addr *out);
/* "10.0.0.1:3935", "[fe80::1]:3935". */
int rsk_conf_addr(const char *text, struct rsk_pm_addr *out);
/* "10.0.0.0/8"; an address without a length means all of its bits. */
int rsk_conf_prefix(const char *text, struct rsk_conf_prefix *out);
/*
 * "mon-fri 08:00-18:00", "sat", "22:00-06:00" (into the next day): sets the bits of its minutes,
 * counted from Monday 0:00.
 */
int rsk_conf_week(const char *text, uint8_t week[static RSK_CONF_WEEK_BYTES]);
/* Seconds, up to 254s, or "lasting". */
int rsk_conf_pm_time(const char *text, uint8_t *out);

#endif
