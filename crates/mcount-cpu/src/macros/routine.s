/* Where a routine begins, which only this library or agent knows of, and where it ends. */

    .macro BEGIN name
    .text
    .globl \name
    .hidden \name
    .type \name, %function
    .balign 64
\name:
    .cfi_startproc
    .endm

    .macro FINISH name
    .cfi_endproc
    .size \name, . - \name
    .endm
