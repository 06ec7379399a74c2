/* The hook of SuperH: entered by a jump, with the function's own return address pushed and pr at
   the instruction that pops it. It keeps the arguments and the result registers. */
        .text
        .globl  mcount
        .type   mcount, @function
        .align  2
mcount:
        sts.l   pr, @-r15
        mov.l   r1, @-r15
        mov.l   r2, @-r15
        mov.l   r3, @-r15
        mov.l   r4, @-r15
        mov.l   r5, @-r15
        mov.l   r6, @-r15
        mov.l   r7, @-r15
        sts     pr, r4
        mov.l   1f, r0
        bsrf    r0
        nop
0:      mov.l   @r15+, r7
        mov.l   @r15+, r6
        mov.l   @r15+, r5
        mov.l   @r15+, r4
        mov.l   @r15+, r3
        mov.l   @r15+, r2
        mov.l   @r15+, r1
        lds.l   @r15+, pr
        rts
        nop
        .align  2
1:      .long   count_hook - 0b
        .section .note.GNU-stack, "", @progbits
