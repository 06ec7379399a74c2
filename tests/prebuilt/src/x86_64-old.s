# Calls in the relocations of an older assembler (R_X86_64_PC32), and references that only look like calls.

	.text
	.globl	old_global
	.type	old_global, @function
old_global:
	.byte	0xe8			# call, as gas before 2.31 relocated it
	.long	__fentry__ - . - 4
	movl	%edi, %eax
	ret
	.size	old_global, .-old_global

	.type	old_static, @function
old_static:
	.byte	0xe8
	.long	mcount - . - 4
	ret
	.size	old_static, .-old_static

# References that are no calls, each with a relocation type that a call may have.
	.globl	old_address
	.type	old_address, @function
old_address:
	leaq	__fentry__(%rip), %rax
	movq	__fentry__@GOTPCREL(%rip), %rdx
	cmpq	%rdx, mcount@GOTPCREL(%rip)
	pushq	__fentry__@GOTPCREL(%rip)
	ret
	.size	old_address, .-old_address

# A jump to the hook is no call: nothing comes back to the function.
	.globl	old_jump
	.type	old_jump, @function
old_jump:
	jmp	__fentry__
	.size	old_jump, .-old_jump

	.globl	old_jump_got
	.type	old_jump_got, @function
old_jump_got:
	jmp	*__fentry__@GOTPCREL(%rip)
	.size	old_jump_got, .-old_jump_got

	.section .init.text,"ax",@progbits
	.globl	old_init
	.type	old_init, @function
old_init:
	endbr64
	.byte	0xe8
	.long	__fentry__ - . - 4
	ret
	.size	old_init, .-old_init

	.data
	.quad	__fentry__
	.long	__fentry__ - .
	.section .note.GNU-stack,"",@progbits
