// SPDX-License-Identifier: BSD-2-Clause
/*
 * syscall_filter.c - see syscall_filter.h.
 *
 * A filter is a program of classic BPF over struct seccomp_data. It only jumps forward, so one pass
 * from the first instruction to the last computes what the registers can be at each of them, over
 * all paths. A value that is not the same on all paths, or depends on something that the caller
 * does not know (a pointer, a descriptor, the instruction pointer), is unknown, and a comparison
 * with it goes both ways. That errs in one direction: a filter may be refused that lets the call
 * through, never the reverse.
 */
#include "syscall_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <rsock/sys.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define WORD_BITS 32

struct value {
	uint32_t is;
	bool known;
};

static const struct rsk_filter_call needed[] = {
#define RSK_NEEDED(name) { SYS_##name, RSK_FILTER_ANY, 0 },
#define RSK_NEEDED_IF(name, index, value) { SYS_##name, index, value },
#define RSK_NOT_NEEDED(name, why)
#include <rsock/needed_calls.def>
};

/* The word at @at of the struct seccomp_data of @call. */
static struct value load(const struct rsk_filter_call *call, uint32_t at)
{
	uint32_t arg;

	if (at == offsetof(struct seccomp_data, nr))
		return (struct value){ (uint32_t)call->nr, true };
	if (at == offsetof(struct seccomp_data, arch))
		return (struct value){ ARCH, true };
	if (at < offsetof(struct seccomp_data, args))
		return (struct value){ 0 };
	arg = (at - (uint32_t)offsetof(struct seccomp_data, args)) / sizeof(uint64_t);
	if (call->index < 0 || arg != (uint32_t)call->index)
		return (struct value){ 0 };
	/* both machines are little-endian */
	return (struct value){
		(uint32_t)(at % sizeof(uint64_t) ? call->value >> WORD_BITS : call->value), true
	};
}

/* @op of BPF_ALU. A division by 0 is not computed: there the kernel ends the filter with "kill". */
static bool compute(uint16_t op, struct value *a, struct value by)
{
	if (op == BPF_DIV && (!by.known || !by.is))
		return false;
	a->known = a->known && by.known;
	switch (op) {
	case BPF_ADD:
		a->is += by.is;
		return true;
	case BPF_SUB:
		a->is -= by.is;
		return true;
	case BPF_MUL:
		a->is *= by.is;
		return true;
	case BPF_DIV:
		a->is /= by.is;
		return true;
	case BPF_OR:
		a->is |= by.is;
		return true;
	case BPF_AND:
		a->is &= by.is;
		return true;
	case BPF_XOR:
		a->is ^= by.is;
		return true;
	case BPF_LSH:
	case BPF_RSH:
		/* kernels differ in what a shift beyond the word is */
		a->known = a->known && by.is < WORD_BITS;
		if (a->known)
			a->is = op == BPF_LSH ? a->is << by.is : a->is >> by.is;
		return true;
	default:
		return false;
	}
}

static bool holds(uint16_t op, uint32_t a, uint32_t with)
{
	return op == BPF_JEQ ? a == with :
	       op == BPF_JGT ? a > with :
	       op == BPF_JGE ? a >= with :
			       (a & with) != 0;
}

/* The execution reaches instruction @to with the registers of @from. */
static void reach(struct rsk_filter_state *to, const struct rsk_filter_state *from)
{
	if (!to->reached) {
		*to = *from;
		return;
	}
	to->a_known = to->a_known && from->a_known && to->a == from->a;
	to->x_known = to->x_known && from->x_known && to->x == from->x;
}

/* @s: the state before @in, which is changed to that after it. False: not understood. */
static bool load_or_compute(const struct sock_filter *in, const struct rsk_filter_call *call,
			    struct rsk_filter_state *s)
{
	struct value a = { s->a, s->a_known }, x = { s->x, s->x_known };

	switch (in->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		if (in->k >= sizeof(struct seccomp_data) || in->k % sizeof(uint32_t))
			return false;
		a = load(call, in->k);
		break;
	case BPF_LD | BPF_W | BPF_LEN:
		a = (struct value){ sizeof(struct seccomp_data), true };
		break;
	case BPF_LDX | BPF_W | BPF_LEN:
		x = (struct value){ sizeof(struct seccomp_data), true };
		break;
	case BPF_LD | BPF_IMM:
		a = (struct value){ in->k, true };
		break;
	case BPF_LDX | BPF_IMM:
		x = (struct value){ in->k, true };
		break;
	case BPF_LD | BPF_MEM: /* what was stored is not followed */
		a.known = false;
		break;
	case BPF_LDX | BPF_MEM:
		x.known = false;
		break;
	case BPF_ST:
	case BPF_STX:
		break;
	case BPF_MISC | BPF_TAX:
		x = a;
		break;
	case BPF_MISC | BPF_TXA:
		a = x;
		break;
	case BPF_ALU | BPF_NEG:
		a.is = -a.is;
		break;
	default:
		if (BPF_CLASS(in->code) != BPF_ALU ||
		    (in->code & ~(BPF_CLASS(0xff) | BPF_OP(0xff) | BPF_SRC(0xff))) ||
		    !compute(BPF_OP(in->code), &a,
			     BPF_SRC(in->code) == BPF_X ? x : (struct value){ in->k, true }))
			return false;
	}
	s->a = a.is;
	s->a_known = a.known;
	s->x = x.is;
	s->x_known = x.known;
	return true;
}

/* Marks where the jump @in leads; @left: the instructions behind it. */
static bool jump(const struct sock_filter *in, size_t left, const struct rsk_filter_state *s,
		 struct rsk_filter_state *next)
{
	uint16_t op = BPF_OP(in->code);
	bool by_x = BPF_SRC(in->code) == BPF_X, known = s->a_known && (!by_x || s->x_known), is;

	if (in->code == (BPF_JMP | BPF_JA)) {
		if (in->k >= left)
			return false;
		reach(&next[in->k], s);
		return true;
	}
	if ((op != BPF_JEQ && op != BPF_JGT && op != BPF_JGE && op != BPF_JSET) || in->jt >= left ||
	    in->jf >= left)
		return false;
	is = known && holds(op, s->a, by_x ? s->x : in->k);
	if (!known || is)
		reach(&next[in->jt], s);
	if (!known || !is)
		reach(&next[in->jf], s);
	return true;
}

static bool allows(const struct sock_filter *in, const struct rsk_filter_state *s)
{
	if (in->code == (BPF_RET | BPF_K))
		return (in->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW;
	return in->code == (BPF_RET | BPF_A) && s->a_known &&
	       (s->a & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW;
}

bool rsk_filter_allows(const struct sock_filter *code, size_t n, const struct rsk_filter_call *call,
		       struct rsk_filter_state *room)
{
	if (!n || n > BPF_MAXINSNS)
		return false;
	for (size_t i = 0; i < n; i++)
		room[i].reached = false;
	/* the kernel begins with both registers 0 */
	room[0] = (struct rsk_filter_state){ .reached = true, .a_known = true, .x_known = true };
	for (size_t i = 0; i < n; i++) {
		const struct sock_filter *in = &code[i];
		size_t left = n - i - 1;
		bool ok;

		if (!room[i].reached)
			continue;
		if (BPF_CLASS(in->code) == BPF_RET) {
			ok = allows(in, &room[i]);
		} else if (BPF_CLASS(in->code) == BPF_JMP) {
			ok = jump(in, left, &room[i], &room[i + 1]);
		} else {
			ok = left && load_or_compute(in, call, &room[i]);
			if (ok)
				reach(&room[i + 1], &room[i]);
		}
		if (!ok)
			return false;
	}
	return true;
}

const struct rsk_filter_call *rsk_filter_needed(size_t *n)
{
	*n = sizeof(needed) / sizeof(needed[0]);
	return needed;
}

const struct rsk_filter_call *rsk_filter_denies(const struct sock_filter *code, size_t n)
{
	const struct rsk_filter_call *call = needed,
				     *end = needed + sizeof(needed) / sizeof(needed[0]);
	struct rsk_filter_state *room;

	if (!n || n > BPF_MAXINSNS)
		return needed;
	/* 64 KB at most: more than the stack of a small thread has */
	room = rsk_sys_mmap(NULL, n * sizeof(*room), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rsk_sys_is_err(room))
		return needed;
	while (call < end && rsk_filter_allows(code, n, call, room))
		call++;
	rsk_sys_munmap(room, n * sizeof(*room));
	return call < end ? call : NULL;
}
