/* SPDX-License-Identifier: BSD-2-Clause */
/* iovcur.h - a position in an iovec array, or in something that is read as it is sent. Pure; borrows either. */
#ifndef RSK_IOVCUR_H
#define RSK_IOVCUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/*
 * What a slot's payload is read from, straight into its place. read(): up to @len bytes of what is @left; 0: it has
 * ended; -errno: it cannot be had so, or now. Must not sleep: it is called under a lock.
 */
struct rsk_fill {
	ssize_t (*read)(struct rsk_fill *f, uint8_t *to, size_t len, size_t left);
	int rc; /* of the read that ended it: 0 or -errno; -ENOSYS: only a ring takes it so; else as it was */
};

struct rsk_iovcur {
	union {
		const struct iovec *v;
		struct rsk_fill *fill; /* n is RSK_IOVCUR_FILL: there are no runs */
	};
	int n;	     /* entries left, the current one included */
	size_t off;  /* into the current one */
	size_t left; /* bytes left in all */
};

#define RSK_IOVCUR_FILL (-1)

/* A call moves no more than this, however long its vector is: MAX_RW_COUNT of the kernel. */
#define RSK_RW_MAX_BYTES 0x7ffff000UL

static inline void rsk_iovcur_init_fill(struct rsk_iovcur *c, struct rsk_fill *f, size_t len)
{
	*c = (struct rsk_iovcur){ .fill = f, .n = RSK_IOVCUR_FILL, .left = len };
}

static inline bool rsk_iovcur_fills(const struct rsk_iovcur *c)
{
	return c->n == RSK_IOVCUR_FILL;
}

static inline void rsk_iovcur_init(struct rsk_iovcur *c, const struct iovec *v, int n)
{
	c->v = v;
	c->n = n;
	c->off = 0;
	c->left = 0;
	for (int i = 0; i < n; i++)
		c->left += v[i].iov_len;
	if (c->left > RSK_RW_MAX_BYTES)
		c->left = RSK_RW_MAX_BYTES;
}

/* Current run: *p and its length; 0 at the end. */
static inline size_t rsk_iovcur_run(struct rsk_iovcur *c, uint8_t **p)
{
	size_t run;

	while (c->n > 0 && c->off == c->v->iov_len) {
		c->v++;
		c->n--;
		c->off = 0;
	}
	if (c->n <= 0)
		return 0;
	*p = (uint8_t *)c->v->iov_base + c->off;
	run = c->v->iov_len - c->off;
	return run < c->left ? run : c->left;
}

static inline void rsk_iovcur_advance(struct rsk_iovcur *c, size_t len)
{
	c->left -= len;
	while (len) {
		size_t run = c->v->iov_len - c->off;

		if (len < run) {
			c->off += len;
			return;
		}
		len -= run;
		c->v++;
		c->n--;
		c->off = 0;
	}
}

/* Copy len bytes (<= left) out of the vector into dst, and on. */
static inline void rsk_iovcur_gather(struct rsk_iovcur *c, uint8_t *dst, size_t len)
{
	while (len) {
		uint8_t *p = NULL;
		size_t run = rsk_iovcur_run(c, &p);

		if (!run)
			return; /* whoever owns the vector made it shorter meanwhile */
		if (run > len)
			run = len;
		memcpy(dst, p, run);
		rsk_iovcur_advance(c, run);
		dst += run;
		len -= run;
	}
}

/* Copy len bytes (<= left) from src into the vector, and on. */
static inline void rsk_iovcur_scatter(struct rsk_iovcur *c, const uint8_t *src, size_t len)
{
	while (len) {
		uint8_t *p = NULL;
		size_t run = rsk_iovcur_run(c, &p);

		if (!run)
			return; /* whoever owns the vector made it shorter meanwhile */
		if (run > len)
			run = len;
		memcpy(p, src, run);
		rsk_iovcur_advance(c, run);
		src += run;
		len -= run;
	}
}

#endif
