/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_show.h - shows the exchange between policy agents in the status and the metrics. api.c and
 * metrics.c call it.
 */
#ifndef RSK_PMA_SHOW_H
#define RSK_PMA_SHOW_H

#include <event2/buffer.h>
#include <jansson.h>

#include "daemon.h"

/*
 * For /v1/status: "central" (the agent that we ask) and "serves" (the nodes that report to us),
 * each null if there is none. The caller owns the result.
 */
json_t *rsk_pma_show_status(const struct rsk_daemon *d);
void rsk_pma_show_metrics(const struct rsk_daemon *d, struct evbuffer *out);

#endif
