# The call of -pg as gcc emitted it when it still had profile counters: a `larl` of the counter stands
# between the `stg` that opens the block and the `brasl`. The recorded address is still that of the `stg`.

	.text
	.globl	larl_global
	.type	larl_global, @function
larl_global:
	stg	%r14,8(%r15)
	larl	%r1,.LP0
	brasl	%r14,_mcount@PLT
	lg	%r14,8(%r15)
	ahi	%r2,1
	br	%r14
	.size	larl_global, .-larl_global

	.type	larl_static, @function
larl_static:
	stg	%r14,8(%r15)
	larl	%r1,.LP1
	brasl	%r14,_mcount		# not through the PLT: R_390_PC32DBL
	lg	%r14,8(%r15)
	br	%r14
	.size	larl_static, .-larl_static

# The address of the hook by the relocation of the call: no site.
	.globl	larl_address
	.type	larl_address, @function
larl_address:
	larl	%r2,_mcount@PLT
	br	%r14
	.size	larl_address, .-larl_address

	.section .exit.text,"ax",@progbits
	.globl	larl_exit
	.type	larl_exit, @function
larl_exit:
	stg	%r14,8(%r15)
	larl	%r1,.LP0
	brasl	%r14,_mcount@PLT
	lg	%r14,8(%r15)
	br	%r14
	.size	larl_exit, .-larl_exit

	.data
	.align 8
.LP0:	.quad 0
.LP1:	.quad 0
	.quad	_mcount
	.section .note.GNU-stack,"",@progbits
