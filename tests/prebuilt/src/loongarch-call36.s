# Calls of the medium code model: `call36`, a pcaddu18i and a jirl with one relocation, R_LARCH_CALL36, which the linker
# may relax to one `bl`. The `la.pcrel` before a call and the alignment are relaxed too.

	.text
	.p2align 2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	addi.d	$sp, $sp, -16
	st.d	$ra, $sp, 8
	move	$a0, $ra
	pcaddu18i $ra, %call36(_mcount)
	jirl	$ra, $ra, 0
	pcaddu18i $ra, %call36(outside)
	jirl	$ra, $ra, 0
	ld.d	$ra, $sp, 8
	addi.d	$sp, $sp, 16
	ret
	.size	sample_global, .-sample_global

	.p2align 4
	.type	sample_static, @function
sample_static:
	la.pcrel $t0, near_data
	move	$a0, $ra
	pcaddu18i $ra, %call36(_mcount)
	jirl	$ra, $ra, 0
	ret
	.size	sample_static, .-sample_static

	.p2align 4
	.weak	sample_weak
	.type	sample_weak, @function
sample_weak:
	move	$a0, $ra
	bl	_mcount
	ret
	.size	sample_weak, .-sample_weak

# A tail call has the relocation of a call, and is none: its `jr` does not link.
	.globl	hook_jump
	.type	hook_jump, @function
hook_jump:
	pcaddu18i $t0, %call36(_mcount)
	jr	$t0
	.size	hook_jump, .-hook_jump

	.section .init.text,"ax",@progbits
	.p2align 2
	.globl	sample_init
	.type	sample_init, @function
sample_init:
	pcaddu18i $ra, %call36(_mcount)
	jirl	$ra, $ra, 0
	ret
	.size	sample_init, .-sample_init

	.section .exit.text,"ax",@progbits
	.p2align 2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	pcaddu18i $ra, %call36(_mcount)
	jirl	$ra, $ra, 0
	ret
	.size	sample_exit, .-sample_exit

	.data
	.p2align 3
	.globl	near_data
near_data:
	.dword	1
	.globl	hook_pointer
hook_pointer:
	.dword	_mcount
