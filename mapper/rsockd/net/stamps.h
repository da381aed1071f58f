/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stamps.h - whether this kernel's TCP time stamps have an offset of each connection, or only of
 * each pair of addresses: then who has connections of his own between the same addresses knows it.
 */
#ifndef RSK_STAMPS_H
#define RSK_STAMPS_H

/*
 * Returns 1: of each connection; 0: of the addresses only; -errno: it cannot be found out. Makes
 * two connections to itself on the loopback device.
 */
int rsk_stamps_are_secret(void);

#endif
