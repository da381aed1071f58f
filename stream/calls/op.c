// SPDX-License-Identifier: BSD-2-Clause
/*
 * op.c - begins and ends one call on one stream: decides whether the kernel or the engine carries
 * it, and counts calls and bytes before the stream is paired. The hooks call it by way of engine.h.
 */
#include "calls.h"
#include "engine.h"

#include <errno.h>

#include "anew.h"
#include "pairing.h"
#include "stream.h"
#include "operator_request.h"

static uint64_t bytes_moved(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->tcp_bytes.rx, memory_order_relaxed) +
	       atomic_load_explicit(&s->tcp_bytes.tx, memory_order_relaxed);
}

/* values of rsk_op.counted: where the call is counted as a plain wait */
enum {
	IN_LIFE = 1,
	APART = 2
};

static uint32_t plain_shift(const struct rsk_op *op)
{
	return op->kind == RSK_OP_RECV ? RSK_PLAIN_RX_SHIFT : RSK_PLAIN_TX_SHIFT;
}

static uint64_t plain_one(const struct rsk_op *op)
{
	return UINT64_C(1) << plain_shift(op);
}

static _Atomic(uint32_t) *plain_apart(const struct rsk_op *op)
{
	return op->kind == RSK_OP_RECV ? &op->s->plain.rx : &op->s->plain.tx;
}

static bool is_due(const struct rsk_stream *s)
{
	return rsk_stream_work(s) >= atomic_load_explicit(&s->work.step, memory_order_relaxed);
}

void rsk_pairing_due(struct rsk_stream *s, int fd)
{
	if (is_due(s))
		rsk_pairing_step(s, fd);
}

/* The stream is pinned, and was not paired when it was checked. */
static __attribute__((noinline)) int begin_candidate(struct rsk_op *op, struct rsk_stream *s)
{
	uint32_t phase = rsk_stream_phase(s);

	if (phase == RSK_PHASE_UNTRACKED) {
		rsk_stream_unpin(s);
		return RSK_KERNEL;
	}
	op->s = s;
	if (phase == RSK_PHASE_PAIRED)
		return RSK_ENGINE;
	if (op->kind == RSK_OP_CTL)
		return RSK_KERNEL;
	rsk_pairing_due(s, op->fd);
	if (rsk_stream_phase(s) == RSK_PHASE_PAIRED)
		return RSK_ENGINE;
	/*
	 * Add, read the phase again: pairs with the pairing thread, which sets the phase, then
	 * reads the count (kernel.c); all of it seq_cst.
	 */
	atomic_fetch_add(plain_apart(op), 1);
	if (atomic_load(&s->phase) == RSK_PHASE_PAIRED) {
		atomic_fetch_sub(plain_apart(op), 1);
		return RSK_ENGINE;
	}
	op->counted = APART;
	if (op->kind == RSK_OP_SEND &&
	    __builtin_expect(atomic_load_explicit(&s->syn.asked, memory_order_relaxed), 0))
		return RSK_ENGINE; /* shown_send.c */
	return RSK_KERNEL;
}

static __attribute__((noinline)) int begin_slow(struct rsk_op *op, int fd)
{
	struct rsk_stream *s;

	if (rsk_fd_ours(fd))
		return rsk_sigdefer_depth ? RSK_KERNEL : RSK_ENGINE; /* which returns EBADF */
	s = rsk_stream_of(fd);
	return s ? begin_candidate(op, s) : RSK_KERNEL;
}

/*
 * The usual candidate; the entry was @w: pinned and counted in one operation, then checked again as
 * above.
 */
static __attribute__((noinline)) int begin_plain(struct rsk_op *op, struct rsk_stream *s,
						 uintptr_t w)
{
	uint64_t one = plain_one(op), n = atomic_load_explicit(&s->refs, memory_order_relaxed);
	uint32_t phase;

	do
		if (!(uint32_t)n || (uint16_t)(n >> plain_shift(op)) == UINT16_MAX)
			return begin_slow(op, op->fd);
	while (!atomic_compare_exchange_weak(&s->refs, &n, n + one + 1));
	phase = atomic_load(&s->phase);
	if (__builtin_expect(rsk_fd_word(op->fd) != w || phase == RSK_PHASE_UNTRACKED, 0)) {
		rsk_stream_unpin_by(s, one + 1);
		return begin_slow(op, op->fd);
	}
	if (phase == RSK_PHASE_PAIRED || is_due(s)) {
		atomic_fetch_sub(&s->refs, one);
		return begin_candidate(op, s);
	}
	op->s = s;
	op->counted = IN_LIFE;
	return RSK_KERNEL;
}

int rsk_op_begin(struct rsk_op *op, int fd, enum rsk_op_kind kind)
{
	uintptr_t w = rsk_fd_word(fd);
	struct rsk_stream *s = rsk_fd_object(w);

	*op = (struct rsk_op){ .fd = fd, .kind = (uint8_t)kind };
	if (__builtin_expect((w & RSK_FD_MASK) != RSK_FD_TRACKED || w == RSK_FD_OWN, 0))
		return begin_slow(op, fd);
	/* Before the pin it may be another stream's phase: only a hint. */
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED && kind != RSK_OP_CTL)
		return begin_plain(op, s, w);
	/* The usual case: the entry is still the same after the pin. */
	if (rsk_stream_pin(s)) {
		if (__builtin_expect(rsk_fd_word(fd) == w, 1)) {
			if (__builtin_expect(atomic_load_explicit(&s->fork.anew_due,
								  memory_order_relaxed),
					     0))
				rsk_stream_anew(s, fd);
			if (rsk_stream_phase(s) != RSK_PHASE_PAIRED)
				return begin_candidate(op, s);
			op->s = s;
			return RSK_ENGINE;
		}
		rsk_stream_unpin(s);
	}
	return begin_slow(op, fd);
}

void rsk_op_uncount(struct rsk_op *op)
{
	if (op->counted == IN_LIFE)
		atomic_fetch_sub(&op->s->refs, plain_one(op));
	else if (op->counted)
		atomic_fetch_sub(plain_apart(op), 1);
	op->counted = 0;
}

void rsk_op_moved(struct rsk_stream *s, int fd, uint64_t n)
{
	uint64_t calls = atomic_load_explicit(&s->work.calls, memory_order_relaxed) + 1;

	atomic_store_explicit(&s->work.calls, calls, memory_order_relaxed);
	if (n >= RSK_WORK_BYTES)
		atomic_store_explicit(&s->work.more,
				      atomic_load_explicit(&s->work.more, memory_order_relaxed) +
					      n / RSK_WORK_BYTES,
				      memory_order_relaxed);
	if (rsk_stream_phase(s) != RSK_PHASE_CANDIDATE)
		return;
	if (rsk_policy_earned(&rsk_knobs.policy, calls, bytes_moved(s)) &&
	    !atomic_load(&s->request.off))
		atomic_store_explicit(&s->work.step, 0, memory_order_relaxed);
	if (calls == RSK_NAME_CALLS)
		rsk_stream_name(s, fd);
}

static __attribute__((noinline)) void end_candidate(struct rsk_op *op, ssize_t ret)
{
	struct rsk_stream *s = op->s;
	bool recv = op->kind == RSK_OP_RECV;

	if (ret > 0 && __builtin_expect(op->zerocopy, 0) && rsk_kernel_has_zerocopy(op->fd))
		atomic_fetch_add_explicit(&s->zerocopy.kernel, 1, memory_order_relaxed);
	if (ret > 0 && !op->peek) {
		atomic_fetch_add_explicit(recv ? &s->tcp_bytes.rx : &s->tcp_bytes.tx, (uint64_t)ret,
					  memory_order_relaxed);
		rsk_stats_add_shared(recv ? &s->rec->rx_tcp_bytes : &s->rec->tx_tcp_bytes,
				     (uint64_t)ret);
		rsk_stats_add_shared(recv ? &s->rec->rx_tcp_calls : &s->rec->tx_tcp_calls, 1);
	}
	if (ret > 0) {
		rsk_op_moved(s, op->fd, (uint64_t)ret);
		rsk_stream_check_request(s, op->fd);
	}
	if (op->counted == IN_LIFE) {
		rsk_stream_unpin_by(s, plain_one(op) + 1);
		return;
	}
	rsk_op_uncount(op);
	rsk_stream_unpin(s);
}

void rsk_op_end(struct rsk_op *op, ssize_t ret)
{
	if (!op->s || op->counted)
		rsk_kernel_calls++;
	if (!op->s)
		return;
	if (op->counted)
		end_candidate(op, ret);
	else
		rsk_stream_unpin(op->s);
}
