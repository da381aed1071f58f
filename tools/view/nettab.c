// SPDX-License-Identifier: BSD-2-Clause
/* nettab.c - see nettab.h. */
#include "nettab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses exactly @digits hexadecimal digits at @text. */
static bool parse_hex(const char *text, size_t digits, uint32_t *out)
{
	char copy[9], *end;

	if (strspn(text, "0123456789abcdefABCDEF") < digits)
		return false;
	memcpy(copy, text, digits);
	copy[digits] = 0;
	*out = (uint32_t)strtoul(copy, &end, 16);
	return end == copy + digits;
}

/*
 * Parses "0100007F:1F90", IPv6 with 32 digits: the kernel prints each 32-bit word in host byte
 * order, the port as a number. Returns the family; 0: neither form.
 */
static uint16_t parse_addr(const char *text, uint8_t addr[static 16], uint16_t *port)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t digits = strcspn(text, ":"), words = digits / 8;
	uint32_t word[4] = { 0 }, number;

	if ((digits != 8 && digits != 32) || !text[digits] ||
	    !parse_hex(text + digits + 1, 4, &number) || text[digits + 5])
		return 0;
	for (size_t i = 0; i < words; i++)
		if (!parse_hex(text + 8 * i, 8, &word[i]))
			return 0;
	memcpy(addr, word, 16);
	*port = (uint16_t)number;
	if (words == 1)
		return AF_INET;
	if (memcmp(addr, mapped, 12) != 0)
		return AF_INET6;
	memmove(addr, addr + 12, 4);
	memset(addr + 4, 0, 12);
	return AF_INET;
}

/* Columns of /proc/net/tcp. */
enum {
	LOCAL = 1,
	REMOTE = 2,
	STATE = 3,
	UID = 7,
	INODE = 9,
	COLUMNS
};

bool nettab_parse(char *line, struct sock_row *out)
{
	char *column[COLUMNS], *rest = line, *end;
	uint16_t family;
	uint32_t state;

	memset(out, 0, sizeof(*out));
	for (int i = 0; i < COLUMNS; i++) {
		column[i] = strtok_r(rest, " \n", &rest);
		if (!column[i])
			return false;
	}
	out->tuple.family = parse_addr(column[LOCAL], out->tuple.local, &out->tuple.local_port);
	family = parse_addr(column[REMOTE], out->tuple.peer, &out->tuple.peer_port);
	if (!out->tuple.family || !family || !parse_hex(column[STATE], 2, &state))
		return false;
	/* A listener's peer is all zero; v4-mapped listeners have it in the IPv6 form. */
	if (family != out->tuple.family && out->tuple.peer_port)
		return false;
	out->state = (uint8_t)state;
	out->uid = (uid_t)strtoul(column[UID], &end, 10);
	if (*end)
		return false;
	out->inode = strtoull(column[INODE], &end, 10);
	return !*end;
}

int tuple_compare(const struct rsk_tuple *a, const struct rsk_tuple *b)
{
	int order = memcmp(a->local, b->local, 16);

	if (!order)
		order = memcmp(a->peer, b->peer, 16);
	if (!order)
		order = (int)a->local_port - (int)b->local_port;
	if (!order)
		order = (int)a->peer_port - (int)b->peer_port;
	return order ? order : (int)a->family - (int)b->family;
}

/*
 * The files are not a snapshot: they may show a new connection twice, as request and as socket.
 * Rows with an inode sort first.
 */
static int row_compare(const void *a, const void *b)
{
	const struct sock_row *x = a, *y = b;
	int order = tuple_compare(&x->tuple, &y->tuple);

	return order ? order : !x->inode - !y->inode;
}

static int inode_compare(const void *a, const void *b)
{
	const struct sock_row *x = *(struct sock_row *const *)a, *y = *(struct sock_row *const *)b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static int file_read(FILE *file, struct nettab *tab, size_t *room)
{
	struct sock_row row, *more;
	char line[512];

	while (fgets(line, sizeof(line), file)) {
		if (!nettab_parse(line, &row))
			continue;
		if (tab->count == *room) {
			*room = *room ? 2 * *room : 256;
			more = realloc(tab->row, *room * sizeof(*more));
			if (!more)
				return -ENOMEM;
			tab->row = more;
		}
		tab->row[tab->count++] = row;
	}
	return 0;
}

int nettab_settle(struct nettab *tab)
{
	if (!tab->count)
		return 0;
	qsort(tab->row, tab->count, sizeof(*tab->row), row_compare);
	tab->by_inode = malloc(tab->count * sizeof(struct sock_row *));
	if (!tab->by_inode)
		return -ENOMEM;
	for (size_t i = 0; i < tab->count; i++)
		if (tab->row[i].inode)
			tab->by_inode[tab->inodes++] = &tab->row[i];
	if (tab->inodes)
		qsort(tab->by_inode, tab->inodes, sizeof(struct sock_row *), inode_compare);
	return 0;
}

int nettab_read(pid_t pid, struct nettab *out)
{
	static const char *const tables[] = { "tcp", "tcp6" };
	char path[48];
	size_t room = 0;
	int err = 0;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; !err && i < sizeof(tables) / sizeof(tables[0]); i++) {
		FILE *file;

		if (pid)
			snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, tables[i]);
		else
			snprintf(path, sizeof(path), "/proc/self/net/%s", tables[i]);
		file = fopen(path, "re");
		if (file) {
			err = file_read(file, out, &room);
			fclose(file);
		} else if (i == 0) { /* tcp6 is missing without IPv6 */
			err = -errno;
		}
	}
	if (!err)
		err = nettab_settle(out);
	if (err)
		nettab_free(out);
	return err;
}

void nettab_free(struct nettab *tab)
{
	free(tab->by_inode);
	free(tab->row);
	memset(tab, 0, sizeof(*tab));
}

const struct sock_row *nettab_socket(const struct nettab *tab, uint64_t inode)
{
	struct sock_row key = { .inode = inode }, *at = &key, **found;

	if (!tab->inodes)
		return NULL;
	found = bsearch(&at, tab->by_inode, tab->inodes, sizeof(struct sock_row *), inode_compare);
	return found ? *found : NULL;
}

const struct sock_row *nettab_find(const struct nettab *tab, const struct rsk_tuple *tuple)
{
	struct sock_row key = { .tuple = *tuple, .inode = 1 };
	const struct sock_row *found;

	if (!tab->count)
		return NULL;
	found = bsearch(&key, tab->row, tab->count, sizeof(*tab->row), row_compare);
	key.inode = 0;
	return found ? found : bsearch(&key, tab->row, tab->count, sizeof(*tab->row), row_compare);
}
