// A watched or traced call, AArch64: registers are kept for its handlers, who see and change them.
//
// The stub of an armed site loads the address of the site's record (src/record.rs) into x16 and jumps here by x17. x30 is
// the caller's address, and the stack pointer that of the caller. The *slot* is the word below it. While a call is
// watched, x30 has an address in here, and the true one is in the shadow of the stack, RET = slot ^ 2^46. Functions that
// sign x30 (paciasp) do so behind their hook, so they sign what it is then.
//
// A function is called by `blr`, not by a changed x30 and a jump: so its return is one that the processor has predicted,
// and so is the return to the caller. What is called is the second half of the stub, which isn't a guarded page (BTI), and
// leads on by a direct branch. Where one is needed, routines begin with a landing pad (hint 34: bti c).
//
// All registers are kept but x16, x17 and the flags: a function may have any calling convention that leaves those to the
// linker. Vector registers longer than q0 (SVE) are kept where they exist.

    // The registers of a call.
    .set CALL_X29, 72
    .set CALL_SP, 80
    .set CALL_PC, 88
    // The rest of it.
    .set CALL_STACK, 96
    .set CALL_RETURN, 104
    .set CALL_TARGET, 128
    .set CALL_ACTION, 156
    .set CALL_RECORD, 160
    .set CALL_AREA, 176
    .set CALL_HANDLER, 184
    .set CALL_LINK, 192
    .set CALL_SIZE, 256

    .set RECORD_BODY, 0
    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_ID, 28
    .set RECORD_SITE, 48
    .set RECORD_FRAME, 56

    .set TRACED_BIT, 2          // of the flags

// The address of this thread's own memory, by way of another register.
    .macro THREAD register, by
    adrp \register, :gottprel:mcount_inside_thread
    ldr \register, [\register, :gottprel_lo12:mcount_inside_thread]
    mrs \by, tpidr_el0
    add \register, \register, \by
    .endm

// Unwinders find the caller's address in RET: CFA-8 ^ 2^46.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x1e,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    .endm

    .macro BEGIN name
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

// Keeps all general registers: x19 is a call then, x29 the frame, and the word above what x29 leads to is the slot. With
// `link`, x30 is the address of whom to return to.
    .macro KEEP link
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .if \link
    .cfi_offset x30, -8
    .endif
    mov x29, sp
    .cfi_def_cfa x29, 16
    stp x19, x20, [sp, #-16]!
    .cfi_offset x19, -32
    .cfi_offset x20, -24
    stp x9, x10, [sp, #-16]!
    stp x11, x12, [sp, #-16]!
    stp x13, x14, [sp, #-16]!
    stp x15, x18, [sp, #-16]!
    mrs x17, fpsr
    str x17, [sp, #-16]!
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

// Puts them back, but for x16 and x17; the stack pointer is what it was.
    .macro RESTORE
    ldp x0, x1, [x19]
    ldp x2, x3, [x19, #16]
    ldp x4, x5, [x19, #32]
    ldp x6, x7, [x19, #48]
    ldr x8, [x19, #64]
    ldp x9, x10, [x29, #-32]
    ldp x11, x12, [x29, #-48]
    ldp x13, x14, [x29, #-64]
    ldp x15, x18, [x29, #-80]
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
    adrp x17, {long_vectors}
    ldr w17, [x17, :lo12:{long_vectors}]
    cbz w17, 9f
    KEEP_LONG
9:
    .endm
    .macro RESTORE_VECTORS
    adrp x17, {long_vectors}
    ldr w17, [x17, :lo12:{long_vectors}]
    cbz w17, 9f
    RESTORE_LONG
9:  ldr x17, [x29, #-96]
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

    .macro KEEP_LONG
    .endm
    .macro RESTORE_LONG
    .endm

// The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
// \busy. All registers are kept.
    .macro AWAIT_TURN busy
    THREAD x9, x10
    ldr x10, [x9]
    cmp x29, x10
    b.lo \busy
    cbz x10, 9f
    LEFT_TURN \busy
9:
    .endm

// A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
// full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    sub sp, sp, #32
    str xzr, [sp, #8]
    mov x0, #0
    mov x1, sp
    mov x8, #132                // sigaltstack
    svc #0
    ldr w10, [sp, #8]
    add sp, sp, #32
    tbnz w10, #0, \busy         // SS_ONSTACK
    THREAD x9, x10
    str xzr, [x9]
    .endm

// A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
// before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    sub x9, sp, #2048
    ldrb wzr, [x9]
    THREAD x9, x10
    ldr x10, [x9]
    str x10, [x19, #CALL_HANDLER]
    str x29, [x9]
    .endm
    .macro END_TURN
    THREAD x9, x10
    ldr x10, [x19, #CALL_HANDLER]
    str x10, [x9]
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

// Nobody is shown this call. Then it's only traced, if it is.
    .macro MISS
    ldr x16, [x19, #CALL_RECORD]
    ldr x9, [x16, #RECORD_LIST]
    cbz x9, 8f
    adrp x9, {missed}
    add x9, x9, :lo12:{missed}
7:  ldxr x10, [x9]
    add x10, x10, #1
    stxr w11, x10, [x9]
    cbnz w11, 7b
8:  ldr w17, [x16, #RECORD_FLAGS]
    .endm

// The caller's address back from the shadow, in x30 and in the slot, from where x29 leads; then the shadow is cleared. Slot
// first: unwinders and signal handlers always find one of both.
    .macro LET_GO
    ldr x17, [x19, #CALL_RETURN]
    str x17, [x29, #8]
    .cfi_offset x30, -8
    add x17, x29, #8
    eor x17, x17, #0x400000000000
    str xzr, [x17]
    .endm

    .text

// The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    hint #34
    ldr x17, [x16, #RECORD_BODY]
    br x17
    FINISH mcount_inside_pass

// The entry of a watched function.
    BEGIN mcount_inside_enter
    hint #34
    KEEP 1
    str x30, [x19, #CALL_RETURN]
    ldr x17, [x29]
    str x17, [x19, #CALL_X29]
    add x17, x29, #16
    str x17, [x19, #CALL_SP]
    ldr x17, [x16, #RECORD_SITE]
    str x17, [x19, #CALL_PC]
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mov x0, x19
    bl {entered}
    END_TURN
    RESTORE_VECTORS
    ldr x17, [x19, #CALL_TARGET]
    ldr w16, [x19, #CALL_ACTION]
    RESTORE
    cmp w16, #1
    b.eq mcount_inside_call
    b.hi 6f
    br x17
6:  ret
    // A call that a handler makes.
    AS_KEPT
20: MISS
    RESTORE
    tbnz w17, #TRACED_BIT, mcount_inside_enter_traced
    ldr x17, [x16, #RECORD_BODY]
    br x17
    FINISH mcount_inside_enter

// A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    blr x17
    .globl mcount_inside_return
    .hidden mcount_inside_return
mcount_inside_return:
    KEEP 0
    KEEP_VECTORS
    BEGIN_TURN
    mov x0, x19
    bl {left}
    END_TURN
    RESTORE_VECTORS
    LET_GO
    RESTORE
    ret
    FINISH mcount_inside_call

// The entry of a watched function whose hook is behind its prologue (`-pg`). It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    .cfi_undefined x30
    hint #34
    ldr x30, [x16, #RECORD_BODY]
    .cfi_restore x30
    KEEP 1
    ldr x17, [x16, #RECORD_SITE]
    str x17, [x19, #CALL_PC]
    LATE
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mov x0, x19
    bl {entered_late}
    END_TURN
    RESTORE_VECTORS
    RESTORE
    mov x17, x30
    br x17
    AS_KEPT
20: MISS
    RESTORE
    tbnz w17, #TRACED_BIT, mcount_inside_enter_traced_late
    mov x17, x30
    br x17
    FINISH mcount_inside_enter_late

// An exception passes through a watched call: the personality routine has had the unwinder come here with the
// exception in x0 and, in x1, the address of the unwinder's `_Unwind_Resume`.
    BEGIN mcount_inside_landing
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    hint #38                    // bti jc
    KEEP 0
    stp x0, x1, [x29, #-32]     // nobody needs x9 and x10
    BEGIN_TURN
    mov x0, x19
    bl {unwound}
    str x0, [x19, #CALL_RETURN]
    END_TURN
    LET_GO
    ldp x0, x16, [x29, #-32]
    ldp x19, x20, [x29, #-16]
    .cfi_restore x19
    .cfi_restore x20
    mov sp, x29
    .cfi_def_cfa sp, 16
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    br x16
    FINISH mcount_inside_landing

// What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    hint #34
    mov x5, x30
    b {personality}
    FINISH mcount_inside_personality

// The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    hint #34
    KEEP 1
    KEEP_VECTORS
    add x0, x29, #8
    ldr w1, [x16, #RECORD_ID]
    bl {slow_entry}
    mov x20, x0
    RESTORE_VECTORS
    ldr x16, [x19, #CALL_RECORD]
    ldr x17, [x16, #RECORD_BODY]
    mov x16, x20
    RESTORE
    cbz x16, mcount_inside_traced
    br x17
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
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
    FINISH mcount_inside_enter_traced_late

// A traced call, and where it returns to.
    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    blr x17
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    KEEP 0
    KEEP_VECTORS
    add x0, x29, #8
    mov x1, #0
    bl {slow_exit}
    str x0, [x19, #CALL_RETURN]
    LET_GO
    RESTORE_VECTORS
    RESTORE
    ret
    FINISH mcount_inside_traced

// What a program calls for a marker: it has a hook, as compilers make one.
    .globl mcount_mark
    .hidden mcount_mark
    .type mcount_mark, %function
    .balign 16
mcount_mark:
    .cfi_startproc
    nop
    nop
    b {mark}
    .cfi_endproc
    .size mcount_mark, . - mcount_mark
    .section __patchable_function_entries, "awo", %progbits, .text
    .balign 8
    .quad mcount_mark
    .text

// What a thread without a block has.
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
    .quad mcount_inside_nobody
    .size mcount_inside_block, 8

// What the library knows of a thread: zeroes at first.
    .section .tbss.mcount_inside, "awT", %nobits
    .globl mcount_inside_thread
    .hidden mcount_inside_thread
    .type mcount_inside_thread, %object
    .balign 64
mcount_inside_thread:
    .skip 64
    .size mcount_inside_thread, 64
    .text
