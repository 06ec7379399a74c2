/* Start, end and system calls of 32-bit SPARC Linux. */
        .text
        .globl  _start, raw_call
_start:
        sub     %sp, 96, %sp
        call    main
        nop
        mov     1, %g1
        ta      0x10
raw_call:
        mov     %o0, %g1
        mov     %o1, %o0
        mov     %o2, %o1
        mov     %o3, %o2
        ta      0x10
        retl
        nop
        .section .note.GNU-stack, "", @progbits
