/* What a program calls for a marker: it has a hook, as compilers make one. Its instructions are each processor's own. */
    .macro MARK_BEGINS
    .text
    .globl mcount_mark
    .hidden mcount_mark
    .type mcount_mark, %function
    .balign 16
mcount_mark:
    .endm

/* Behind its instructions: where its hook is, in bytes, and how many bytes an address has. */
    .macro MARK_ENDS at, word
    .size mcount_mark, . - mcount_mark
    .section __patchable_function_entries, "awo", %progbits, .text
    .balign \word
    .dc.a mcount_mark + \at
    .text
    .endm
