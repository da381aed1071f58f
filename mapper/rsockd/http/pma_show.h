/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_show.h - the exchange between policy agents as an operator sees it. */
#ifndef RSK_PMA_SHOW_H
#define RSK_PMA_SHOW_H

#include <event2/buffer.h>
#include <jansson.h>

#include "daemon.h"

/* For /v1/status: "central" (whom we ask) and "nodes" (who reports to us), each null if there is none; the caller's. */
json_t *rsk_pma_show_status(const struct rsk_daemon *d);
void rsk_pma_show_metrics(const struct rsk_daemon *d, struct evbuffer *out);

#endif
