# A function with a hook that is a NOP, as -mnop-mcount -mfentry -mrecord-mcount makes it, and the same NOP where kernels
# have what they copy over other instructions (.altinstr_replacement). That one is no hook.

	.text
	.globl	traced
	.type	traced, @function
traced:
1:	brcl	0, .
	br	%r14
	.size	traced, .-traced

	.section .altinstr_replacement, "ax"
	brcl	0, .
	br	%r14

	.section __mcount_loc, "a", @progbits
	.quad	1b
