/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h - what happens to devices and to this node, for the log and the metrics. */
#ifndef RSK_EVENTS_H
#define RSK_EVENTS_H

#include <event2/buffer.h>

#include "pma.h"

/* From here on each is a line on standard error. */
void rsk_events_open(struct rsk_pma *pma);

/* How often each happened, as OpenMetrics text. */
void rsk_events_write(const struct rsk_pma *pma, struct evbuffer *out);

#endif
