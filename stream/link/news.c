// SPDX-License-Identifier: BSD-2-Clause
/*
 * news.c - see news.h. Model: test/model/news.pml.
 *
 * A thread counts itself, and then reads whether the progress thread hears; the progress thread
 * says that it no longer does, and then reads the count. All of it is seq_cst, so one of the two
 * sees the other's store.
 */
#include "news.h"

#include <stdatomic.h>
#include <stdint.h>

#include "progress.h"

/* With so many asleep, they sleep on the completion channel: two wake for a completion then. */
#define THEMSELVES 2

static struct {
	_Atomic(uint32_t) asleep;      /* threads between begin and end */
	_Atomic(uint32_t) by_progress; /* of those: who rely on the progress thread */
	_Atomic(bool) heard;	       /* by the progress thread, which alone writes it */
} news;

enum rsk_news rsk_news_sleep_begin(bool by_progress)
{
	if (atomic_fetch_add(&news.asleep, 1) < THEMSELVES && !by_progress)
		return RSK_NEWS_ITSELF;
	atomic_fetch_add(&news.by_progress, 1);
	if (!atomic_load(&news.heard))
		rsk_progress_call();
	return RSK_NEWS_BY_PROGRESS;
}

void rsk_news_sleep_end(enum rsk_news n)
{
	if (n == RSK_NEWS_AWAKE)
		return;
	if (n == RSK_NEWS_BY_PROGRESS)
		atomic_fetch_sub(&news.by_progress, 1);
	atomic_fetch_sub(&news.asleep, 1);
}

bool rsk_news_wanted(void)
{
	if (atomic_load(&news.by_progress))
		return true;
	atomic_store(&news.heard, false);
	return atomic_load(&news.by_progress);
}

void rsk_news_heard(void)
{
	atomic_store(&news.heard, true);
}

void rsk_news_forked(bool asleep)
{
	atomic_store(&news.heard, false);
	if (asleep)
		return;
	atomic_store(&news.asleep, 0);
	atomic_store(&news.by_progress, 0);
}
