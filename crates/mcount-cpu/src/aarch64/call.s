// Traced calls, AArch64: macros, for the agent's routines (`mcount-agent`) and for those of a library that programs are linked
// with (`crates/mcount-inside`).
//
// The stub of an armed site jumps here by x17, with the address of the site's record in x16. x30 is the caller's address, and the
// stack pointer that of the caller. The *slot* is the word below it. While a call is watched, x30 has an address in here, and the
// true one is in the shadow of the stack, RET = slot ^ 2^46. Functions that sign x30 (paciasp) do so behind their hook, so they
// sign what it is then.
//
// A function is called by `blr`, not by a changed x30 and a jump: so its return is one that the processor has predicted,
// and so is the return to the caller. What is called is a part of the stub, which isn't a guarded page (BTI), and
// leads on by a direct branch. Where one is needed, routines begin with a landing pad (hint 34: bti c).
//
// At the entry of a function with a hook, all registers are kept but x16, x17 and the flags: a function may have any calling convention
// that leaves those to the linker. A function that has a probe may have any other, so everything is kept there, and wherever functions
// return to. Of vector registers longer than q0 (SVE), so much is kept as q0 has.

    // More registers of a call.
    .set CALL_X29, 72

// Unwinders find the caller's address in RET: CFA-8 ^ 2^46.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x1e,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    .endm

// Keeps all general registers and the flags: x19 is a call then, x29 the frame, and the word above what x29 leads to is the slot. With
// `link`, x30 is the address of whom to return to.
    .macro KEEP link
    sub sp, sp, #KEPT
    .cfi_def_cfa_offset KEPT
    stp x16, x17, [sp]
    KEEP_REST \link
    .endm

// The same where x16 and x17 are kept already, and the stack pointer leads to them.
    .set KEPT, 128
    .macro KEEP_REST link
    stp x29, x30, [sp, #112]
    .cfi_offset x29, -16
    .if \link
    .cfi_offset x30, -8
    .endif
    add x29, sp, #112
    .cfi_def_cfa x29, 16
    stp x19, x20, [x29, #-16]
    .cfi_offset x19, -32
    .cfi_offset x20, -24
    stp x9, x10, [x29, #-32]
    stp x11, x12, [x29, #-48]
    stp x13, x14, [x29, #-64]
    stp x15, x18, [x29, #-80]
    mrs x17, fpsr
    str x17, [x29, #-96]
    mrs x17, nzcv
    str x17, [x29, #-88]
    sub x17, sp, #CALL_SIZE
    and sp, x17, #0xffffffffffffffc0
    mov x19, sp
    stp x0, x1, [x19]
    stp x2, x3, [x19, #16]
    stp x4, x5, [x19, #32]
    stp x6, x7, [x19, #48]
    str x8, [x19, #64]
    str x16, [x19, #CALL_RECORD]
    add x17, x29, #8
    str x17, [x19, #CALL_STACK]
    str x17, [x19, #CALL_LINK]
    .endm

// The rest of an exit or of a landing: back to the caller's frame, with what is in x29 and x30 there.
    .macro LEAVE_FRAME
    ldp x19, x20, [x29, #-16]
    .cfi_restore x19
    .cfi_restore x20
    mov sp, x29
    .cfi_def_cfa sp, 16
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    .endm

// Puts them back, but for x16, x17 and the flags; the stack pointer is what it was.
    .macro RESTORE
    RESTORE_GENERAL
    LEAVE_FRAME
    .endm
    .macro RESTORE_GENERAL
    ldp x0, x1, [x19]
    ldp x2, x3, [x19, #16]
    ldp x4, x5, [x19, #32]
    ldp x6, x7, [x19, #48]
    ldr x8, [x19, #64]
    ldp x9, x10, [x29, #-32]
    ldp x11, x12, [x29, #-48]
    ldp x13, x14, [x29, #-64]
    ldp x15, x18, [x29, #-80]
    .endm

// Puts the flags back, by a register that's free.
    .macro RESTORE_FLAGS by
    ldr \by, [x29, #-88]
    msr nzcv, \by
    .endm

// Puts everything back.
    .macro RESTORE_ALL
    RESTORE_FLAGS x17
    ldp x16, x17, [x29, #-112]
    RESTORE
    .endm

// What an exit or a way that's left early has besides: CFI as behind KEEP.
    .macro AS_KEPT
    .cfi_def_cfa x29, 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    .cfi_offset x19, -32
    .cfi_offset x20, -24
    .endm

// Vector registers, below the stack pointer. By elements: so they're the same in both byte orders. Changes x9, x10 and
// x17.
    .macro KEEP_VECTORS
    sub sp, sp, #512
    mov x17, sp
    str x17, [x19, #CALL_AREA]
    st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [x17], #64
    st1 {{v4.2d, v5.2d, v6.2d, v7.2d}}, [x17], #64
    st1 {{v8.2d, v9.2d, v10.2d, v11.2d}}, [x17], #64
    st1 {{v12.2d, v13.2d, v14.2d, v15.2d}}, [x17], #64
    st1 {{v16.2d, v17.2d, v18.2d, v19.2d}}, [x17], #64
    st1 {{v20.2d, v21.2d, v22.2d, v23.2d}}, [x17], #64
    st1 {{v24.2d, v25.2d, v26.2d, v27.2d}}, [x17], #64
    st1 {{v28.2d, v29.2d, v30.2d, v31.2d}}, [x17]
    .endm
    .macro RESTORE_VECTORS
    ldr x17, [x29, #-96]
    msr fpsr, x17
    ldr x17, [x19, #CALL_AREA]
    ld1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [x17], #64
    ld1 {{v4.2d, v5.2d, v6.2d, v7.2d}}, [x17], #64
    ld1 {{v8.2d, v9.2d, v10.2d, v11.2d}}, [x17], #64
    ld1 {{v12.2d, v13.2d, v14.2d, v15.2d}}, [x17], #64
    ld1 {{v16.2d, v17.2d, v18.2d, v19.2d}}, [x17], #64
    ld1 {{v20.2d, v21.2d, v22.2d, v23.2d}}, [x17], #64
    ld1 {{v24.2d, v25.2d, v26.2d, v27.2d}}, [x17], #64
    ld1 {{v28.2d, v29.2d, v30.2d, v31.2d}}, [x17]
    .endm

// Whom the hook behind a prologue is of: x29 is the frame's of this routine, which has that of the function first.
    .macro LATE
    ldr x9, [x29]
    ldr x10, [x16, #RECORD_FRAME]
    and x10, x10, #0x7fffffffffffffff
    add x10, x10, x9
    str x10, [x19, #CALL_SP]
    sub x10, x10, #8
    str x10, [x19, #CALL_STACK]
    add x10, x9, #8
    str x10, [x19, #CALL_LINK]
    str x9, [x19, #CALL_X29]
    mov x11, x30
    ldr x30, [x10]
    hint #7                     // xpaclri: without the signature
    str x30, [x19, #CALL_RETURN]
    mov x30, x11
    .endm

// The caller's address into the slot, from where x29 leads, and so into x30.
    .macro LET_PAD_GO
    ldr x17, [x19, #CALL_RETURN]
    str x17, [x29, #8]
    .cfi_offset x30, -8
    .endm

// The same, of a call whose caller's address was in the shadow; then that is cleared. Slot first: unwinders and signal handlers
// always find one of both.
    .macro LET_GO
    LET_PAD_GO
    add x17, x29, #8
    eor x17, x17, #0x400000000000
    str xzr, [x17]
    .endm

// The entry of functions that are traced; \call calls them.
    .macro TRACED_ENTRY name, call
    BEGIN \name
    hint #34
    KEEP 1
    KEEP_VECTORS
    add x0, x29, #8
    ldr w1, [x16, #RECORD_ID]
    mov x2, x19
    bl {slow_entry}
    mov x20, x0
    RESTORE_VECTORS
    ldr x16, [x19, #CALL_RECORD]
    ldr x17, [x16, #RECORD_BODY]
    mov x16, x20
    RESTORE
    cbz x16, \call
    br x17
    FINISH \name
    .endm

// The entry of functions that have a probe. Their stubs have kept x16 and x17, below a stack pointer that's lower by KEPT, and put that
// back when they're called.
    .macro TRACED_PROBE name, call
    BEGIN \name
    .cfi_def_cfa sp, KEPT
    hint #34
    KEEP_REST 1
    KEEP_VECTORS
    add x0, x29, #8
    ldr w1, [x16, #RECORD_ID]
    mov x2, x19
    bl {slow_entry}
    mov x20, x0
    RESTORE_VECTORS
    RESTORE_FLAGS x16
    ldr x16, [x19, #CALL_RECORD]
    ldr x17, [x16, #RECORD_BODY]
    mov x16, x20
    RESTORE_GENERAL
    ldp x19, x20, [x29, #-16]
    .cfi_restore x19
    .cfi_restore x20
    sub sp, x29, #112
    .cfi_def_cfa sp, KEPT
    ldp x29, x30, [sp, #112]
    .cfi_restore x29
    .cfi_restore x30
    cbz x16, \call
    br x17
    FINISH \name
    .endm

// The same where the hook is behind the prologue. It's as if the hook were a call.
    .macro TRACED_LATE name
    BEGIN \name
    .cfi_undefined x30
    hint #34
    ldr x30, [x16, #RECORD_BODY]
    .cfi_restore x30
    KEEP 1
    LATE
    KEEP_VECTORS
    mov x0, x19
    bl {slow_entry_late}
    RESTORE_VECTORS
    RESTORE
    mov x17, x30
    br x17
    FINISH \name
    .endm

// A pad. Either call leaves in x30, and then in the slot, which it was: a function returns to the first, and an exception lands behind.
    .macro PAD
    bl mcount_pad_exit
    hint #38                    // bti jc
    bl mcount_pad_landing
    nop
    .endm
    .macro FRAME_AT_RETURN
    .cfi_def_cfa sp, 0
    .endm

// Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is x30 without a signature, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x1e, 16, 0x8e,0x00, 0x40,0x24, 0x40,0x25, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// The same once x30 has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x1e, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// A traced call, and where it returns to.
    .macro TRACED_CALL name, return, personality
    BEGIN \name
    .cfi_personality 0x1b, \personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    blr x17
    .globl \return
    .hidden \return
\return:
    KEEP 0
    KEEP_VECTORS
    add x0, x29, #8
    mov x1, #0
    mov x2, x19
    bl {slow_exit}
    str x0, [x19, #CALL_RETURN]
    LET_GO
    RESTORE_VECTORS
    RESTORE_ALL
    ret
    FINISH \name
    .endm
