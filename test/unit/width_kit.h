/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * width_kit.h - for tests of how much of a ring between hosts is used: one stream whose sender has
 * two rails, and what the progress threads of both ends say about its width.
 */
#ifndef RSK_WIDTH_KIT_H
#define RSK_WIDTH_KIT_H

#include "remote_kit.h"

#define SECOND_NS 1000000000ull
#define FIRST RSK_SEG_FIRST_RING /* bytes that are registered of each ring */

extern struct kit k;
extern struct kit_stream at;
extern uint64_t now_ns;
/* Of what was heard last, by rail: bytes requested, and said to be used; 0: none. */
extern uint32_t requested[RSK_RAILS_MOST], used[RSK_RAILS_MOST];

/* A stream whose ring is asked for; with set_direct() both rails reach its first bytes. */
void set(void);
void set_direct(void);
/* The same with laps of 8 * FIRST. */
void become_wide(void);

/* The bytes of a lap. */
uint32_t width(void);
/* How many NARROW of that rail the other end has been sent so far. */
uint32_t told(uint32_t rail);
/* The other end has registered @bytes of its ring for rail @rail. */
void registered(uint32_t rail, uint32_t bytes);
/* The sender finds its ring full, having sent @bytes since it began. */
void full(uint64_t bytes);
/* Hears what was said. Returns the bytes that the other end was asked for by that rail. */
uint32_t asked(uint32_t rail);
/* A minute passes, and the progress thread looks for rings at rest. */
void later(void);
/* The receiver has taken everything. */
void taken(void);

#endif
