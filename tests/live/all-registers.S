/* LoongArch: calls a function with everything in registers that can be there, and keeps what it finds. Only $t0 to $t3 may change
 * on the way, at the entry and at the return. Vector instructions are numbers, for assemblers that know no such processor. */

/* Of struct all. */
#define FLAGS 256
#define VECTORS 264

    .macro EACH_OF do, base, list:vararg
    .irp n, \list
    \do $r\n, \base, 8 * \n
    .endr
    .endm
    .macro EACH_VECTOR opcode, base, first
    .set INDEX, 0
    .rept 32
    .4byte \opcode | (\first + INDEX * 32) << 10 | \base << 5 | INDEX
    .set INDEX, INDEX + 1
    .endr
    .endm

/* By what the processor has; the address is in $t0. */
    .macro VECTORS_OF name, half, whole
\name:
    la.pcrel $t1, has_wide
    ld.w $t1, $t1, 0
    bnez $t1, 1f
    EACH_VECTOR \half, 12, VECTORS
    ret
1:  EACH_VECTOR \whole, 12, VECTORS
    ret
    .endm

    .text
    VECTORS_OF load_vectors, 0x2c000000, 0x2c800000
    VECTORS_OF store_vectors, 0x2c400000, 0x2cc00000

/* What is called: everything is as it was given. It returns something else in everything, but for what functions keep. */
    .globl body
    .type body, %function
    .balign 16
body:
    nop
    nop
    move $t3, $ra
    la.pcrel $t0, inside
    EACH_OF st.d, $t0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movfcsr2gr $t1, $fcsr0
    st.d $t1, $t0, FLAGS
    bl store_vectors
    la.pcrel $t0, returned
    bl load_vectors
    ld.d $t1, $t0, FLAGS
    movgr2fcsr $fcsr0, $t1
    EACH_OF ld.d, $t0, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20
    jr $t3
    .size body, . - body
    .section __patchable_function_entries, "awo", %progbits, .text
    .balign 8
    .quad body
    .text

/* Calls it. */
    .globl call_body
    .type call_body, %function
    .balign 16
call_body:
    addi.d $sp, $sp, -160
    st.d $ra, $sp, 152
    .irp n, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    st.d $r\n, $sp, 8 * (\n - 22)
    .endr
    .irp n, 24, 25, 26, 27, 28, 29, 30, 31
    fst.d $f\n, $sp, 8 * (\n - 14)
    .endr
    la.pcrel $t0, given
    st.d $sp, $t0, 24
    bl load_vectors
    ld.d $t1, $t0, FLAGS
    movgr2fcsr $fcsr0, $t1
    EACH_OF ld.d, $t0, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    bl body
    la.pcrel $t0, after
    EACH_OF st.d, $t0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movfcsr2gr $t1, $fcsr0
    st.d $t1, $t0, FLAGS
    bl store_vectors
    movgr2fcsr $fcsr0, $zero
    .irp n, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld.d $r\n, $sp, 8 * (\n - 22)
    .endr
    .irp n, 24, 25, 26, 27, 28, 29, 30, 31
    fld.d $f\n, $sp, 8 * (\n - 14)
    .endr
    ld.d $ra, $sp, 152
    addi.d $sp, $sp, 160
    ret
    .size call_body, . - call_body

/* Whatever a function may change, this one does: of $f24 to $f31, all but the first 64 bits. */
    .globl spoil
    .type spoil, %function
spoil:
    move $t3, $ra
    la.pcrel $t0, spoilt
    .irp n, 24, 25, 26, 27, 28, 29, 30, 31
    fst.d $f\n, $t0, VECTORS + 32 * \n
    .endr
    bl load_vectors
    ld.d $t1, $t0, FLAGS
    movgr2fcsr $fcsr2, $t1
    move $ra, $t3
    EACH_OF ld.d, $t0, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 12
    li.d $t1, -1
    li.d $t2, -1
    li.d $t3, -1
    ret
    .size spoil, . - spoil
    .section .note.GNU-stack, "", %progbits
