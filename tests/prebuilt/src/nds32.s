! Calls as gcc emits them (PROFILE_HOOK: the return address is the argument), behind code that the linker's relaxation
! makes shorter: each `la` is two words here and becomes shorter in an image.

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	smw.adm	$sp, [$sp], $sp, 10
	move	$r0, $lp
	jal	_mcount
	la	$r0, near_data
	lwi	$r1, [$r0+0]
	jal	outside
	lmw.bim	$sp, [$sp], $sp, 10
	ret
	.size	sample_global, .-sample_global

	.type	sample_static, @function
sample_static:
	smw.adm	$sp, [$sp], $sp, 10
	la	$r0, near_data
	la	$r2, near_data+4
	move	$r0, $lp
	jal	_mcount
	lmw.bim	$sp, [$sp], $sp, 10
	ret
	.size	sample_static, .-sample_static

	.weak	sample_weak
	.type	sample_weak, @function
sample_weak:
	smw.adm	$sp, [$sp], $sp, 10
	move	$r0, $lp
	jal	_mcount
	lmw.bim	$sp, [$sp], $sp, 10
	ret
	.size	sample_weak, .-sample_weak

! The address of the hook, in code: no site.
	.globl	hook_address
	.type	hook_address, @function
hook_address:
	la	$r0, _mcount
	ret
	.size	hook_address, .-hook_address

	.section .init.text,"ax",@progbits
	.align	2
	.globl	sample_init
	.type	sample_init, @function
sample_init:
	smw.adm	$sp, [$sp], $sp, 10
	la	$r0, near_data
	move	$r0, $lp
	jal	_mcount
	lmw.bim	$sp, [$sp], $sp, 10
	ret
	.size	sample_init, .-sample_init

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	smw.adm	$sp, [$sp], $sp, 10
	move	$r0, $lp
	jal	_mcount
	lmw.bim	$sp, [$sp], $sp, 10
	ret
	.size	sample_exit, .-sample_exit

	.data
	.align	2
	.globl	near_data
near_data:
	.long	1
	.long	2
	.globl	hook_pointer
hook_pointer:
	.long	_mcount
