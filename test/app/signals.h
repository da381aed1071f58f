/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - counts the signals that a side gets. For families that wait for signals. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include "app.h"

static _Atomic int signals;

static void count_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&signals, 1);
}

static void catch_signal(int sig, int flags)
{
	struct sigaction act = { .sa_handler = count_signal, .sa_flags = flags };

	MUST(sigaction(sig, &act, NULL));
}

#endif
