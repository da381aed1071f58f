/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry_dir.h - the directory of a user's registry. Anybody may make /dev/shm/rsock-UID first; so there are more
 * names, in an order that all processes of the user follow: of those that exist the first that is the user's alone, or,
 * where there is none, the first that can be made. Used by registry.c.
 */
#ifndef RSK_MAPPER_REGISTRY_DIR_H
#define RSK_MAPPER_REGISTRY_DIR_H

#define RSK_REGISTRY_BASE "/dev/shm"
/* rsock-UID, rsock-UID.1 and so on; behind them, of the default base, /run/user/UID/rsock. */
#define RSK_REGISTRY_NAMES 16u

/*
 * A descriptor of the directory, owned by the caller; *@number: which of the names it is. -EACCES: each of them is
 * there and is not the effective user's alone; other -errno. Bounded, does not block on what another user put there;
 * signal-safe.
 */
int rsk_registry_dir_open(const char *base, unsigned int *number);

/* Is there by now one that comes before that number? All move there: who came later knows no other. */
int rsk_registry_dir_moved(const char *base, unsigned int number);

#endif /* RSK_MAPPER_REGISTRY_DIR_H */
