/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vfork.S - vfork(), which cannot be written in C.
 *
 * The child runs on the parent's stack while the parent waits, and overwrites the stack below the
 * caller's frame: so no value may be kept there. The return address stays in a register that the
 * system call leaves alone. rsk_direct (thread-local, and the child's too) is incremented before,
 * and decremented in the parent only: between the two the child's hooks go straight to the kernel.
 * Work that has to be done before there is a child is in C (rsk_vfork_before()).
 */
#if defined(__x86_64__)

	.text
	.globl	vfork
	.globl	__vfork
	.type	vfork, @function
	.type	__vfork, @function
	.p2align 4
vfork:
__vfork:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	rsk_vfork_before
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	movq	rsk_direct@gottpoff(%rip), %rsi
	incl	%fs:(%rsi)
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movl	$58, %eax		/* SYS_vfork; clobbers rax, rcx and r11 only */
	syscall
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	testl	%eax, %eax
	jz	1f
	decl	%fs:(%rsi)
	cmpl	$-4095, %eax
	jae	2f
1:	ret
2:	movl	%eax, %edi
	jmp	rsk_vfork_failed
	.cfi_endproc
	.size	vfork, . - vfork
	.size	__vfork, . - __vfork

#elif defined(__aarch64__)

	.text
	.globl	vfork
	.globl	__vfork
	.type	vfork, %function
	.type	__vfork, %function
	.p2align 4
vfork:
__vfork:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	bl	rsk_vfork_before
	ldp	x29, x30, [sp], #16
	.cfi_adjust_cfa_offset -16
	.cfi_restore x29
	.cfi_restore x30
	adrp	x9, :gottprel:rsk_direct
	ldr	x9, [x9, #:gottprel_lo12:rsk_direct]
	mrs	x10, tpidr_el0
	add	x9, x9, x10
	ldr	w11, [x9]
	add	w11, w11, #1
	str	w11, [x9]
	mov	x0, #0x4111		/* CLONE_VFORK | CLONE_VM | SIGCHLD */
	mov	x1, xzr			/* the parent's stack; the return address is in x30 */
	mov	x2, xzr
	mov	x3, xzr
	mov	x4, xzr
	mov	x8, #220		/* SYS_clone; clobbers x0 only */
	svc	#0
	cbz	x0, 1f
	ldr	w11, [x9]
	sub	w11, w11, #1
	str	w11, [x9]
	cmn	x0, #4095
	b.cs	rsk_vfork_failed
1:	ret
	.cfi_endproc
	.size	vfork, . - vfork
	.size	__vfork, . - __vfork

#else
#error "vfork.S knows x86-64 and aarch64 only"
#endif

	.section .note.GNU-stack, "", %progbits
