/* Start, end and system calls of 32-bit Arm Linux (EABI). */
        .syntax unified
        .arm
        .text
        .globl  _start, raw_call
        .type   _start, %function
        .type   raw_call, %function
_start:
        bl      main
        mov     r7, #1
        svc     #0
raw_call:
        push    {r7, lr}
        mov     r7, r0
        mov     r0, r1
        mov     r1, r2
        mov     r2, r3
        svc     #0
        pop     {r7, lr}
        bx      lr
        .section .note.GNU-stack, "", %progbits
