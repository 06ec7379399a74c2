// Watched calls, AArch64: registers are kept for handlers, who see and change them. What these have in common with traced calls is in
// `call.s` of `mcount-cpu`.

    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
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
    LEAVE_FRAME
    br x16
    FINISH mcount_inside_landing

// The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit, mcount_inside_personality
    KEEP_VECTORS
    BEGIN_TURN
    mov x0, x19
    bl {left}
    END_TURN
    RESTORE_VECTORS
    LET_PAD_GO
    RESTORE
    ret
    FINISH mcount_pad_exit

// An exception passes through it.
    BEGIN_OF_PAD mcount_pad_landing, mcount_inside_personality
    stp x0, x1, [x29, #-32]
    BEGIN_TURN
    mov x0, x19
    bl {unwound}
    str x0, [x19, #CALL_RETURN]
    END_TURN
    LET_PAD_GO
    ldp x0, x16, [x29, #-32]
    LEAVE_FRAME
    br x16
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    hint #34
    mov x5, x30
    b {personality}
    FINISH mcount_inside_personality

// Functions that are traced and have no handlers.
    TRACED_ENTRY mcount_inside_enter_traced, mcount_inside_traced
    TRACED_LATE mcount_inside_enter_traced_late
    TRACED_CALL mcount_inside_traced, mcount_inside_traced_return, mcount_inside_personality

// Behind all else: a conditional branch reaches 32 KiB at least, and they have more.
    PADS mcount_inside_personality

// What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    nop
    nop
    b {mark}
    .cfi_endproc
    MARK_ENDS 0, 8
