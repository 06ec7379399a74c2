// What armed hooks call, AArch64. x9: where the function returns to; x30: the function behind its hook.
//
// Only what may have an argument is kept, x0 to x8; a function may change x9 to x17 anyway. x18 is the system's. Vector registers
// aren't touched: this crate is compiled for a target that has none (aarch64-unknown-none-softfloat).

    .text
    .globl hooks_enter
    .type hooks_enter, %function
    .balign 16
hooks_enter:
    stp x29, x9, [sp, #-96]!    // as if the function had called
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    stp x8, x30, [sp, #80]
    sub x0, x30, #8             // the hook
    mov x1, x9
    add x2, sp, #96
    bl hooks_entered            // where the function is to return to
    mov x9, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp x8, x10, [sp, #80]
    ldr x29, [sp], #96
    mov x30, x9
    ret x10                     // `ret`: it needs no landing pad
    .size hooks_enter, . - hooks_enter

// Where traced functions return to. x0 to x8 may have a result.
    .globl hooks_exit
    .type hooks_exit, %function
    .balign 16
hooks_exit:
    sub sp, sp, #96
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    stp x8, x29, [sp, #80]
    add x0, sp, #96
    bl hooks_left               // the true address
    mov x30, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp x8, x29, [sp, #80]
    add sp, sp, #96
    ret
    .size hooks_exit, . - hooks_exit
