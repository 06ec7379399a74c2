// A watched or traced call, LoongArch: registers are kept for its handlers, who see and change them.
//
// The stub of an armed site loads the address of the site's record (src/record.rs) into $t1 and jumps here by $t3. $ra is the
// caller's address, and the stack pointer that of the caller. The *slot* is the word below it. While a call is watched, $ra
// has an address in here, and the true one is in the shadow of the stack, RET = slot ^ 2^46.
//
// A function is called by `jirl $ra`, not by a changed $ra and a jump: so its return is one that the processor has predicted,
// and so is the return to the caller.
//
// All registers are kept but $t0 to $t3 and the condition flags, which have no meaning at the entry of a function. Vector registers
// are kept in their whole length, because compilers pass them to functions that only they call.

    // More registers of a call.
    .set CALL_T8, 64
    .set CALL_FP, 72

    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_SITE, 48
    .set RECORD_FRAME, 56

    .set TRACED, 4              // of the flags
    .set SHADOW, 0x400000000000 // the bit of RET
    .set LOW_HALVES, 512        // bytes for 16 of each vector register
    .set VECTORS, 1536          // and for all of it besides

// Unwind information has registers by their numbers: 1 is $ra, 3 $sp, 22 $fp, 23 $s0.

// The address of this thread's own memory.
    .macro THREAD register
    la.tls.ie \register, mcount_inside_thread
    add.d \register, \register, $tp
    .endm

// Unwinders find the caller's address in RET: CFA-8 ^ 2^46.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x01,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    .endm

// Keeps all general registers: $s0 is a call then, $fp the frame, and the slot is below what $fp leads to. With `link`, $ra is
// the address of whom to return to.
    .macro KEEP link
    addi.d $sp, $sp, -64
    .cfi_def_cfa_offset 64
    st.d $ra, $sp, 56
    st.d $fp, $sp, 48
    .cfi_offset 22, -16
    .if \link
    .cfi_offset 1, -8
    .endif
    addi.d $fp, $sp, 64
    .cfi_def_cfa 22, 0
    st.d $s0, $sp, 40
    .cfi_offset 23, -24
    st.d $t4, $sp, 32
    st.d $t5, $sp, 24
    st.d $t6, $sp, 16
    st.d $t7, $sp, 8
    movfcsr2gr $t3, $fcsr2      // flags and cause
    st.d $t3, $sp, 0
    addi.d $t3, $sp, -CALL_SIZE
    bstrins.d $t3, $zero, 5, 0
    move $sp, $t3
    move $s0, $t3
    st.d $a0, $s0, 0
    st.d $a1, $s0, 8
    st.d $a2, $s0, 16
    st.d $a3, $s0, 24
    st.d $a4, $s0, 32
    st.d $a5, $s0, 40
    st.d $a6, $s0, 48
    st.d $a7, $s0, 56
    st.d $t8, $s0, CALL_T8
    st.d $t1, $s0, CALL_RECORD
    addi.d $t3, $fp, -8
    st.d $t3, $s0, CALL_STACK
    st.d $t3, $s0, CALL_LINK
    .endm

// Puts them back, but for $t0 to $t3; the stack pointer is what it was.
    .macro RESTORE
    ld.d $a0, $s0, 0
    ld.d $a1, $s0, 8
    ld.d $a2, $s0, 16
    ld.d $a3, $s0, 24
    ld.d $a4, $s0, 32
    ld.d $a5, $s0, 40
    ld.d $a6, $s0, 48
    ld.d $a7, $s0, 56
    ld.d $t8, $s0, CALL_T8
    ld.d $t4, $fp, -32
    ld.d $t5, $fp, -40
    ld.d $t6, $fp, -48
    ld.d $t7, $fp, -56
    LEAVE
    .endm

// The frame is gone.
    .macro LEAVE
    ld.d $s0, $fp, -24
    .cfi_restore 23
    addi.d $sp, $fp, -16
    .cfi_def_cfa 3, 16
    ld.d $ra, $sp, 8
    ld.d $fp, $sp, 0
    .cfi_restore 22
    .cfi_restore 1
    addi.d $sp, $sp, 16
    .cfi_def_cfa_offset 0
    .endm

// What an exit or a way that's left early has besides: CFA as behind KEEP.
    .macro AS_KEPT
    .cfi_def_cfa 22, 0
    .cfi_offset 1, -8
    .cfi_offset 22, -16
    .cfi_offset 23, -24
    .endm

// Vector registers, below the stack pointer. $t1 is left alone.
    .macro KEEP_VECTORS
    addi.d $sp, $sp, -VECTORS
    st.d $sp, $s0, CALL_AREA
    bl mcount_inside_keep_vectors
    .endm
    .macro RESTORE_VECTORS
    bl mcount_inside_restore_vectors
    .endm

// An instruction for each of 32 registers, \base being the number of another one: loads and stores with a distance. Assemblers that
// don't know all processors have them all this way.
    .macro EACH opcode, base, first, step
    .set EACH_INDEX, 0
    .rept 32
    .4byte \opcode | (\first + EACH_INDEX * \step) << 10 | \base << 5 | EACH_INDEX
    .set EACH_INDEX, EACH_INDEX + 1
    .endr
    .endm
    .set FLD_D, 0x2b800000
    .set FST_D, 0x2bc00000
    .set VLD, 0x2c000000
    .set VST, 0x2c400000
    .set XVLD, 0x2c800000
    .set XVST, 0x2cc00000

// The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
// \busy. All registers are kept.
    .macro AWAIT_TURN busy
    THREAD $t3
    ld.d $t2, $t3, 0
    bltu $fp, $t2, \busy
    beqz $t2, 9f
    LEFT_TURN \busy
9:
    .endm

// A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
// full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    addi.d $sp, $sp, -32
    st.d $zero, $sp, 8
    move $a0, $zero
    move $a1, $sp
    li.d $a7, 132               // sigaltstack
    syscall 0
    ld.w $t2, $sp, 8
    addi.d $sp, $sp, 32
    andi $t2, $t2, 1            // SS_ONSTACK
    bnez $t2, \busy
    THREAD $t3
    st.d $zero, $t3, 0
    .endm

// A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
// before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    ld.b $t3, $sp, -2048
    THREAD $t3
    ld.d $t2, $t3, 0
    st.d $t2, $s0, CALL_HANDLER
    st.d $fp, $t3, 0
    .endm
    .macro END_TURN
    THREAD $t3
    ld.d $t2, $s0, CALL_HANDLER
    st.d $t2, $t3, 0
    .endm

// Whom the hook behind a prologue is of: what $fp leads to is the function's stack pointer now. Distances are from that, or from the
// function's frame pointer if bit 0 says so.
    .macro LATE
    ld.d $t2, $fp, -16
    st.d $t2, $s0, CALL_FP
    ld.d $t3, $t1, RECORD_FRAME
    andi $t0, $t3, 1
    bnez $t0, 9f
    move $t2, $fp
9:  srai.d $t0, $t3, 32
    add.d $t0, $t0, $t2
    st.d $t0, $s0, CALL_SP
    addi.d $t0, $t0, -8
    st.d $t0, $s0, CALL_STACK
    bstrins.d $t3, $zero, 0, 0
    addi.w $t3, $t3, 0
    add.d $t3, $t3, $t2
    st.d $t3, $s0, CALL_LINK
    ld.d $t3, $t3, 0
    st.d $t3, $s0, CALL_RETURN
    .endm

// Nobody is shown this call. Then it's only traced, if it is.
    .macro MISS
    ld.d $t1, $s0, CALL_RECORD
    ld.d $t3, $t1, RECORD_LIST
    beqz $t3, 8f
    la.pcrel $t3, {missed}
    li.d $t2, 1
    amadd.d $zero, $t2, $t3
8:  ld.w $t3, $t1, RECORD_FLAGS
    andi $t3, $t3, TRACED
    .endm

// The caller's address into the slot, and so into $ra.
    .macro LET_PAD_GO
    ld.d $t3, $s0, CALL_RETURN
    st.d $t3, $fp, -8
    .cfi_offset 1, -8
    .endm

// The same, of a call whose caller's address was in the shadow; then that is cleared. Slot first: unwinders and signal handlers
// always find one of both.
    .macro LET_GO
    LET_PAD_GO
    addi.d $t3, $fp, -8
    li.d $t1, SHADOW
    xor $t3, $t3, $t1
    st.d $zero, $t3, 0
    .endm

// A pad: calls, which leave in $ra which it was. A function returns to the first, and an exception lands at the second.
    .macro PAD
    bl mcount_pad_exit
    bl mcount_pad_landing
    .8byte 0
    .endm
    .macro FRAME_AT_RETURN
    .cfi_def_cfa 3, 0
    .endm

// Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is $ra, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x01, 12, 0x71,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// The same once $ra has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x01, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

    .text

// What KEEP_VECTORS and RESTORE_VECTORS do, by what the processor has. Handlers see and change the first 16 bytes of each register.
    BEGIN mcount_inside_keep_vectors
    la.pcrel $t3, {vectors}
    ld.w $t3, $t3, 0
    beqz $t3, 3f
    EACH VST, 3, 0, 16
    addi.d $t3, $t3, -1
    beqz $t3, 2f
    EACH XVST, 3, LOW_HALVES, 32
2:  ret
3:  EACH FST_D, 3, 0, 16
    ret
    FINISH mcount_inside_keep_vectors

    BEGIN mcount_inside_restore_vectors
    ld.d $t3, $fp, -64
    movgr2fcsr $fcsr2, $t3
    ld.d $t2, $s0, CALL_AREA
    la.pcrel $t3, {vectors}
    ld.w $t3, $t3, 0
    beqz $t3, 3f
    addi.d $t3, $t3, -1
    beqz $t3, 2f
    // The first halves to where the whole is.
    .set EACH_INDEX, 0
    .rept 32
    .4byte VLD | (EACH_INDEX * 16) << 10 | 14 << 5
    .4byte VST | (LOW_HALVES + EACH_INDEX * 32) << 10 | 14 << 5
    .set EACH_INDEX, EACH_INDEX + 1
    .endr
    EACH XVLD, 14, LOW_HALVES, 32
    ret
2:  EACH VLD, 14, 0, 16
    ret
3:  EACH FLD_D, 14, 0, 16
    ret
    FINISH mcount_inside_restore_vectors

// The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    ld.d $t3, $t1, RECORD_BODY
    jr $t3
    FINISH mcount_inside_pass

// The entry of a watched function.
    BEGIN mcount_inside_enter
    KEEP 1
    st.d $ra, $s0, CALL_RETURN
    ld.d $t3, $fp, -16
    st.d $t3, $s0, CALL_FP
    st.d $fp, $s0, CALL_SP
    ld.d $t3, $t1, RECORD_SITE
    st.d $t3, $s0, CALL_PC
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    move $a0, $s0
    call36 {entered}
    END_TURN
    RESTORE_VECTORS
    ld.d $t3, $s0, CALL_TARGET
    ld.w $t1, $s0, CALL_ACTION
    RESTORE
    beqz $t1, 6f
    li.d $t0, 1
    beq $t1, $t0, mcount_inside_call
    ret
6:  jr $t3
    // A call that a handler makes.
    AS_KEPT
20: MISS
    RESTORE
    bnez $t3, mcount_inside_enter_traced
    ld.d $t3, $t1, RECORD_BODY
    jr $t3
    FINISH mcount_inside_enter

// A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 3, 0
    CALLER_IN_SHADOW
    jirl $ra, $t3, 0
    .globl mcount_inside_return
    .hidden mcount_inside_return
mcount_inside_return:
    KEEP 0
    KEEP_VECTORS
    BEGIN_TURN
    move $a0, $s0
    call36 {left}
    END_TURN
    RESTORE_VECTORS
    LET_GO
    RESTORE
    ret
    FINISH mcount_inside_call

// The entry of a watched function whose hook is behind its prologue (`-pg`). It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    .cfi_undefined 1
    ld.d $ra, $t1, RECORD_BODY
    .cfi_restore 1
    KEEP 1
    ld.d $t3, $t1, RECORD_SITE
    st.d $t3, $s0, CALL_PC
    LATE
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    move $a0, $s0
    call36 {entered_late}
    END_TURN
    RESTORE_VECTORS
    RESTORE
    move $t3, $ra
    jr $t3
    AS_KEPT
20: MISS
    RESTORE
    bnez $t3, mcount_inside_enter_traced_late
    move $t3, $ra
    jr $t3
    FINISH mcount_inside_enter_late

// An exception passes through a watched call: the personality routine has had the unwinder come here with the
// exception in $a0 and, in $a1, the address of the unwinder's `_Unwind_Resume`.
    BEGIN mcount_inside_landing
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 3, 0
    CALLER_IN_SHADOW
    KEEP 0
    st.d $a0, $fp, -40          // nobody needs $t5 and $t6
    st.d $a1, $fp, -48
    BEGIN_TURN
    move $a0, $s0
    call36 {unwound}
    st.d $a0, $s0, CALL_RETURN
    END_TURN
    LET_GO
    ld.d $a0, $fp, -40
    ld.d $t3, $fp, -48
    LEAVE
    jr $t3
    FINISH mcount_inside_landing

// The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit, mcount_inside_personality
    KEEP_VECTORS
    BEGIN_TURN
    move $a0, $s0
    call36 {left}
    END_TURN
    RESTORE_VECTORS
    LET_PAD_GO
    RESTORE
    ret
    FINISH mcount_pad_exit

// An exception passes through it.
    BEGIN_OF_PAD mcount_pad_landing, mcount_inside_personality
    st.d $a0, $fp, -40
    st.d $a1, $fp, -48
    BEGIN_TURN
    move $a0, $s0
    call36 {unwound}
    st.d $a0, $s0, CALL_RETURN
    END_TURN
    LET_PAD_GO
    ld.d $a0, $fp, -40
    ld.d $t3, $fp, -48
    LEAVE
    jr $t3
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    move $a5, $ra
    tail36 $t3, {personality}
    FINISH mcount_inside_personality

// The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    KEEP 1
    KEEP_VECTORS
    addi.d $a0, $fp, -8
    ld.wu $a1, $t1, RECORD_ID
    call36 {slow_entry}
    st.d $a0, $s0, CALL_HANDLER
    RESTORE_VECTORS
    ld.d $t1, $s0, CALL_RECORD
    ld.d $t3, $t1, RECORD_BODY
    ld.d $t1, $s0, CALL_HANDLER
    RESTORE
    beqz $t1, mcount_inside_traced
    jr $t3
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
    .cfi_undefined 1
    ld.d $ra, $t1, RECORD_BODY
    .cfi_restore 1
    KEEP 1
    LATE
    KEEP_VECTORS
    move $a0, $s0
    call36 {slow_entry_late}
    RESTORE_VECTORS
    RESTORE
    move $t3, $ra
    jr $t3
    FINISH mcount_inside_enter_traced_late

// A traced call, and where it returns to.
    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 3, 0
    CALLER_IN_SHADOW
    jirl $ra, $t3, 0
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    KEEP 0
    KEEP_VECTORS
    addi.d $a0, $fp, -8
    li.d $a1, 0
    call36 {slow_exit}
    st.d $a0, $s0, CALL_RETURN
    LET_GO
    RESTORE_VECTORS
    RESTORE
    ret
    FINISH mcount_inside_traced

    PADS mcount_inside_personality

// What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    nop
    nop
    tail36 $t3, {mark}
    .cfi_endproc
    MARK_ENDS 0, 8
