/* What a thread has, on every processor. */

/* What a thread without a block has. */
    .section .bss.mcount_inside, "aw", %nobits
    .globl mcount_inside_nobody
    .hidden mcount_inside_nobody
    .balign 64
mcount_inside_nobody:
    .skip 128

    .section .tdata.mcount_inside, "awT", %progbits
    .globl mcount_inside_block
    .hidden mcount_inside_block
    .type mcount_inside_block, %object
    .balign 8
mcount_inside_block:
    .dc.a mcount_inside_nobody
    .size mcount_inside_block, . - mcount_inside_block

/* What the library knows of a thread: zeroes at first. */
    .section .tbss.mcount_inside, "awT", %nobits
    .globl mcount_inside_thread
    .hidden mcount_inside_thread
    .type mcount_inside_thread, %object
    .balign 64
mcount_inside_thread:
    .skip 64
    .size mcount_inside_thread, 64
    .text
