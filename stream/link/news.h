/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * news.h - who takes the completions that wake a thread asleep on streams to other hosts. All rails
 * of a process have one completion channel, and whatever sleeps on it wakes for each completion.
 * So few threads sleep on it themselves; if there are more, each sleeps on its own wake eventfd
 * alone, and the progress thread takes the completions and writes to the eventfd of the one that
 * they are for. docs/adr/verbs.md.
 */
#ifndef RSK_NEWS_H
#define RSK_NEWS_H

#include <stdbool.h>

enum rsk_news {
	RSK_NEWS_AWAKE, /* not between begin and end */
	RSK_NEWS_ITSELF,
	RSK_NEWS_BY_PROGRESS,
};

/*
 * rsk_news_sleep_begin - This thread has announced itself, checked once more, and sleeps now.
 * Returns what it may rely on: that a completion wakes whoever polls the completion channel, or
 * that the progress thread hears of each (@by_progress: nothing else is of use).
 *
 * rsk_news_sleep_end - It is awake; also where it is cancelled. A thread that leaves its sleep by a
 * jump stays counted: then more threads than need it rely on the progress thread.
 */
enum rsk_news rsk_news_sleep_begin(bool by_progress);
void rsk_news_sleep_end(enum rsk_news n);

/*
 * Progress thread. rsk_news_wanted - whether a thread relies on it; after false, one that begins
 * to do so calls it (rsk_progress_call()). rsk_news_heard - it takes all completions from now on.
 */
bool rsk_news_wanted(void);
void rsk_news_heard(void);

/*
 * In the child of a fork: the parent's other threads do not sleep there. @asleep: this one does
 * (rsk_wait_asleep()); then the count stays, and more than need it rely on the progress thread.
 */
void rsk_news_forked(bool asleep);

#endif
