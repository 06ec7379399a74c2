# A weak function that another one overrode has no name in an image, and the compiler's list still leads to its area of
# NOPs. It is as far behind the start of the function before it as other NOPs are behind the start of `other`.
        .type   before, @function
before: .skip   64, 0xcc
        .size   before, . - before
.Lweak: .skip   5, 0x90
        ret
        .balign 64, 0xcc
        .type   other, @function
other:  .skip   64, 0xcc
        .skip   5, 0x90
        ret
        .size   other, . - other
        .section __patchable_function_entries, "awo", @progbits, .text
        .quad   .Lweak
        .section .note.GNU-stack, "", @progbits
