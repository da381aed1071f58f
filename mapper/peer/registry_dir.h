/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry_dir.h - finds or makes the directory of a user's registry. Used by registry.c.
 *
 * Any user may create /dev/shm/rsock-UID first. So there are several names, and all processes of
 * the user try them in the same order: they take the first existing one that belongs to the user
 * alone or, if there is none, the first one that can be made.
 */
#ifndef RSK_MAPPER_REGISTRY_DIR_H
#define RSK_MAPPER_REGISTRY_DIR_H

#define RSK_REGISTRY_BASE "/dev/shm"
/* rsock-UID, rsock-UID.1 and so on; for the default base, /run/user/UID/rsock comes after them. */
#define RSK_REGISTRY_NAMES 16u

/*
 * Returns a descriptor of the directory, owned by the caller; *@number: which of the names it is.
 * -EACCES: every name exists and does not belong to the effective user alone; other -errno.
 * Bounded; does not block on what another user put there; signal-safe.
 */
int rsk_registry_dir_open(const char *base, unsigned int *number);

/*
 * True if a name before @number can be used by now. Then all processes move to it, because later
 * ones know only that name.
 */
int rsk_registry_dir_moved(const char *base, unsigned int number);

#endif /* RSK_MAPPER_REGISTRY_DIR_H */
