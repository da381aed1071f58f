/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iovcur.h - a cursor over an iovec array, or over a source that is read while it is sent. Used by
 * everything that moves payload. Pure; borrows either.
 */
#ifndef RSK_IOVCUR_H
#define RSK_IOVCUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/*
 * A source from which a slot's payload is read directly into its place. read(): reads up to @len
 * bytes, of which @left remain. Returns bytes; 0: the source has ended; -errno: it cannot be read
 * this way, or not now. Must not sleep: it is called under a lock.
 */
struct rsk_fill {
	ssize_t (*read)(struct rsk_fill *f, uint8_t *to, size_t len, size_t left);
	/*
	 * Result of the read that ended it: 0 or -errno; -ENOSYS: only a ring can take it;
	 * otherwise unchanged.
	 */
	int rc;
};

struct rsk_iovcur {
	union {
		const struct iovec *v;
		struct rsk_fill *fill; /* if n is RSK_IOVCUR_FILL: there are no runs */
	};
	int n;	     /* entries left, including the current one */
	size_t off;  /* in the current entry */
	size_t left; /* total bytes left */
};

#define RSK_IOVCUR_FILL (-1)

/* Maximum bytes of one call, however long its vector is: the kernel's MAX_RW_COUNT. */
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

/* The current run: *p and its length; 0 at the end. */
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

/* Copies @len bytes (<= left) from the vector to @dst, and advances. */
static inline void rsk_iovcur_gather(struct rsk_iovcur *c, uint8_t *dst, size_t len)
{
	while (len) {
		uint8_t *p = NULL;
		size_t run = rsk_iovcur_run(c, &p);

		if (!run)
			return; /* another thread has shortened the vector meanwhile */
		if (run > len)
			run = len;
		memcpy(dst, p, run);
		rsk_iovcur_advance(c, run);
		dst += run;
		len -= run;
	}
}

/* Copies @len bytes (<= left) from @src to the vector, and advances. */
static inline void rsk_iovcur_scatter(struct rsk_iovcur *c, const uint8_t *src, size_t len)
{
	while (len) {
		uint8_t *p = NULL;
		size_t run = rsk_iovcur_run(c, &p);

		if (!run)
			return; /* another thread has shortened the vector meanwhile */
		if (run > len)
			run = len;
		memcpy(p, src, run);
		rsk_iovcur_advance(c, run);
		src += run;
		len -= run;
	}
}

#endif
