/* Start, end and system calls of SuperH Linux. */
        .text
        .globl  _start, raw_call
        .align  2
_start:
        mov.l   1f, r0
        jsr     @r0
        nop
        mov     r0, r4
        mov     #1, r3
        trapa   #0x11
raw_call:
        mov     r4, r3
        mov     r5, r4
        mov     r6, r5
        mov     r7, r6
        trapa   #0x13
        rts
        nop
        .align  2
1:      .long   main
        .section .note.GNU-stack, "", @progbits
