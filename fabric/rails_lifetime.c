// SPDX-License-Identifier: BSD-2-Clause
/*
 * rails_lifetime.c - rails come up and fail, and another one becomes the lead; progress thread
 * only. See rails.h.
 */
#include "rails.h"

/*
 * Makes @i the lead. Control words that were put while there was no lead, or by a lead that is
 * gone, are put again. The window has the last content that its writer composed, or the writer is
 * composing it and puts it itself.
 */
static void lead_by(struct rsk_rails *rs, uint32_t i)
{
	struct rsk_rail *rail = rs->rail[i];

	atomic_store(&rs->lead, (int)i);
	atomic_thread_fence(memory_order_seq_cst);
	/* Nothing that was said before all rails broke is valid. */
	for (uint32_t sid = 0; sid < rs->at.streams && !rs->fresh; sid++) {
		uint64_t off = rs->at.ctl_off + sid * rs->at.ctl_step;

		if (!atomic_load_explicit(&rs->stream[sid], memory_order_relaxed))
			continue;
		rail->ops->put(rail, off, sizeof(struct rsk_control_word));
		rail->ops->put(rail, off + rs->at.rx_word_off, sizeof(struct rsk_control_word));
	}
	if (!rs->fresh)
		rail->ops->due(rail, 0, 0);
	rs->fresh = false;
	atomic_store(&rs->words_open, false);
}

/*
 * Chooses a lead, if there is none, a rail is up, and control words of the former one can no longer
 * arrive.
 */
static void lead(struct rsk_rails *rs)
{
	if (atomic_load(&rs->lead) >= 0)
		return;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (rs->open & 1u << i)
			return;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (rsk_rails_state(rs, i) == RSK_RAILS_UP) {
			lead_by(rs, i);
			return;
		}
}

void rsk_rails_changed(struct rsk_rails *rs)
{
	uint32_t changes = atomic_load(&rs->changes) + 1;

	atomic_store_explicit(&rs->changes, changes ? changes : 1, memory_order_release);
}

static void set_state(struct rsk_rails *rs, uint32_t rail, enum rsk_rails_state state)
{
	uint32_t up = atomic_load_explicit(&rs->up, memory_order_relaxed);

	if (state == RSK_RAILS_UP)
		atomic_store_explicit(&rs->up, up | 1u << rail, memory_order_release);
	atomic_store_explicit(&rs->state[rail], (uint8_t)state, memory_order_release);
	if (state != RSK_RAILS_UP)
		atomic_store_explicit(&rs->up, up & ~(1u << rail), memory_order_release);
}

void rsk_rails_up(struct rsk_rails *rs, uint32_t rail)
{
	set_state(rs, rail, RSK_RAILS_UP);
	rsk_rails_changed(rs);
	lead(rs);
}

void rsk_rails_lost(struct rsk_rails *rs, uint32_t rail)
{
	if (rsk_rails_state(rs, rail) != RSK_RAILS_UP)
		return;
	set_state(rs, rail, RSK_RAILS_LOST);
	if (atomic_load(&rs->lead) == (int)rail) {
		rs->open |= (uint8_t)(1u << rail);
		atomic_store(&rs->words_open, true);
		atomic_store(&rs->lead, -1);
	}
}

void rsk_rails_closed(struct rsk_rails *rs, uint32_t rail)
{
	rs->open &= (uint8_t) ~(1u << rail);
	lead(rs);
}

void rsk_rails_named(struct rsk_rails *rs, uint32_t rail)
{
	if (rsk_rails_state(rs, rail) == RSK_RAILS_LOST)
		set_state(rs, rail, RSK_RAILS_DOWN);
}

void rsk_rails_down(struct rsk_rails *rs)
{
	atomic_store(&rs->lead, -1);
	atomic_fetch_add_explicit(&rs->lives, 1, memory_order_relaxed);
	rs->open = 0;
	rs->fresh = true;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		set_state(rs, i, RSK_RAILS_DOWN);
}
