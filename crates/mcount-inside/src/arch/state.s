# Keeping all vector and x87 state, for the macros that follow in other files.

    .set INSIDE, 1
    # x87, SSE, AVX, and the three parts of AVX-512.
    .set STATE, 0xe7

# By XSAVE to the stack pointer, which is aligned to 64. Changes %rax and %rdx.
    .macro BY_XSAVE_TO
    xorl %eax, %eax
    movq %rax, 512(%rsp)
    movq %rax, 520(%rsp)
    movq %rax, 528(%rsp)
    movq %rax, 536(%rsp)
    movq %rax, 544(%rsp)
    movq %rax, 552(%rsp)
    movq %rax, 560(%rsp)
    movq %rax, 568(%rsp)
    movl $STATE, %eax
    xorl %edx, %edx
    xsave64 (%rsp)
    .endm
    .macro BY_XSAVE_FROM
    movl $STATE, %eax
    xorl %edx, %edx
    xrstor64 (%rsp)
    .endm

# For the slow paths of traced calls, which `call.s` of `mcount-cpu` has: this library may have been compiled for a
# processor with AVX.
    .macro KEEP_STATE
    movq {area}(%rip), %rax
    testq %rax, %rax
    jz 8f
    subq %rax, %rsp
    andq $-64, %rsp
    BY_XSAVE_TO
    jmp 9f
8:  subq $512, %rsp
    andq $-64, %rsp
    fxsave64 (%rsp)
9:
    .endm
    .macro RESTORE_STATE
    movq %rax, %r8
    cmpq $0, {area}(%rip)
    je 8f
    BY_XSAVE_FROM
    jmp 9f
8:  fxrstor64 (%rsp)
9:  movq %r8, %rax
    .endm
