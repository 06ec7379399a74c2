/* Start, end and system calls of 64-bit Arm Linux. */
        .text
        .globl  _start, raw_call
_start:
        bl      main
        mov     x8, #93
        svc     #0
raw_call:
        mov     x8, x0
        mov     x0, x1
        mov     x1, x2
        mov     x2, x3
        svc     #0
        ret
        .section .note.GNU-stack, "", %progbits
