/* The hook of -mprofile-kernel: called by the second instruction of a function, which has its
   return address in r0 and nowhere else. The hook keeps the arguments and puts it back. */
        .text
        .globl  _mcount
        .type   _mcount, @function
_mcount:
        std     0, 16(1)
        stdu    1, -128(1)
        std     3, 32(1)
        std     4, 40(1)
        std     5, 48(1)
        std     6, 56(1)
        std     7, 64(1)
        std     8, 72(1)
        std     9, 80(1)
        std     10, 88(1)
        std     11, 96(1)
        std     2, 104(1)
        mflr    3
        std     3, 112(1)
        bl      count_hook
        nop
        ld      0, 112(1)
        mtctr   0
        ld      0, 144(1)
        mtlr    0
        ld      3, 32(1)
        ld      4, 40(1)
        ld      5, 48(1)
        ld      6, 56(1)
        ld      7, 64(1)
        ld      8, 72(1)
        ld      9, 80(1)
        ld      10, 88(1)
        ld      11, 96(1)
        ld      2, 104(1)
        addi    1, 1, 128
        bctr
        .section .note.GNU-stack, "", @progbits
