// Traced calls, RISC-V: macros, for the agent's routines (`mcount-agent`) and for those of a library that programs are linked with
// (`crates/mcount-inside`). Each says where its records have RECORD_FRAME.
//
// The stub of an armed site jumps here by t1, with the address of the function's record in t0. ra is the caller's address, and
// the stack pointer that of the caller. The *slot* is the word below it. While a call is watched, ra has an address in here, and
// the true one is in the shadow of the stack, RET = slot ^ 2^36.
//
// A function is called by `jalr ra`, not by a changed ra and a jump: so its return is one that the processor has predicted,
// and so is the return to the caller.
//
// All registers are kept but t0 and t1. No calling convention gives these to a function (LLVM's fastcc has every other
// temporary register for arguments). Vector registers aren't kept: in the standard calling convention no function keeps them.

    // More registers of a call.
    .set CALL_T2, 64
    .set CALL_S0, 72

    .set SHADOW, 36             // the bit of RET

    .option push
    .option norelax
    .option arch, +a, +d, +c

// Unwinders find the caller's address in RET: CFA-8 ^ 2^36.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x01,0x07,0x38,0x1c,0x31,0x08,0x24,0x24,0x27
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
    sd t3, 32(sp)
    sd t4, 24(sp)
    sd t5, 16(sp)
    sd t6, 8(sp)
    frflags t1
    sd t1, 0(sp)
    addi t1, sp, -CALL_SIZE
    andi sp, t1, -64
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
    sd t0, CALL_RECORD(s1)
    addi t1, s0, -8
    sd t1, CALL_STACK(s1)
    sd t1, CALL_LINK(s1)
    .endm

// Puts them back, but for t0 and t1; the stack pointer is what it was.
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
    ld t3, -32(s0)
    ld t4, -40(s0)
    ld t5, -48(s0)
    ld t6, -56(s0)
    LEAVE_FRAME
    .endm

// The rest of an exit or of a landing: back to the caller's frame, with what is in the slot as ra.
    .macro LEAVE_FRAME
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
    addi sp, sp, -512
    sd sp, CALL_AREA(s1)
    EACH_VECTOR fsd, sp
    .endm
    .macro RESTORE_VECTORS
    ld t1, -64(s0)
    fsflags t1
    ld t1, CALL_AREA(s1)
    EACH_VECTOR fld, t1
    .endm

// Whom the hook behind a prologue is of: what s0 leads to is the function's stack pointer now.
    .macro LATE
    ld t1, RECORD_FRAME(t0)
    srli t3, t1, 32
    add t3, t3, s0
    sd t3, CALL_SP(s1)
    addi t3, t3, -8
    sd t3, CALL_STACK(s1)
    slli t1, t1, 32
    srli t1, t1, 32
    add t1, t1, s0
    sd t1, CALL_LINK(s1)
    ld t1, 0(t1)
    sd t1, CALL_RETURN(s1)
    ld t1, -16(s0)
    sd t1, CALL_S0(s1)
    .endm

// The caller's address into the slot, and so into ra.
    .macro LET_PAD_GO
    ld t1, CALL_RETURN(s1)
    sd t1, -8(s0)
    .cfi_offset ra, -8
    .endm

// The same, of a call whose caller's address was in the shadow; then that is cleared. Slot first: unwinders and signal handlers
// always find one of both.
    .macro LET_GO
    LET_PAD_GO
    addi t1, s0, -8
    li t0, 1
    slli t0, t0, SHADOW
    xor t1, t1, t0
    sd zero, 0(t1)
    .endm

// The entry of functions that are traced; \call calls them.
    .macro TRACED_ENTRY name, call
    BEGIN \name
    KEEP 1
    KEEP_VECTORS
    addi a0, s0, -8
    lwu a1, RECORD_ID(t0)
    mv a2, s1
    call {slow_entry}
    sd a0, CALL_HANDLER(s1)
    RESTORE_VECTORS
    ld t0, CALL_RECORD(s1)
    ld t1, RECORD_BODY(t0)
    ld t0, CALL_HANDLER(s1)
    RESTORE
    bnez t0, 1f
    j \call
1:  jr t1
    FINISH \name
    .endm

// The same where the hook is behind the prologue. It's as if the hook were a call.
    .macro TRACED_LATE name
    BEGIN \name
    .cfi_undefined ra
    ld ra, RECORD_BODY(t0)
    .cfi_restore ra
    KEEP 1
    LATE
    KEEP_VECTORS
    mv a0, s1
    call {slow_entry_late}
    RESTORE_VECTORS
    RESTORE
    mv t1, ra
    jr t1
    FINISH \name
    .endm

// A pad. Either call leaves in ra, and then in the slot, which it was: a function returns to the first, and an exception lands behind.
    .macro PAD
    .option push
    .option norvc
    jal ra, mcount_pad_exit
    jal ra, mcount_pad_landing
    .option pop
    .endm
    .macro FRAME_AT_RETURN
    .cfi_def_cfa sp, 0
    .endm

// Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is ra, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x01, 12, 0x71,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// The same once ra has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x01, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

// A traced call, and where it returns to.
    .macro TRACED_CALL name, return, personality
    BEGIN \name
    .cfi_personality 0x1b, \personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    jalr t1
    .globl \return
    .hidden \return
\return:
    KEEP 0
    KEEP_VECTORS
    addi a0, s0, -8
    li a1, 0
    mv a2, s1
    call {slow_exit}
    sd a0, CALL_RETURN(s1)
    LET_GO
    RESTORE_VECTORS
    RESTORE
    ret
    FINISH \name
    .endm
