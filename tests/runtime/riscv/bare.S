/* Start, end and system calls of RISC-V Linux. */
        .text
        .globl  _start, raw_call
_start:
        .option push
        .option norelax
        la      gp, __global_pointer$
        .option pop
        call    main
        li      a7, 93
        ecall
raw_call:
        mv      a7, a0
        mv      a0, a1
        mv      a1, a2
        mv      a2, a3
        ecall
        ret
        .section .note.GNU-stack, "", @progbits
