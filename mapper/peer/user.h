/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user.h - tells which user ids name one user. Called wherever users that the kernel named are
 * compared.
 *
 * The kernel shows a user that has no id in this user namespace as the overflow uid
 * (/proc/sys/kernel/overflowuid, 65534), in SO_PEERCRED, sock_diag(7) and stat(2) alike: all such
 * users, and perhaps a user that has this id, look the same.
 */
#ifndef RSK_MAPPER_USER_H
#define RSK_MAPPER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * True if the id names one user: it is not the overflow uid, unless every user has an id in this
 * namespace, as in the initial one. Makes at most three short reads of /proc for the overflow uid,
 * else none after the first call. If /proc cannot be read the overflow uid names no one user. Does
 * not block; signal-safe. Source: user_namespaces(7).
 */
bool rsk_user_is_one(uid_t uid);

/*
 * True if user 0 of the user namespace of this process is one user of the host, mapped by itself:
 * whoever made the namespace (unshare --map-root-user, rootless containers). In the initial one,
 * and where 0 begins a range (a system container, --userns-remap), there may be containers without
 * user namespaces, or with the same range, whose roots have the same number. Reads /proc.
 */
bool rsk_user_root_is_one(void);

/* True if both ids name the same user. */
bool rsk_user_same(uid_t a, uid_t b);

#endif /* RSK_MAPPER_USER_H */
