/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syscall_filter.h - does a seccomp filter let the calls through that the library makes? Used by
 * preload/ before a program's own filter is installed.
 */
#ifndef RSK_SYSCALL_FILTER_H
#define RSK_SYSCALL_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_FILTER_ANY (-1)

/* A system call as far as a filter can tell it apart. */
struct rsk_filter_call {
	int32_t nr;
	int32_t index;	/* the argument that is known, or RSK_FILTER_ANY: none is */
	uint64_t value; /* of that argument */
};

/* Memory for one instruction of a filter; a caller provides as many as the filter has. */
struct rsk_filter_state {
	uint32_t a, x;
	bool reached, a_known, x_known;
	uint8_t pad;
};

/*
 * True if @code (@n instructions) returns SECCOMP_RET_ALLOW for @call, of this machine's
 * architecture, whatever the instruction pointer and the arguments that are not known are. False if
 * it may return something else (also LOG, TRACE and USER_NOTIF), or if it is no filter that the
 * kernel accepts. @room: @n states, contents of no interest. Pure.
 */
bool rsk_filter_allows(const struct sock_filter *code, size_t n, const struct rsk_filter_call *call,
		       struct rsk_filter_state *room);

/* The rows of needed_calls.def, *n of them. */
const struct rsk_filter_call *rsk_filter_needed(size_t *n);

/*
 * The first row of needed_calls.def that @code may not let through, or NULL if it lets all of them
 * through. The caller has checked that @code can be read. Signal-safe; does not block.
 */
const struct rsk_filter_call *rsk_filter_denies(const struct sock_filter *code, size_t n);

#endif
