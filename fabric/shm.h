/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - the fabric for one host: each end of a link owns a sealed memfd that the other maps too.
 * A put is the store itself. The links (stream/link, stream/remote) call it.
 */
#ifndef RSK_SHM_H
#define RSK_SHM_H

#include "segment.h"

extern const struct rsk_fabric_ops rsk_shm_ops;

/*
 * rsk_shm_create - creates and maps the own segment, a sealed memfd. Returns the memfd (the caller
 * sends it to the peer and closes it) or -errno. Fills @seg->own: rings of @ring_bytes, as many as
 * this process may reserve, and no more than the peer's segment has, if that is attached already.
 */
int rsk_shm_create(struct rsk_seg *seg, uint32_t ring_bytes);

/*
 * rsk_shm_attach - maps the peer's segment, after it has checked size and seals of @memfd against
 * @g. If the own segment is created later, maps no more rings than this process may reserve.
 * Returns 0 or -errno. Keeps no reference to @memfd.
 */
int rsk_shm_attach(struct rsk_seg *seg, int memfd, const struct rsk_seg_geometry *g);

/*
 * rsk_shm_mirror - creates a window in private memory, for a fabric that transfers what is put
 * there. It has the layout of the peer's segment, with no more rings than the own segment, which
 * must exist already. Returns 0 or -errno.
 */
int rsk_shm_mirror(struct rsk_seg *seg, const struct rsk_seg_geometry *g);

#endif
