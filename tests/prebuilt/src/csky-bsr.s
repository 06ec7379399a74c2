# The relative call `bsr`, which gcc emits for near code.

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	push	l0, lr
	push	lr
	bsr	_mcount
	bsr	outside
	pop	l0, lr
	.size	sample_global, .-sample_global

	.type	sample_static, @function
sample_static:
	push	lr
	bsr	_mcount
	rts
	.size	sample_static, .-sample_static

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	push	lr
	bsr	_mcount
	rts
	.size	sample_exit, .-sample_exit
