// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syscall_filter.c - tests what is said of a seccomp filter: small filters by hand, and many
 * random ones against the kernel's own verdict.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syscall_filter.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define AT(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define ARG(i) ((uint32_t)(AT(args) + 8 * (i)))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define IF_EQ(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RETURN(k) BPF_STMT(BPF_RET | BPF_K, k)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define DENY RETURN(SECCOMP_RET_ERRNO | EPERM)

static struct rsk_filter_state room[BPF_MAXINSNS];

#define ALLOWS(code, ...)                                                                          \
	rsk_filter_allows(code, COUNT(code), &(struct rsk_filter_call){ __VA_ARGS__ }, room)

Test(syscall_filter, actions)
{
	static const uint32_t others[] = {
		SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
		SECCOMP_RET_ERRNO,	  SECCOMP_RET_USER_NOTIF,  SECCOMP_RET_TRACE,
		SECCOMP_RET_LOG,
	};
	struct sock_filter one[] = { ALLOW };

	cr_assert(ALLOWS(one, SYS_read, RSK_FILTER_ANY, 0));
	cr_assert_null(rsk_filter_denies(one, 1));
	for (size_t i = 0; i < COUNT(others); i++) {
		one[0].k = others[i];
		cr_assert(!ALLOWS(one, SYS_read, RSK_FILTER_ANY, 0), "%#x", others[i]);
		cr_assert_not_null(rsk_filter_denies(one, 1));
	}
}

Test(syscall_filter, one_call_denied)
{
	struct sock_filter code[] = { LOAD(AT(nr)), IF_EQ(SYS_eventfd2, 0, 1), DENY, ALLOW };
	const struct rsk_filter_call *denied = rsk_filter_denies(code, COUNT(code));

	cr_assert_not_null(denied);
	cr_assert_eq(denied->nr, SYS_eventfd2);
	code[1].k = SYS_reboot;
	cr_assert_null(rsk_filter_denies(code, COUNT(code)));
}

Test(syscall_filter, another_architecture)
{
	struct sock_filter code[] = { LOAD(AT(arch)), IF_EQ(AUDIT_ARCH_I386, 0, 1), DENY, ALLOW };

	cr_assert_null(rsk_filter_denies(code, COUNT(code)));
}

/* What depends on what is not known has to be allowed either way. */
Test(syscall_filter, unknown_words)
{
	static const uint32_t words[] = { AT(instruction_pointer), AT(instruction_pointer) + 4,
					  ARG(0), ARG(1), ARG(5) + 4 };

	for (size_t i = 0; i < COUNT(words); i++) {
		struct sock_filter code[] = { LOAD(words[i]), IF_EQ(7, 0, 1), DENY, ALLOW };

		cr_assert(!ALLOWS(code, SYS_read, RSK_FILTER_ANY, 0), "%u", words[i]);
		cr_assert(!ALLOWS(code, SYS_read, 2, 7), "%u", words[i]);
		code[2] = (struct sock_filter)ALLOW;
		cr_assert(ALLOWS(code, SYS_read, RSK_FILTER_ANY, 0), "%u", words[i]);
	}
}

Test(syscall_filter, known_argument)
{
	struct sock_filter low[] = { LOAD(ARG(1)), IF_EQ(7, 0, 1), DENY, ALLOW };
	struct sock_filter high[] = { LOAD(ARG(1) + 4), IF_EQ(3, 0, 1), DENY, ALLOW };

	cr_assert(!ALLOWS(low, SYS_ioctl, 1, 7));
	cr_assert(ALLOWS(low, SYS_ioctl, 1, 8));
	cr_assert(ALLOWS(low, SYS_ioctl, 1, 7ull << 32));
	cr_assert(!ALLOWS(low, SYS_ioctl, 0, 8));
	cr_assert(!ALLOWS(high, SYS_ioctl, 1, 3ull << 32));
	cr_assert(ALLOWS(high, SYS_ioctl, 1, 3));
}

/* Two paths meet with different values. */
Test(syscall_filter, joined)
{
	struct sock_filter code[] = {
		LOAD(ARG(0)),
		IF_EQ(1, 0, 2),
		BPF_STMT(BPF_LD | BPF_IMM, 5),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		BPF_STMT(BPF_LD | BPF_IMM, 6),
		IF_EQ(6, 0, 1),
		DENY,
		ALLOW,
	};

	cr_assert(!ALLOWS(code, SYS_read, RSK_FILTER_ANY, 0));
	cr_assert(ALLOWS(code, SYS_read, 0, 1));
	cr_assert(!ALLOWS(code, SYS_read, 0, 2));
}

/* The kernel ends a filter that divides by 0, with "kill". */
Test(syscall_filter, division)
{
	struct sock_filter code[] = {
		LOAD(ARG(1)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
		ALLOW,
	};

	cr_assert(!ALLOWS(code, SYS_read, RSK_FILTER_ANY, 0));
	cr_assert(!ALLOWS(code, SYS_read, 1, 0));
	cr_assert(ALLOWS(code, SYS_read, 1, 2));
}

/* The kernel refuses these; nothing beyond the end is read. */
Test(syscall_filter, no_filter)
{
	struct sock_filter *edge, codes[] = {
		LOAD(AT(nr)),
		BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0),
		BPF_JUMP(BPF_JMP | BPF_JA, UINT32_MAX, 0, 0),
		IF_EQ(0, 0, 0),
		IF_EQ(1, 255, 255),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_STMT(BPF_RET | BPF_X, 0),
		{ 0xffff, 0, 0, 0 },
	};
	long page = sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(two, MAP_FAILED);
	cr_assert_eq(mprotect(two + page, (size_t)page, PROT_NONE), 0);
	edge = (struct sock_filter *)(void *)(two + page) - 1;
	for (size_t i = 0; i < COUNT(codes); i++) {
		*edge = codes[i];
		cr_assert_not_null(rsk_filter_denies(edge, 1), "%zu", i);
	}
	cr_assert_not_null(rsk_filter_denies(edge, 0));
	cr_assert_not_null(rsk_filter_denies(edge, BPF_MAXINSNS + 1));
}

/* ---- random filters ---- */

#define PROGRAMS 1500
#define BODY 24
#define HEAD 2 /* other calls than getpid() are let through */
#define TRIES 40

static uint32_t below(uint32_t n)
{
	return (uint32_t)random() % n;
}

static struct sock_filter random_load(bool exact, int index)
{
	static const uint32_t words[] = { AT(nr), AT(arch),   AT(instruction_pointer),
					  ARG(0), ARG(0) + 4, ARG(1),
					  ARG(2), ARG(3) + 4 };
	uint32_t known[] = { AT(nr), AT(arch), ARG(index), ARG(index) + 4 };

	return (struct sock_filter)LOAD(exact ? known[below(COUNT(known))] :
						words[below(COUNT(words))]);
}

/* An instruction that is not the last; @left: those behind it. */
static struct sock_filter random_step(bool exact, int index, uint32_t left)
{
	static const uint16_t ops[] = { BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,
					BPF_AND, BPF_XOR, BPF_LSH, BPF_RSH };
	static const uint16_t jumps[] = { BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET };
	static const uint16_t sources[] = { BPF_K, BPF_X };
	uint32_t k = below(8) ? below(4) : (uint32_t)random();
	uint16_t op = ops[below(COUNT(ops))], source = sources[below(2)];

	switch (below(exact ? 9 : 11)) {
	case 0:
	case 1:
		return random_load(exact, index);
	case 2:
		if (source == BPF_X && (op == BPF_LSH || op == BPF_RSH || op == BPF_DIV))
			source = BPF_K;
		if (op == BPF_LSH || op == BPF_RSH)
			k %= 32;
		return (struct sock_filter)BPF_STMT(BPF_ALU | op | source,
						    op == BPF_DIV && !k ? 1 : k);
	case 3:
		return (struct sock_filter)BPF_STMT(BPF_ALU | BPF_NEG, 0);
	case 4:
		return (struct sock_filter)BPF_STMT(BPF_LDX | BPF_IMM, k);
	case 5:
		return (struct sock_filter)BPF_STMT(below(2) ? BPF_MISC | BPF_TAX :
							       BPF_MISC | BPF_TXA,
						    0);
	case 6:
		return (struct sock_filter)BPF_STMT(below(2) ? BPF_LD | BPF_IMM :
							       BPF_LD | BPF_W | BPF_LEN,
						    k);
	case 7:
	case 8:
		return (struct sock_filter)BPF_JUMP(BPF_JMP | jumps[below(COUNT(jumps))] | source,
						    k, (uint8_t)below(left), (uint8_t)below(left));
	case 9:
		return (struct sock_filter)BPF_STMT(below(2) ? BPF_ST : BPF_STX, below(2));
	default: /* the kernel refuses a load from where nothing was stored */
		return (struct sock_filter)BPF_STMT(below(2) ? BPF_LD | BPF_MEM : BPF_LDX | BPF_MEM,
						    below(2));
	}
}

static void random_filter(struct sock_filter code[static HEAD + BODY + 2], bool exact, int index)
{
	code[0] = (struct sock_filter)LOAD(AT(nr));
	code[1] = (struct sock_filter)IF_EQ(SYS_getpid, 0, BODY + 1);
	for (uint32_t i = 0; i < BODY; i++)
		code[HEAD + i] = random_step(exact, index, BODY + 1 - i);
	code[HEAD + BODY] = (struct sock_filter)DENY;
	code[HEAD + BODY + 1] = (struct sock_filter)ALLOW;
}

enum {
	ALL_ALLOWED,
	SOME_DENIED,
	NOT_TAKEN
};

/* What the kernel says of getpid(), whose arguments nobody looks at but the filter. */
static int kernels(struct sock_filter *code, size_t n, const struct rsk_filter_call *call)
{
	struct sock_fprog prog = { (unsigned short)n, code };
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
			_exit(NOT_TAKEN);
		for (int i = 0; i < TRIES; i++) {
			long a[6];

			for (int j = 0; j < 6; j++)
				a[j] = below(2) ? (long)below(4) :
						  (long)below(4) << 32 | (long)random();
			a[call->index] = (long)call->value;
			if (syscall(SYS_getpid, a[0], a[1], a[2], a[3], a[4], a[5]) < 0)
				_exit(SOME_DENIED);
		}
		_exit(ALL_ALLOWED);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * A filter that looks only at what is known is judged exactly as the kernel does; any other one is
 * never said to let the call through where the kernel does not.
 */
static void against_kernel(bool exact, unsigned int seed)
{
	struct sock_filter code[HEAD + BODY + 2];
	int said[2] = { 0 };

	srandom(seed);
	for (int i = 0; i < PROGRAMS; i++) {
		struct rsk_filter_call call = { SYS_getpid, (int32_t)below(4), below(4) };
		bool allowed;
		int truth;

		random_filter(code, exact, call.index);
		if (below(2))
			call.value |= (uint64_t)random() << 32;
		truth = kernels(code, COUNT(code), &call);
		if (truth == NOT_TAKEN)
			continue;
		allowed = rsk_filter_allows(code, COUNT(code), &call, room);
		said[allowed]++;
		cr_assert(!allowed || truth == ALL_ALLOWED, "seed %u, filter %d", seed, i);
		cr_assert(!exact || allowed == (truth == ALL_ALLOWED), "seed %u, filter %d", seed,
			  i);
	}
	cr_assert(said[0] > PROGRAMS / 20 && said[1] > PROGRAMS / 20, "%d %d", said[0], said[1]);
}

Test(syscall_filter, known_words_against_the_kernel, .timeout = 60)
{
	against_kernel(true, 1);
}

Test(syscall_filter, all_words_against_the_kernel, .timeout = 60)
{
	against_kernel(false, 2);
}
