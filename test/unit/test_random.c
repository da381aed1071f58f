// SPDX-License-Identifier: BSD-2-Clause
/* test_random.c - tests random numbers, and what is done where the kernel gives none. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <rsock/reason.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "epollset.h"
#include "process.h"

/* As a sandbox does that does not know the system call. */
static void no_getrandom(uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(random, differs)
{
	uint64_t a = rsk_random64(), b = rsk_random64();

	cr_assert(a && b && a != b);
	cr_assert_eq(atomic_load(&rsk_stopped), 0);
	cr_assert_not_null(rsk_epoll_family());
}

/* No call may wait for a number that never comes; without one no stream is paired any more. */
Test(random, refused, .timeout = 10)
{
	uint64_t a, b;

	no_getrandom(SECCOMP_RET_ERRNO | EPERM);
	a = rsk_random64();
	b = rsk_random64();
	cr_assert(a && b && a != b);
	cr_assert_eq(atomic_load(&rsk_stopped), RSK_REASON_UNSUPPORTED);
}

Test(random, unknown_to_the_kernel, .timeout = 10)
{
	no_getrandom(SECCOMP_RET_ERRNO | ENOSYS);
	cr_assert_null(rsk_epoll_family());
	cr_assert_eq(atomic_load(&rsk_stopped), RSK_REASON_UNSUPPORTED);
}
