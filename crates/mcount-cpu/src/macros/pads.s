/* Pads: where functions return to whose slot another frame has, too (`pads.rs` of `mcount-recorder`). A page of pads has a page of
 * words, with their callers' addresses, and begins with the distance between the two. A function returns to the first instruction
 * of a pad, which leaves an address in the pad in the register of return addresses, or where calls do that in the slot.
 *
 * A processor says what a pad is (PAD), and has unwind information in BEGIN_PADS and END_PADS. */

    .macro PADS personality
    .text
    .balign 4096
    .globl mcount_pads
    .hidden mcount_pads
    .type mcount_pads, %function
mcount_pads:
    BEGIN_PADS \personality
    .rept {pad_pages}
    .dc.a mcount_pad_words - mcount_pads
    .balign {pad_size}
    .rept 4096 / {pad_size} - 1
    PAD
    .balign {pad_size}
    .endr
    .endr
    END_PADS
    .size mcount_pads, . - mcount_pads
    .globl mcount_pads_end
    .hidden mcount_pads_end
mcount_pads_end:

    .bss
    .globl mcount_pad_words
    .hidden mcount_pad_words
    .type mcount_pad_words, %object
    .balign 4096
mcount_pad_words:
    .skip 4096 * {pad_pages}
    .size mcount_pad_words, . - mcount_pad_words
    .text
    .endm
