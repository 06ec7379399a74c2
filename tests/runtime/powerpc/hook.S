/* The hook of 32-bit PowerPC: the function has stored its return address in its caller's frame,
   and no argument register yet. The hook keeps all of them, and the condition register. */
        .text
        .globl  _mcount
        .type   _mcount, @function
_mcount:
        stwu    1, -80(1)
        stw     3, 16(1)
        stw     4, 20(1)
        stw     5, 24(1)
        stw     6, 28(1)
        stw     7, 32(1)
        stw     8, 36(1)
        stw     9, 40(1)
        stw     10, 44(1)
        stw     11, 48(1)
        mfcr    0
        stw     0, 52(1)
        mflr    3
        stw     3, 56(1)
        bl      count_hook
        lwz     0, 84(1)
        mtlr    0
        lwz     0, 56(1)
        mtctr   0
        lwz     0, 52(1)
        mtcr    0
        lwz     3, 16(1)
        lwz     4, 20(1)
        lwz     5, 24(1)
        lwz     6, 28(1)
        lwz     7, 32(1)
        lwz     8, 36(1)
        lwz     9, 40(1)
        lwz     10, 44(1)
        lwz     11, 48(1)
        addi    1, 1, 80
        bctr
        .section .note.GNU-stack, "", @progbits
