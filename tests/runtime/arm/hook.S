/* The hook of 32-bit Arm: the function has pushed its own return address, which the hook pops and
   restores. It keeps r0 to r3; the caller may be Arm or Thumb code. */
        .syntax unified
        .arm
        .text
        .globl  __gnu_mcount_nc
        .type   __gnu_mcount_nc, %function
__gnu_mcount_nc:
        push    {r0, r1, r2, r3, ip, lr}
        mov     r0, lr
        bl      count_hook
        pop     {r0, r1, r2, r3, ip, lr}
        mov     ip, lr
        pop     {lr}
        bx      ip
        .section .note.GNU-stack, "", %progbits
