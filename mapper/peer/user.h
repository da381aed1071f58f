/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user.h - which user numbers name a user. The kernel shows a user that has no number in this user namespace as the
 * overflow uid (/proc/sys/kernel/overflowuid, 65534), by SO_PEERCRED, sock_diag(7) and stat(2) alike: all such users,
 * and perhaps one that has this number, look the same. Whoever compares users that the kernel named does it here.
 */
#ifndef RSK_MAPPER_USER_H
#define RSK_MAPPER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Does the number name one user? Not the overflow uid, unless every user has a number in this namespace, as in the
 * initial one. Then three short reads of /proc at the most, else none after the first call. Where /proc cannot be read
 * the answer is the careful one. Does not block; signal-safe. Source: user_namespaces(7).
 */
bool rsk_user_is_one(uid_t uid);

/* Are both numbers of one and the same user? */
bool rsk_user_same(uid_t a, uid_t b);

#endif /* RSK_MAPPER_USER_H */
