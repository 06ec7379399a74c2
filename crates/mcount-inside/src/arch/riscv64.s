// Watched calls, RISC-V: registers are kept for handlers, who see and change them. What these have in common with traced calls is in
// `call.s` of `mcount-cpu`.

    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_SITE, 48
    .set RECORD_FRAME, 56

    .set TRACED, 4              // of the flags

// The address of this thread's own memory.
    .macro THREAD register
    la.tls.ie \register, mcount_inside_thread
    add \register, \register, tp
    .endm

// What an exit or a way that's left early has besides: CFA as behind KEEP.
    .macro AS_KEPT
    .cfi_def_cfa s0, 0
    .cfi_offset ra, -8
    .cfi_offset s0, -16
    .cfi_offset s1, -24
    .endm

// The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
// \busy. All registers are kept.
    .macro AWAIT_TURN busy
    THREAD t3
    ld t4, 0(t3)
    bltu s0, t4, \busy
    beqz t4, 9f
    LEFT_TURN \busy
9:
    .endm

// A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
// full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    addi sp, sp, -32
    sd zero, 8(sp)
    li a0, 0
    mv a1, sp
    li a7, 132                  // sigaltstack
    ecall
    lw t4, 8(sp)
    addi sp, sp, 32
    andi t4, t4, 1              // SS_ONSTACK
    bnez t4, \busy
    THREAD t3
    sd zero, 0(t3)
    .endm

// A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
// before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    lb zero, -2048(sp)
    THREAD t3
    ld t4, 0(t3)
    sd t4, CALL_HANDLER(s1)
    sd s0, 0(t3)
    .endm
    .macro END_TURN
    THREAD t3
    ld t4, CALL_HANDLER(s1)
    sd t4, 0(t3)
    .endm

// Nobody is shown this call. Then it's only traced, if it is.
    .macro MISS
    ld t0, CALL_RECORD(s1)
    ld t1, RECORD_LIST(t0)
    beqz t1, 8f
    lla t1, {missed}
    li t3, 1
    amoadd.d zero, t3, (t1)
8:  lw t1, RECORD_FLAGS(t0)
    andi t1, t1, TRACED
    .endm

    .text

// The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    ld t1, RECORD_BODY(t0)
    jr t1
    FINISH mcount_inside_pass

// The entry of a watched function.
    BEGIN mcount_inside_enter
    KEEP 1
    sd ra, CALL_RETURN(s1)
    ld t1, -16(s0)
    sd t1, CALL_S0(s1)
    sd s0, CALL_SP(s1)
    ld t1, RECORD_SITE(t0)
    sd t1, CALL_PC(s1)
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {entered}
    END_TURN
    RESTORE_VECTORS
    ld t1, CALL_TARGET(s1)
    lw t0, CALL_ACTION(s1)
    RESTORE
    beqz t0, 6f
    addi t0, t0, -1
    beqz t0, mcount_inside_call
    ret
6:  jr t1
    // A call that a handler makes.
    AS_KEPT
20: MISS
    RESTORE
    bnez t1, mcount_inside_enter_traced
    ld t1, RECORD_BODY(t0)
    jr t1
    FINISH mcount_inside_enter

// A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    jalr t1
    .globl mcount_inside_return
    .hidden mcount_inside_return
mcount_inside_return:
    KEEP 0
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {left}
    END_TURN
    RESTORE_VECTORS
    LET_GO
    RESTORE
    ret
    FINISH mcount_inside_call

// The entry of a watched function whose hook is behind its prologue (`-pg`). It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    .cfi_undefined ra
    ld ra, RECORD_BODY(t0)
    .cfi_restore ra
    KEEP 1
    ld t1, RECORD_SITE(t0)
    sd t1, CALL_PC(s1)
    LATE
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {entered_late}
    END_TURN
    RESTORE_VECTORS
    RESTORE
    mv t1, ra
    jr t1
    AS_KEPT
20: MISS
    RESTORE
    bnez t1, mcount_inside_enter_traced_late
    mv t1, ra
    jr t1
    FINISH mcount_inside_enter_late

// An exception passes through a watched call: the personality routine has had the unwinder come here with the
// exception in a0 and, in a1, the address of the unwinder's `_Unwind_Resume`.
    BEGIN mcount_inside_landing
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    KEEP 0
    sd a0, -40(s0)              // nobody needs t4 and t5
    sd a1, -48(s0)
    BEGIN_TURN
    mv a0, s1
    call {unwound}
    sd a0, CALL_RETURN(s1)
    END_TURN
    LET_GO
    ld a0, -40(s0)
    ld t1, -48(s0)
    LEAVE_FRAME
    jr t1
    FINISH mcount_inside_landing

// The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit, mcount_inside_personality
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {left}
    END_TURN
    RESTORE_VECTORS
    LET_PAD_GO
    RESTORE
    ret
    FINISH mcount_pad_exit

// An exception passes through it.
    BEGIN_OF_PAD mcount_pad_landing, mcount_inside_personality
    sd a0, -40(s0)
    sd a1, -48(s0)
    BEGIN_TURN
    mv a0, s1
    call {unwound}
    sd a0, CALL_RETURN(s1)
    END_TURN
    LET_PAD_GO
    ld a0, -40(s0)
    ld t1, -48(s0)
    LEAVE_FRAME
    jr t1
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    mv a5, ra
    tail {personality}
    FINISH mcount_inside_personality

// Functions that are traced and have no handlers.
    TRACED_ENTRY mcount_inside_enter_traced, mcount_inside_traced
    TRACED_LATE mcount_inside_enter_traced_late
    TRACED_CALL mcount_inside_traced, mcount_inside_traced_return, mcount_inside_personality

// Behind all else: a conditional branch reaches 4 KiB, and they have more.
    PADS mcount_inside_personality

// What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    .option push
    .option norvc
    nop
    nop
    .option pop
    tail {mark}
    .cfi_endproc
    MARK_ENDS 0, 8
    .option pop
