/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redirect.h - a PMReq that another host is to answer in our place goes there in an envelope that names its
 * source, to which the PMAccept goes straight back. Only between hosts whose configuration says so: whoever
 * is believed here can have answers sent to anybody.
 *
 *	bytes 0-3 "RSKR" (no version of the protocol begins so), 4 IPV, 5 hops so far, 6-7 source port,
 *	8-23 source address (IPv4: first 4 bytes, rest 0); then the PMReq as it came. Big-endian.
 */
#ifndef RSK_REDIRECT_H
#define RSK_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "pm_addr.h"
#include "pm_msg.h"

#define RSK_REDIRECT_HEAD_BYTES 24
#define RSK_REDIRECT_BYTES (RSK_REDIRECT_HEAD_BYTES + RSK_PM_WIRE_MAPPED_BYTES)
#define RSK_REDIRECT_HOPS 4 /* then it is dropped: rules that point at each other */

/* Returns the bytes written; -ELOOP: too many hops; -EINVAL: no PMReq. */
ssize_t rsk_redirect_wrap(const struct rsk_pm_msg *req, const struct rsk_pm_addr *from,
			  uint8_t hops, uint8_t out[static RSK_REDIRECT_BYTES]);

/* Is it an envelope? Then what it says of its source; the PMReq is what follows the head. */
bool rsk_redirect_unwrap(const uint8_t *datagram, size_t bytes, struct rsk_pm_addr *from,
			 uint8_t *hops);

/* Is that host believed? */
bool rsk_redirect_allowed(const struct rsk_conf_daemon *settings, const struct rsk_pm_addr *who);

#endif
