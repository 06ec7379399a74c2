// A watched or traced call, RISC-V: registers are kept for its handlers, who see and change them.
//
// The stub of an armed site loads the address of the site's record (src/record.rs) into t1 and jumps here by t3. ra is the
// caller's address, and the stack pointer that of the caller. The *slot* is the word below it. While a call is watched, ra
// has an address in here, and the true one is in the shadow of the stack, RET = slot ^ 2^36.
//
// A function is called by `jalr ra`, not by a changed ra and a jump: so its return is one that the processor has predicted,
// and so is the return to the caller.
//
// All registers are kept but t0, t1 and t3, which have no meaning at the entry of a function. Vector registers aren't: in the
// standard calling convention no function keeps them.

    // The registers of a call.
    .set CALL_T2, 64
    .set CALL_S0, 72
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

    .set TRACED, 4              // of the flags
    .set SHADOW, 36             // the bit of RET

    .option push
    .option norelax
    .option arch, +a, +d

// The address of this thread's own memory.
    .macro THREAD register
    la.tls.ie \register, mcount_inside_thread
    add \register, \register, tp
    .endm

// Unwinders find the caller's address in RET: CFA-8 ^ 2^36.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x01,0x07,0x38,0x1c,0x31,0x08,0x24,0x24,0x27
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

// Keeps all general registers: s1 is a call then, s0 the frame, and the slot is below what s0 leads to. With `link`, ra is
// the address of whom to return to.
    .macro KEEP link
    addi sp, sp, -64
    .cfi_def_cfa_offset 64
    sd ra, 56(sp)
    sd s0, 48(sp)
    .cfi_offset s0, -16
    .if \link
    .cfi_offset ra, -8
    .endif
    addi s0, sp, 64
    .cfi_def_cfa s0, 0
    sd s1, 40(sp)
    .cfi_offset s1, -24
    sd t4, 24(sp)
    sd t5, 16(sp)
    sd t6, 8(sp)
    frflags t3
    sd t3, 0(sp)
    addi t3, sp, -CALL_SIZE
    andi sp, t3, -64
    mv s1, sp
    sd a0, 0(s1)
    sd a1, 8(s1)
    sd a2, 16(s1)
    sd a3, 24(s1)
    sd a4, 32(s1)
    sd a5, 40(s1)
    sd a6, 48(s1)
    sd a7, 56(s1)
    sd t2, CALL_T2(s1)
    sd t1, CALL_RECORD(s1)
    addi t3, s0, -8
    sd t3, CALL_STACK(s1)
    sd t3, CALL_LINK(s1)
    .endm

// Puts them back, but for t0, t1 and t3; the stack pointer is what it was.
    .macro RESTORE
    ld a0, 0(s1)
    ld a1, 8(s1)
    ld a2, 16(s1)
    ld a3, 24(s1)
    ld a4, 32(s1)
    ld a5, 40(s1)
    ld a6, 48(s1)
    ld a7, 56(s1)
    ld t2, CALL_T2(s1)
    ld t4, -40(s0)
    ld t5, -48(s0)
    ld t6, -56(s0)
    LEAVE
    .endm

// The frame is gone.
    .macro LEAVE
    ld s1, -24(s0)
    .cfi_restore s1
    addi sp, s0, -16
    .cfi_def_cfa sp, 16
    ld ra, 8(sp)
    ld s0, 0(sp)
    .cfi_restore s0
    .cfi_restore ra
    addi sp, sp, 16
    .cfi_def_cfa_offset 0
    .endm

// What an exit or a way that's left early has besides: CFA as behind KEEP.
    .macro AS_KEPT
    .cfi_def_cfa s0, 0
    .cfi_offset ra, -8
    .cfi_offset s0, -16
    .cfi_offset s1, -24
    .endm

// Floating-point registers that a function may change, below the stack pointer, two words each.
    .macro EACH_VECTOR do, base
    \do fa0, 0(\base)
    \do fa1, 16(\base)
    \do fa2, 32(\base)
    \do fa3, 48(\base)
    \do fa4, 64(\base)
    \do fa5, 80(\base)
    \do fa6, 96(\base)
    \do fa7, 112(\base)
    \do ft0, 128(\base)
    \do ft1, 144(\base)
    \do ft2, 160(\base)
    \do ft3, 176(\base)
    \do ft4, 192(\base)
    \do ft5, 208(\base)
    \do ft6, 224(\base)
    \do ft7, 240(\base)
    \do ft8, 256(\base)
    \do ft9, 272(\base)
    \do ft10, 288(\base)
    \do ft11, 304(\base)
    .endm
    .macro KEEP_VECTORS
    addi sp, sp, -320
    sd sp, CALL_AREA(s1)
    EACH_VECTOR fsd, sp
    .endm
    .macro RESTORE_VECTORS
    ld t3, -64(s0)
    fsflags t3
    ld t3, CALL_AREA(s1)
    EACH_VECTOR fld, t3
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

// Whom the hook behind a prologue is of: what s0 leads to is the function's stack pointer now.
    .macro LATE
    ld t3, RECORD_FRAME(t1)
    srli t4, t3, 32
    add t4, t4, s0
    sd t4, CALL_SP(s1)
    addi t4, t4, -8
    sd t4, CALL_STACK(s1)
    slli t3, t3, 32
    srli t3, t3, 32
    add t3, t3, s0
    sd t3, CALL_LINK(s1)
    ld t3, 0(t3)
    sd t3, CALL_RETURN(s1)
    ld t3, -16(s0)
    sd t3, CALL_S0(s1)
    .endm

// Nobody is shown this call. Then it's only traced, if it is.
    .macro MISS
    ld t1, CALL_RECORD(s1)
    ld t3, RECORD_LIST(t1)
    beqz t3, 8f
    lla t3, {missed}
    li t4, 1
    amoadd.d zero, t4, (t3)
8:  lw t3, RECORD_FLAGS(t1)
    andi t3, t3, TRACED
    .endm

// The caller's address into the slot, and so into ra.
    .macro LET_PAD_GO
    ld t3, CALL_RETURN(s1)
    sd t3, -8(s0)
    .cfi_offset ra, -8
    .endm

// The same, of a call whose caller's address was in the shadow; then that is cleared. Slot first: unwinders and signal handlers
// always find one of both.
    .macro LET_GO
    LET_PAD_GO
    addi t3, s0, -8
    li t1, 1
    slli t1, t1, SHADOW
    xor t3, t3, t1
    sd zero, 0(t3)
    .endm

// A pad: calls, which leave in ra which it was. A function returns to the first, and an exception lands at the second.
    .macro PAD
    jal ra, mcount_pad_exit
    jal ra, mcount_pad_landing
    .8byte 0
    .endm
    .macro BEGIN_PADS
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_OF_PAD_IN_LINK
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

// Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is ra, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x01, 12, 0x71,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// The same once ra has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x01, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// What a pad leads to.
    .macro BEGIN_OF_PAD name
    BEGIN \name
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_OF_PAD_IN_LINK
    KEEP 0
    CALLER_OF_PAD
    .endm

    .text

// The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    ld t3, RECORD_BODY(t1)
    jr t3
    FINISH mcount_inside_pass

// The entry of a watched function.
    BEGIN mcount_inside_enter
    KEEP 1
    sd ra, CALL_RETURN(s1)
    ld t3, -16(s0)
    sd t3, CALL_S0(s1)
    sd s0, CALL_SP(s1)
    ld t3, RECORD_SITE(t1)
    sd t3, CALL_PC(s1)
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {entered}
    END_TURN
    RESTORE_VECTORS
    ld t3, CALL_TARGET(s1)
    lw t1, CALL_ACTION(s1)
    RESTORE
    beqz t1, 6f
    li t0, 1
    beq t1, t0, mcount_inside_call
    ret
6:  jr t3
    // A call that a handler makes.
    AS_KEPT
20: MISS
    RESTORE
    bnez t3, mcount_inside_enter_traced
    ld t3, RECORD_BODY(t1)
    jr t3
    FINISH mcount_inside_enter

// A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    jalr t3
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
    ld ra, RECORD_BODY(t1)
    .cfi_restore ra
    KEEP 1
    ld t3, RECORD_SITE(t1)
    sd t3, CALL_PC(s1)
    LATE
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mv a0, s1
    call {entered_late}
    END_TURN
    RESTORE_VECTORS
    RESTORE
    mv t3, ra
    jr t3
    AS_KEPT
20: MISS
    RESTORE
    bnez t3, mcount_inside_enter_traced_late
    mv t3, ra
    jr t3
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
    ld t3, -48(s0)
    LEAVE
    jr t3
    FINISH mcount_inside_landing

// The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit
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
    BEGIN_OF_PAD mcount_pad_landing
    sd a0, -40(s0)
    sd a1, -48(s0)
    BEGIN_TURN
    mv a0, s1
    call {unwound}
    sd a0, CALL_RETURN(s1)
    END_TURN
    LET_PAD_GO
    ld a0, -40(s0)
    ld t3, -48(s0)
    LEAVE
    jr t3
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    mv a5, ra
    tail {personality}
    FINISH mcount_inside_personality

// The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    KEEP 1
    KEEP_VECTORS
    addi a0, s0, -8
    lwu a1, RECORD_ID(t1)
    call {slow_entry}
    sd a0, CALL_HANDLER(s1)
    RESTORE_VECTORS
    ld t1, CALL_RECORD(s1)
    ld t3, RECORD_BODY(t1)
    ld t1, CALL_HANDLER(s1)
    RESTORE
    beqz t1, mcount_inside_traced
    jr t3
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
    .cfi_undefined ra
    ld ra, RECORD_BODY(t1)
    .cfi_restore ra
    KEEP 1
    LATE
    KEEP_VECTORS
    mv a0, s1
    call {slow_entry_late}
    RESTORE_VECTORS
    RESTORE
    mv t3, ra
    jr t3
    FINISH mcount_inside_enter_traced_late

// A traced call, and where it returns to.
    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    jalr t3
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    KEEP 0
    KEEP_VECTORS
    addi a0, s0, -8
    li a1, 0
    call {slow_exit}
    sd a0, CALL_RETURN(s1)
    LET_GO
    RESTORE_VECTORS
    RESTORE
    ret
    FINISH mcount_inside_traced

// Behind all else: a conditional branch reaches 4 KiB, and they have more.
    PADS

// What a program calls for a marker: it has a hook, as compilers make one.
    .globl mcount_mark
    .hidden mcount_mark
    .type mcount_mark, %function
    .balign 16
mcount_mark:
    .cfi_startproc
    .option push
    .option norvc
    nop
    nop
    .option pop
    tail {mark}
    .cfi_endproc
    .size mcount_mark, . - mcount_mark
    .section __patchable_function_entries, "awo", %progbits, .text
    .balign 8
    .quad mcount_mark
    .text
    .option pop
