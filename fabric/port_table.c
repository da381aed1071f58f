// SPDX-License-Identifier: BSD-2-Clause
/* port_table.c - the port table: see port_table.h. */
#include "port_table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PAGE 4096u
#define RECORD_BYTES RSK_LOCKED_BYTES(RSK_PORT_TABLE_HOLDERS)
#define BYTES                                                                                      \
	((RSK_PORT_TABLE_RECORDS + RSK_PORT_TABLE_PORTS * RECORD_BYTES + PAGE - 1) / PAGE *        \
	 (uint64_t)PAGE)
/*
 * Limits per operation; a turn takes about 0.3 us. rsockd, which serves others, must not be delayed
 * and tries again later; a process goes on for as long as many processes at once may need.
 */
#define RETRIES 7u
#define TURNS 256u
#define TURNS_PROCESS 1024u
#define READS 8u
/* No holder keeps a lock on a port table: a lock that is unchanged at two checks is broken. */
#define BREAK_NS 0u

_Static_assert(RECORD_BYTES % RSK_LOCKED_HEAD_BYTES == 0, "records lie side by side");

static struct rsk_port_table_head *head_of(const struct rsk_port_table *b)
{
	return (void *)b->rail.window;
}

/* ---- create, attach, detach ---- */

static int map(struct rsk_port_table *b, int fd, uint32_t me)
{
	void *p = rsk_sys_mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (rsk_sys_is_err(p))
		return (int)(intptr_t)p;
	rsk_sys_madvise(p, BYTES, MADV_DONTFORK);
	*b = (struct rsk_port_table){ .rail = { .window = p, .window_bytes = BYTES }, .me = me };
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		rsk_locker_init(&b->at[i], RSK_PORT_TABLE_RECORDS + i * RECORD_BYTES,
				RSK_PORT_TABLE_HOLDERS, me, rsk_monotonic_ns());
	return 0;
}

int rsk_port_table_create(struct rsk_port_table *b)
{
	int fd = rsk_sys_memfd_create("rsock-ports", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	*b = (struct rsk_port_table){ 0 };
	if (fd < 0)
		return fd;
	rc = rsk_sys_ftruncate(fd, (off_t)BYTES);
	if (rc == 0)
		rc = rsk_sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (rc == 0)
		rc = map(b, fd, RSK_PORT_TABLE_OWNER);
	if (rc < 0) {
		rsk_sys_close(fd);
		return rc;
	}
	*head_of(b) = (struct rsk_port_table_head){ .magic = RSK_PORT_TABLE_MAGIC, .bytes = BYTES };
	return fd;
}

int rsk_port_table_attach(struct rsk_port_table *b, int fd, uint32_t me)
{
	struct stat st;
	int seals, rc;

	*b = (struct rsk_port_table){ 0 };
	if (!me || me >= RSK_PORT_TABLE_OWNER)
		return -EPROTO;
	seals = rsk_sys_fcntl(fd, F_GET_SEALS, 0);
	/*
	 * Nothing else is asked of a file that is not a memfd: another file's server may never
	 * answer.
	 */
	rc = seals < 0 ? -EPROTO : rsk_sys_fstat(fd, &st);
	if (rc < 0)
		return rc;
	/* As for a link's segment (shm.c): touching a page can never cause SIGBUS. */
	if ((seals & SEALS) != SEALS || (seals & F_SEAL_WRITE) || (uint64_t)st.st_size != BYTES ||
	    st.st_blksize != PAGE)
		return -EPROTO;
	rc = map(b, fd, me);
	if (rc < 0)
		return rc;
	if (head_of(b)->magic == RSK_PORT_TABLE_MAGIC && head_of(b)->bytes == BYTES)
		return 0;
	rsk_port_table_detach(b);
	return -EPROTO;
}

void rsk_port_table_detach(struct rsk_port_table *b)
{
	if (b->rail.window)
		rsk_sys_munmap(b->rail.window, BYTES);
	*b = (struct rsk_port_table){ 0 };
}

/* ---- the table ---- */

#define TABLE_WORDS (sizeof(struct rsk_port_table_data) / sizeof(uint64_t))

static uint64_t *table_of(const struct rsk_port_table *b)
{
	return (uint64_t *)(void *)(b->rail.window + RSK_PORT_TABLE_DATA);
}

void rsk_port_table_write(struct rsk_port_table *b, const struct rsk_port_table_data *t)
{
	uint64_t words[TABLE_WORDS], *to = table_of(b), *seq = &head_of(b)->seq;
	uint64_t next = (__atomic_load_n(seq, __ATOMIC_RELAXED) | 1) + 1; /* whatever it was */

	memcpy(words, t, sizeof(words));
	__atomic_store_n(seq, next - 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 0; i < TABLE_WORDS; i++)
		__atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
	__atomic_store_n(seq, next, __ATOMIC_RELEASE);
}

static bool port_ok(const struct rsk_port_table_port *p)
{
	static const uint8_t zero[12];

	if (p->state >= RSK_PORT_TABLE_STATES || p->spare > 1 ||
	    !memchr(p->name, 0, sizeof(p->name)))
		return false;
	for (uint32_t i = 0; i < RSK_PORT_TABLE_IPS; i++)
		if (p->family[i] && p->family[i] != AF_INET6 &&
		    (p->family[i] != AF_INET || memcmp(p->ip[i] + 4, zero, 12) != 0))
			return false;
	return true;
}

int rsk_port_table_read(const struct rsk_port_table *b, struct rsk_port_table_data *out)
{
	const uint64_t *from = table_of(b), *seq = &head_of(b)->seq;
	uint64_t words[TABLE_WORDS], before = 1;
	uint32_t reads = READS;

	do {
		if (!reads--)
			return -EAGAIN;
		before = __atomic_load_n(seq, __ATOMIC_ACQUIRE);
		for (size_t i = 0; i < TABLE_WORDS; i++)
			words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (before & 1 || __atomic_load_n(seq, __ATOMIC_RELAXED) != before);
	memcpy(out, words, sizeof(*out));
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (!port_ok(&out->port[i]))
			return -EBADMSG;
	return 0;
}

uint32_t rsk_port_table_find(const struct rsk_port_table_data *t, uint16_t family,
			     const uint8_t ip[static 16])
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		for (uint32_t k = 0; family && t->port[i].state && k < RSK_PORT_TABLE_IPS; k++)
			if (t->port[i].family[k] == family && !memcmp(t->port[i].ip[k], ip, 16))
				return i;
	return RSK_PORT_TABLE_NOWHERE;
}

/* ---- reservations ---- */

static int run(struct rsk_port_table *b, struct rsk_reserve *r)
{
	return rsk_reserve_run(r, &b->rail, rsk_monotonic_ns,
			       b->me == RSK_PORT_TABLE_OWNER ? TURNS : TURNS_PROCESS);
}

static int join(struct rsk_port_table *b, uint32_t port)
{
	struct rsk_reserve r;
	int rc;

	rsk_reserve_join(&r, &b->at[port], RETRIES, BREAK_NS);
	rc = run(b, &r);
	if (rc == 0)
		b->joined |= 1u << port;
	return rc;
}

/* What this end had reserved there was released by the owner. */
static void no_more(struct rsk_port_table *b, uint32_t port)
{
	b->joined &= ~(1u << port);
	b->generation[port]++;
}

/*
 * A process may be using the record, if another port had that place: there is no record meanwhile
 * (lock word 0). The fence orders that word before the content: a process that reads some of the
 * content finds 0 when it reads the word again. A release store would not order what is after it.
 */
static void make_record(uint8_t *at, const uint64_t limit[static RSK_RESERVE_MEASURES])
{
	uint64_t fresh[RECORD_BYTES / sizeof(uint64_t)], *to = (uint64_t *)(void *)at;

	rsk_locked_init(fresh, RSK_PORT_TABLE_HOLDERS, limit);
	__atomic_store_n(to, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 1; i < sizeof(fresh) / sizeof(fresh[0]); i++)
		__atomic_store_n(to + i, fresh[i], __ATOMIC_RELAXED);
	__atomic_store_n(to, fresh[0], __ATOMIC_RELEASE);
}

int rsk_port_table_open(struct rsk_port_table *b, uint32_t port)
{
	static const uint64_t none[RSK_RESERVE_MEASURES];

	if (port >= RSK_PORT_TABLE_PORTS || b->me != RSK_PORT_TABLE_OWNER)
		return -EINVAL;
	make_record(b->rail.window + b->at[port].off, none);
	b->at[port].known = false;
	b->joined &= ~(1u << port);
	return join(b, port);
}

int rsk_port_table_limit(struct rsk_port_table *b, uint32_t port,
			 const uint64_t limit[static RSK_RESERVE_MEASURES])
{
	struct rsk_reserve r;

	if (port >= RSK_PORT_TABLE_PORTS || !(b->joined & 1u << port))
		return -EINVAL;
	rsk_reserve_limit(&r, &b->at[port], limit, RETRIES, BREAK_NS);
	return run(b, &r);
}

int rsk_port_table_leave(struct rsk_port_table *b, uint32_t port, uint32_t who)
{
	struct rsk_reserve r;

	if (port >= RSK_PORT_TABLE_PORTS || !(b->joined & 1u << port) || who == b->me)
		return -EINVAL;
	rsk_reserve_leave(&r, &b->at[port], who, RETRIES, BREAK_NS);
	return run(b, &r);
}

int rsk_port_table_figures(struct rsk_port_table *b, uint32_t port, struct rsk_reserve_figures *out)
{
	struct rsk_reserve r = { .op = { .by = &b->at[port < RSK_PORT_TABLE_PORTS ? port : 0],
					 .kind = RSK_LOCKED_READ,
					 .retries = RETRIES },
				 .break_ns = BREAK_NS };
	int rc;

	if (port >= RSK_PORT_TABLE_PORTS)
		return -EINVAL;
	rc = run(b, &r);
	if (rc == 0)
		rsk_reserve_figures(&b->at[port], out);
	return rc;
}

int rsk_port_table_take(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES])
{
	struct rsk_reserve r;
	int rc = -ESTALE;

	if (port >= RSK_PORT_TABLE_PORTS)
		return -EINVAL;
	for (int i = 0; i < 2 && rc == -ESTALE; i++) {
		rc = b->joined & 1u << port ? 0 : join(b, port);
		if (rc < 0)
			return rc;
		rsk_reserve_take(&r, &b->at[port], need, RETRIES, BREAK_NS);
		rc = run(b, &r);
		if (rc == -ESTALE)
			no_more(b, port);
	}
	return rc;
}

int rsk_port_table_give(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES])
{
	struct rsk_reserve r;
	int rc;

	if (port >= RSK_PORT_TABLE_PORTS || !(b->joined & 1u << port))
		return -ERANGE;
	rsk_reserve_give(&r, &b->at[port], need, RETRIES, BREAK_NS);
	rc = run(b, &r);
	if (rc != -ESTALE)
		return rc;
	no_more(b, port);
	return 0;
}
