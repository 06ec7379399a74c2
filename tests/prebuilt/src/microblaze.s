# gcc's call is `brki r16,_mcount`: an absolute one, R_MICROBLAZE_64 on imm + brki. A call that is relative, `brlid` with
# R_MICROBLAZE_64_PCREL, has a delay slot. `addik` of a symbol is imm + addik, which `ld --relax` makes one word.

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
	.ent	sample_global
sample_global:
	brki	r16, _mcount
	addik	r1, r1, -28
	swi	r15, r1, 0
	addik	r5, r0, near_data
	brlid	r15, outside
	nop
	lwi	r15, r1, 0
	rtsd	r15, 8
	addik	r1, r1, 28
	.end	sample_global
	.size	sample_global, .-sample_global

	.type	sample_static, @function
	.ent	sample_static
sample_static:
	addik	r5, r0, near_data
	brki	r16, _mcount
	rtsd	r15, 8
	addik	r3, r5, 7
	.end	sample_static
	.size	sample_static, .-sample_static

	.weak	sample_weak
	.type	sample_weak, @function
	.ent	sample_weak
sample_weak:
	addik	r5, r0, near_data
	addik	r6, r0, near_data
	brlid	r15, _mcount
	nop
	rtsd	r15, 8
	addik	r3, r5, -1
	.end	sample_weak
	.size	sample_weak, .-sample_weak

# The address of the hook, in code, by the relocation of the call: no site.
	.globl	hook_address
	.type	hook_address, @function
	.ent	hook_address
hook_address:
	addik	r3, r0, _mcount
	rtsd	r15, 8
	nop
	.end	hook_address
	.size	hook_address, .-hook_address

	.section .init.text,"ax",@progbits
	.align	2
	.globl	sample_init
	.type	sample_init, @function
	.ent	sample_init
sample_init:
	addik	r5, r0, near_data
	brki	r16, _mcount
	rtsd	r15, 8
	nop
	.end	sample_init
	.size	sample_init, .-sample_init

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
	.ent	sample_exit
sample_exit:
	brlid	r15, _mcount
	nop
	rtsd	r15, 8
	nop
	.end	sample_exit
	.size	sample_exit, .-sample_exit

	.data
	.align	2
	.globl	near_data
near_data:
	.long	1
	.globl	hook_pointer
hook_pointer:
	.long	_mcount
