# Calls as gcc emits them since the relocation types of the second ABI version: `bl %plt(_mcount)` after the prologue,
# with the return address as argument.

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	addi.d	$sp, $sp, -16
	st.d	$ra, $sp, 8
	or	$a0, $ra, $zero
	bl	%plt(_mcount)
	bl	%plt(outside)
	ld.d	$ra, $sp, 8
	addi.d	$sp, $sp, 16
	jr	$ra
	.size	sample_global, .-sample_global

	.type	sample_static, @function
sample_static:
	addi.d	$sp, $sp, -16
	st.d	$ra, $sp, 8
	la.pcrel $t0, near_data
	la.pcrel $t1, near_data
	or	$a0, $ra, $zero
	bl	_mcount
	ld.d	$ra, $sp, 8
	addi.d	$sp, $sp, 16
	jr	$ra
	.size	sample_static, .-sample_static

	.weak	sample_weak
	.type	sample_weak, @function
sample_weak:
	or	$a0, $ra, $zero
	bl	%plt(_mcount)
	jr	$ra
	.size	sample_weak, .-sample_weak

# The address of the hook, in code: no site.
	.globl	hook_address
	.type	hook_address, @function
hook_address:
	la.pcrel $a0, _mcount
	la.got	$a1, _mcount
	jr	$ra
	.size	hook_address, .-hook_address

# A jump to the hook is no call.
	.globl	hook_jump
	.type	hook_jump, @function
hook_jump:
	b	%plt(_mcount)
	.size	hook_jump, .-hook_jump

	.section .init.text,"ax",@progbits
	.align	2
	.globl	sample_init
	.type	sample_init, @function
sample_init:
	or	$a0, $ra, $zero
	bl	%plt(_mcount)
	jr	$ra
	.size	sample_init, .-sample_init

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	or	$a0, $ra, $zero
	bl	%plt(_mcount)
	jr	$ra
	.size	sample_exit, .-sample_exit

	.data
	.align	3
	.globl	near_data
near_data:
	.dword	1
	.globl	hook_pointer
hook_pointer:
	.dword	_mcount
