# Calls as gcc emits them: `push lr; jbsr _mcount` after the prologue. A `jbsr` becomes a `jsri` with a literal, or a
# `bsr`, by the options of the assembler. `lrw` is what relaxation and literal pools are about.

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	push	l0, lr
	push	lr
	jbsr	_mcount
	lrw	a0, near_data
	ld.w	a1, (a0, 0)
	jbsr	outside
	pop	l0, lr
	.size	sample_global, .-sample_global

	.type	sample_static, @function
sample_static:
	push	lr
	jbsr	_mcount
	addi	a0, 7
	rts
	.size	sample_static, .-sample_static

	.weak	sample_weak
	.type	sample_weak, @function
sample_weak:
	push	lr
	jbsr	_mcount
	subi	a0, 1
	rts
	.size	sample_weak, .-sample_weak

# The address of the hook, in code: no site, and its literal is like that of a `jsri`.
	.globl	hook_address
	.type	hook_address, @function
hook_address:
	lrw	a0, _mcount
	rts
	.size	hook_address, .-hook_address

	.section .init.text,"ax",@progbits
	.align	2
	.globl	sample_init
	.type	sample_init, @function
sample_init:
	push	l0, lr
	push	lr
	jbsr	_mcount
	jbsr	outside
	pop	l0, lr
	.size	sample_init, .-sample_init

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	push	lr
	jbsr	_mcount
	rts
	.size	sample_exit, .-sample_exit

	.data
	.align	2
	.globl	near_data
near_data:
	.long	1
	.globl	hook_pointer
hook_pointer:
	.long	_mcount
