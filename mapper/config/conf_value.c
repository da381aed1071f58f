// SPDX-License-Identifier: BSD-2-Clause
/* conf_value.c - see conf_value.h. */
#include "conf_value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double factor;
};

static const struct unit times[] = { { "ns", 1 },     { "us", 1e3 },   { "ms", 1e6 }, { "s", 1e9 },
				     { "min", 60e9 }, { "h", 3600e9 }, { NULL, 0 } };
static const struct unit rates[] = { { "bit", 1 },    { "kbit", 1e3 },	{ "Mbit", 1e6 },
				     { "Gbit", 1e9 }, { "Tbit", 1e12 }, { NULL, 0 } };

/*
 * Digits, with or without a decimal point: no sign, no exponent, no hexadecimal, no infinity,
 * whatever the locale.
 */
static int decimal(const char *text, double *value, const char **end)
{
	double v = 0, step = 1;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++)
		v = v * 10 + (*p - '0');
	if (*p == '.') {
		p++;
		if (!isdigit((unsigned char)*p))
			return -EINVAL;
		for (; isdigit((unsigned char)*p); p++) {
			step /= 10;
			v += step * (*p - '0');
		}
	}
	*value = v;
	*end = p;
	return 0;
}

static int measure(const char *text, const struct unit *units, uint64_t *out)
{
	const char *end;
	double v;

	if (decimal(text, &v, &end) < 0)
		return -EINVAL;
	if (v == 0 && !*end) {
		*out = 0;
		return 0;
	}
	while (*end == ' ')
		end++;
	for (; units->name; units++)
		if (strcmp(end, units->name) == 0)
			break;
	/* 1e18: still exact enough, and far from the 64-bit limit. */
	if (!units->name || v * units->factor > 1e18)
		return -EINVAL;
	*out = (uint64_t)(v * units->factor + 0.5);
	return 0;
}

int rsk_conf_time(const char *text, uint64_t *ns)
{
	return measure(text, times, ns);
}

int rsk_conf_rate(const char *text, uint64_t *bps)
{
	return measure(text, rates, bps);
}

int rsk_conf_number(const char *text, uint64_t *out)
{
	uint64_t v = 0;

	if (!*text || strlen(text) > 18)
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++)
		v = v * 10 + (uint64_t)(*text - '0');
	if (*text)
		return -EINVAL;
	*out = v;
	return 0;
}

int rsk_conf_part(const char *text, double *out)
{
	const char *end;
	double v;

	if (decimal(text, &v, &end) < 0)
		return -EINVAL;
	if (strcmp(end, "%") == 0)
		v /= 100;
	else if (*end)
		return -EINVAL;
	*out = v;
	return 0;
}

static int port_of(const char *text, size_t len, uint16_t *out)
{
	char digits[8];
	uint64_t v;

	if (!len || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, len);
	digits[len] = 0;
	if (rsk_conf_number(digits, &v) < 0 || v < 1 || v > UINT16_MAX)
		return -EINVAL;
	*out = (uint16_t)v;
	return 0;
}

int rsk_conf_range(const char *text, struct rsk_conf_range *out)
{
	const char *dash = strchr(text, '-');
	struct rsk_conf_range r;

	if (port_of(text, dash ? (size_t)(dash - text) : strlen(text), &r.first) < 0)
		return -EINVAL;
	r.last = r.first;
	if (dash && port_of(dash + 1, strlen(dash + 1), &r.last) < 0)
		return -EINVAL;
	if (r.first > r.last)
		return -EINVAL;
	*out = r;
	return 0;
}

int rsk_conf_ip(const char *text, struct rsk_pm_addr *out)
{
	static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct rsk_pm_addr a = { .ipv = RSK_PM_IPV4 };

	if (inet_pton(AF_INET, text, a.ip) != 1) {
		memset(a.ip, 0, sizeof(a.ip));
		a.ipv = RSK_PM_IPV6;
		/*
		 * An IPv4 address has only one notation here; otherwise one address would have two
		 * values.
		 */
		if (inet_pton(AF_INET6, text, a.ip) != 1 ||
		    memcmp(a.ip, v4_mapped, sizeof(v4_mapped)) == 0)
			return -EINVAL;
	}
	*out = a;
	return 0;
}

int rsk_conf_addr(const char *text, struct rsk_pm_addr *out)
{
	const char *colon = strrchr(text, ':');
	char ip[INET6_ADDRSTRLEN + 2];
	struct rsk_pm_addr a;
	size_t n;
	bool v6;

	if (!colon || (size_t)(colon - text) >= sizeof(ip))
		return -EINVAL;
	n = (size_t)(colon - text);
	v6 = n > 2 && text[0] == '[' && text[n - 1] == ']';
	memcpy(ip, v6 ? text + 1 : text, v6 ? n - 2 : n);
	ip[v6 ? n - 2 : n] = 0;
	if (rsk_conf_ip(ip, &a) < 0 || (a.ipv == RSK_PM_IPV6) != v6 ||
	    port_of(colon + 1, strlen(colon + 1), &a.port) < 0)
		return -EINVAL;
	*out = a;
	return 0;
}

int rsk_conf_prefix(const char *text, struct rsk_conf_prefix *out)
{
	const char *slash = strchr(text, '/');
	char ip[INET6_ADDRSTRLEN];
	struct rsk_conf_prefix p;
	struct rsk_pm_addr a;
	uint64_t bits;
	size_t n = slash ? (size_t)(slash - text) : strlen(text);

	if (n >= sizeof(ip))
		return -EINVAL;
	memcpy(ip, text, n);
	ip[n] = 0;
	if (rsk_conf_ip(ip, &a) < 0)
		return -EINVAL;
	bits = a.ipv == RSK_PM_IPV4 ? 32 : 128;
	p = (struct rsk_conf_prefix){ .ipv = a.ipv, .bits = (uint8_t)bits };
	if (slash && (rsk_conf_number(slash + 1, &bits) < 0 || bits > p.bits))
		return -EINVAL;
	p.bits = (uint8_t)bits;
	memcpy(p.ip, a.ip, 16);
	for (size_t i = bits; i < 128; i++)
		if (p.ip[i / 8] & 0x80 >> i % 8)
			return -EINVAL;
	*out = p;
	return 0;
}

int rsk_conf_pm_time(const char *text, uint8_t *out)
{
	uint64_t ns;

	if (strcmp(text, "lasting") == 0) {
		*out = RSK_PM_TIME_LASTING;
		return 0;
	}
	if (rsk_conf_time(text, &ns) < 0 || ns % 1000000000u || ns / 1000000000u > 254)
		return -EINVAL;
	*out = (uint8_t)(ns / 1000000000u);
	return 0;
}

/* ---- times of the week ---- */

static bool day_of(const char **text, unsigned int *day)
{
	static const char *const days[] = { "mon", "tue", "wed", "thu", "fri", "sat", "sun" };

	for (*day = 0; *day < 7; ++*day)
		if (strncmp(*text, days[*day], 3) == 0) {
			*text += 3;
			return true;
		}
	return false;
}

/* Parses "8:00", "08:00", "24:00" to minutes. */
static bool clock_of(const char **text, unsigned int *minutes)
{
	const char *p = *text;
	unsigned int hours = 0, digits = 0;

	for (; isdigit((unsigned char)*p) && digits < 2; p++, digits++)
		hours = hours * 10 + (unsigned int)(*p - '0');
	if (!digits || *p++ != ':' || !isdigit((unsigned char)p[0]) ||
	    !isdigit((unsigned char)p[1]))
		return false;
	*minutes = hours * 60 + (unsigned int)(p[0] - '0') * 10 + (unsigned int)(p[1] - '0');
	*text = p + 2;
	return p[0] < '6' && *minutes <= 24 * 60;
}

int rsk_conf_week(const char *text, uint8_t week[static RSK_CONF_WEEK_BYTES])
{
	unsigned int first = 0, last = 6, from = 0, to = 24 * 60, days, minutes;
	bool some_days = day_of(&text, &first);

	if (some_days) {
		last = first;
		if (*text == '-') {
			text++;
			if (!day_of(&text, &last))
				return -EINVAL;
		}
	}
	if (some_days && *text == ' ')
		text += strspn(text, " ");
	else if (some_days && *text)
		return -EINVAL;
	if (!some_days || *text)
		if (!clock_of(&text, &from) || *text++ != '-' || !clock_of(&text, &to) || *text ||
		    from == to || from == 24 * 60)
			return -EINVAL;
	days = (last + 7 - first) % 7 + 1;
	minutes = to > from ? to - from : 24 * 60 - from + to;
	for (unsigned int day = 0; day < days; day++)
		for (unsigned int m = 0; m < minutes; m++) {
			unsigned int at =
				((first + day) * 24 * 60 + from + m) % RSK_CONF_WEEK_MINUTES;

			week[at / 8] |= (uint8_t)(1u << at % 8);
		}
	return 0;
}
