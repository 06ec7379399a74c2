# Calls of the first ABI version, whose relocations are a stack machine: R_LARCH_SOP_PUSH_PLT_PCREL of the symbol and a
# pop into the `bl`. No assembler emits them any longer, so they are written with `.reloc`. The `la` of that version
# is marked R_LARCH_MARK_LA on its first instruction: a call only if a `jirl` that links goes there.

	.macro	old_bl symbol
	.reloc	., R_LARCH_SOP_PUSH_PLT_PCREL, \symbol
	.reloc	., R_LARCH_SOP_POP_32_S_0_10_10_16_S2
	bl	0
	.endm

	.macro	old_la register, symbol
	.reloc	., R_LARCH_MARK_LA, \symbol
	.reloc	., R_LARCH_SOP_PUSH_ABSOLUTE, \symbol
	.reloc	., R_LARCH_SOP_POP_32_S_5_20
	lu12i.w	\register, 0
	ori	\register, \register, 0
	lu32i.d	\register, 0
	lu52i.d	\register, \register, 0
	.endm

	.text
	.align	2
	.globl	sample_global
	.type	sample_global, @function
sample_global:
	addi.d	$sp, $sp, -16
	st.d	$ra, $sp, 8
	or	$a0, $ra, $zero
	old_bl	_mcount
	old_bl	outside
	ld.d	$ra, $sp, 8
	addi.d	$sp, $sp, 16
	jr	$ra
	.size	sample_global, .-sample_global

	.type	sample_static, @function
sample_static:
	or	$a0, $ra, $zero
	old_la	$t0, _mcount
	jirl	$ra, $t0, 0
	jr	$ra
	.size	sample_static, .-sample_static

# The address of the hook, in code: no site.
	.globl	hook_address
	.type	hook_address, @function
hook_address:
	old_la	$a0, _mcount
	jr	$ra
	.size	hook_address, .-hook_address

	.section .exit.text,"ax",@progbits
	.align	2
	.globl	sample_exit
	.type	sample_exit, @function
sample_exit:
	or	$a0, $ra, $zero
	old_bl	_mcount
	jr	$ra
	.size	sample_exit, .-sample_exit

	.data
	.align	3
	.dword	_mcount
