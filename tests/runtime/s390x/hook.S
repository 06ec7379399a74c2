/* The hooks of s390x. _mcount, which clang calls mcount, is called with r14, which the function has
   saved; __fentry__ with r0, so that r14 is still the function's own. Both run before the prologue and
   keep every argument. */
        .text
        .globl  mcount, _mcount, __fentry__
        .type   mcount, @function
        .type   _mcount, @function
        .type   __fentry__, @function
mcount:
_mcount:
        lgr     %r0, %r14
__fentry__:
        lgr     %r1, %r15
        aghi    %r15, -216
        stg     %r1, 0(%r15)
        stmg    %r2, %r6, 160(%r15)
        stg     %r14, 200(%r15)
        stg     %r0, 208(%r15)
        lgr     %r2, %r0
        brasl   %r14, count_hook
        lmg     %r2, %r6, 160(%r15)
        lg      %r14, 200(%r15)
        lg      %r1, 208(%r15)
        aghi    %r15, 216
        br      %r1
        .section .note.GNU-stack, "", @progbits
