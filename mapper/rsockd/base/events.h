/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events.h - reports events of devices and of this node: to the log, and as counters in the
 * metrics. daemon_open.c, metrics.c and api.c call it.
 */
#ifndef RSK_EVENTS_H
#define RSK_EVENTS_H

#include <event2/buffer.h>

#include "pma.h"

/* For people; NULL: it is there. */
const char *rsk_absence_words(enum rsk_pma_absence absence);

/* From here on every event of @pma is logged to standard error. */
void rsk_events_open(struct rsk_pma *pma);

/* Appends the counter of each event to @out, as OpenMetrics text. */
void rsk_events_write(const struct rsk_pma *pma, struct evbuffer *out);

#endif
