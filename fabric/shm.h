/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shm.h - the fabric of one host: each end of a link owns a sealed memfd that the other maps too. A put is the store
 * itself.
 */
#ifndef RSK_SHM_H
#define RSK_SHM_H

#include "segment.h"

extern const struct rsk_fabric_ops rsk_shm_ops;

/*
 * rsk_shm_create - own segment: a sealed memfd, mapped. Returns the memfd (caller sends it to the peer and closes
 * it) or -errno. @seg->own is filled: rings of @ring_bytes, as many as this process may reserve, and no more than the
 * peer's segment has, if that is there already.
 */
int rsk_shm_create(struct rsk_seg *seg, uint32_t ring_bytes);

/*
 * rsk_shm_attach - map the peer's segment: checks size and seals of @memfd against @g. Of the end that creates its own
 * afterwards it maps no more rings than this process may reserve. 0 or -errno. Keeps no reference to the fd.
 */
int rsk_shm_attach(struct rsk_seg *seg, int memfd, const struct rsk_seg_geometry *g);

/*
 * rsk_shm_mirror - a window that is memory of ours, for a fabric that carries what is put there: laid out as the peer's
 * segment, with no more rings than the own one has, which is there already. 0 or -errno.
 */
int rsk_shm_mirror(struct rsk_seg *seg, const struct rsk_seg_geometry *g);

#endif
