# Traced calls, 64-bit PowerPC (ELFv2): macros, for the agent's routines (`mcount-agent`) and for those of a library that programs are
# linked with (`crates/mcount-inside`). Each says how to find out which record it is (ENTERED), and what to do when an exception
# has landed (LANDED). The library's calls have one word less in front of the stack pointer, so it sets the numbers of a call again.
#
# The stub of an armed site leads here, with the addresses of the routine and of the record (or near it) in r0 and r12, or in r12
# and r0 (the library). The link
# register is the caller's address, and r1 the stack pointer of the caller, S. Its frame has room for what is called: the
# link register is kept at S+16. The *slot* is the word below S: nothing of the program's is there at the entry, and when the
# function has returned, nothing is there any more. While a call is watched, the link register has an address in here,
# and the true one is in the shadow of the stack, RET = slot ^ 2^45.
#
# A function is called by `bctrl`, not by a changed link register and a jump: so its return is one that the processor has predicted,
# and so is the return to the caller.
#
# r2 is the module's, whose functions may rely on it when a call returns, so it's kept, and routines make their own: from r12, or from where
# they are.
#
# All registers are kept but r0, r12, the count register and the condition register's fields for everybody, which linkers'
# stubs change as well. Registers may be kept below the stack pointer: signal handlers leave 288 bytes alone.

    # More registers of a call.
    .set CALL_R11, 64

    # From the place in a stub to its record.
    .set RECORD_FROM, 20

    # Below S: the slot, then what is kept. What a routine calls may use the lowest 96 bytes of its frame; above are the call,
    # which is aligned to 64, and vector registers.
    .set SLOT, -8
    .set KEPT_R31, -16
    .set KEPT_R30, -24
    .set KEPT_R29, -32
    .set KEPT_R28, -40
    .set KEPT_R2, -48
    .set KEPT_FPSCR, -56
    .set FRAME, 1088

# Unwinders find the caller's address in RET: CFA-8 ^ 2^45.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x41,0x07,0x38,0x1c,0x31,0x08,0x2d,0x24,0x27
    .endm

# Where registers are kept by KEEP.
    .macro AS_KEPT
    .cfi_def_cfa 31, 0
    .cfi_offset 31, KEPT_R31
    .cfi_offset 30, KEPT_R30
    .cfi_offset 29, KEPT_R29
    .cfi_offset 28, KEPT_R28
    .cfi_offset 2, KEPT_R2
    .endm

# Keeps all general registers: r31 is S then, r30 the call. With `link`, the link register is the address of whom to
# return to.
    .macro KEEP link
    std 31, KEPT_R31(1)
    std 30, KEPT_R30(1)
    std 29, KEPT_R29(1)
    std 28, KEPT_R28(1)
    std 2, KEPT_R2(1)
    mr 31, 1
    AS_KEPT
    mflr 30
    std 30, SLOT(31)
    .if \link
    std 30, 16(31)
    .cfi_offset 65, 16
    .endif
    stdu 1, -FRAME(1)
    addi 30, 1, 96 + 63
    clrrdi 30, 30, 6
    std 3, 0(30)
    std 4, 8(30)
    std 5, 16(30)
    std 6, 24(30)
    std 7, 32(30)
    std 8, 40(30)
    std 9, 48(30)
    std 10, 56(30)
    std 11, CALL_R11(30)
    std 31, CALL_SP(30)
    addi 3, 31, SLOT
    std 3, CALL_STACK(30)
    addi 3, 31, 16
    std 3, CALL_LINK(30)
    .endm

# r2 of whatever this is a part of: of a routine whose own address is in that register, and of routines that have kept the link register, which isn't needed any more.
    .macro OWN name, register
    addis 2, \register, .TOC.-\name\()@ha
    addi 2, 2, .TOC.-\name\()@l
    .endm
    .macro OWN_HERE name
    bcl 20, 31, \name
\name:
    mflr 12
    OWN \name, 12
    .endm

# Puts them back, but for r0 and r12; the link register is what S+16 has.
    .macro RESTORE
    ld 3, 0(30)
    ld 4, 8(30)
    ld 5, 16(30)
    ld 6, 24(30)
    ld 7, 32(30)
    ld 8, 40(30)
    ld 9, 48(30)
    ld 10, 56(30)
    ld 11, CALL_R11(30)
    RESTORE_KEPT
    .endm
    .macro RESTORE_KEPT
    ld 0, 16(31)
    mtlr 0
    mr 1, 31
    .cfi_def_cfa 1, 0
    ld 2, KEPT_R2(1)
    ld 28, KEPT_R28(1)
    ld 29, KEPT_R29(1)
    ld 30, KEPT_R30(1)
    ld 31, KEPT_R31(1)
    .cfi_restore 2
    .cfi_restore 28
    .cfi_restore 29
    .cfi_restore 30
    .cfi_restore 31
    .cfi_restore 65
    .endm

# f1 to f13, as vector-scalar registers, whose first half they are; f0; and v0 to v19. Changes r3.
    .macro KEEP_VECTORS
    addi 3, 30, CALL_SIZE
    std 3, CALL_AREA(30)
    .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,0
    stxvd2x \n, 0, 3
    addi 3, 3, 16
    .endr
    addi 3, 3, 32
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19
    stvx \n, 0, 3
    addi 3, 3, 16
    .endr
    mffs 0
    stfd 0, KEPT_FPSCR(31)
    .endm
    .macro RESTORE_VECTORS
    lfd 0, KEPT_FPSCR(31)
    mtfsf 255, 0
    ld 3, CALL_AREA(30)
    .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,0
    lxvd2x \n, 0, 3
    addi 3, 3, 16
    .endr
    addi 3, 3, 32
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19
    lvx \n, 0, 3
    addi 3, 3, 16
    .endr
    .endm

# Whom the hook behind a prologue is of: r31 is the stack pointer of its frame, whose first word is S. The routine returns
# behind the hook.
    .macro LATE
    ld 3, 0(31)
    std 3, CALL_SP(30)
    addi 4, 3, SLOT
    std 4, CALL_STACK(30)
    addi 4, 3, 16
    std 4, CALL_LINK(30)
    ld 4, 16(3)
    std 4, CALL_RETURN(30)
    ld 3, CALL_RECORD(30)
    ld 4, RECORD_BODY(3)
    std 4, 16(31)
    .endm

# The caller's address to where it's loaded from.
    .macro LET_PAD_GO
    ld 3, CALL_RETURN(30)
    std 3, 16(31)
    .cfi_offset 65, 16
    .endm

# The same, of a call whose caller's address was in the shadow; then that is cleared. In this order: unwinders and signal handlers
# always find one of both.
    .macro LET_GO
    LET_PAD_GO
    addi 3, 31, SLOT
    li 4, 1
    sldi 4, 4, 45
    xor 3, 3, 4
    li 4, 0
    std 4, 0(3)
    .endm

# The entry of functions that are traced; \call calls them, by the count register.
    .macro TRACED_ENTRY name, call
    BEGIN \name
    KEEP 1
    ENTERED \name
    KEEP_VECTORS
    addi 3, 31, SLOT
    ld 4, CALL_RECORD(30)
    lwz 4, RECORD_ID(4)
    mr 5, 30
    bl {slow_entry}
    nop
    mr 29, 3
    RESTORE_VECTORS
    ld 12, CALL_RECORD(30)
    ld 12, RECORD_BODY(12)
    mtctr 12
    cmpdi 29, 0
    RESTORE
    beq \call
    ld 0, SLOT(1)               # perhaps that's a pad
    mtlr 0
    bctr
    FINISH \name
    .endm

# The same where the hook is behind the prologue. It's as if the hook were a call.
    .macro TRACED_LATE name
    BEGIN \name
    .cfi_undefined 65
    KEEP 1
    ENTERED \name
    LATE
    KEEP_VECTORS
    mr 3, 30
    bl {slow_entry_late}
    nop
    RESTORE_VECTORS
    RESTORE
    blr
    FINISH \name
    .endm

# A traced call, and where it returns to.
    .macro TRACED_CALL name, return, personality
    BEGIN \name
    .cfi_personality 0x1b, \personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
    bctrl
    .globl \return
    .hidden \return
\return:
    KEEP 0
    EXIT .L\return\()_here
    LET_GO
    RESTORE_VECTORS
    RESTORE
    blr
    FINISH \name
    .endm

# A function has returned: that's recorded.
    .macro EXIT here
    OWN_HERE \here
    KEEP_VECTORS
    addi 3, 31, SLOT
    li 4, 0
    mr 5, 30
    bl {slow_exit}
    nop
    std 3, CALL_RETURN(30)
    .endm

# An exception passes through a traced call: the personality routine has had the unwinder come here with the
# exception in r3 and, in r4, the address of the unwinder's `_Unwind_Resume`. Then the caller's address is let go by \let_go.
    .macro LAND here, let_go
    OWN_HERE \here
    ld 29, 0(30)
    ld 28, 8(30)
    LANDED
    \let_go
    mr 3, 29
    mr 12, 28
    mtctr 12
    RESTORE_KEPT
    # The unwinder finds r2 by this load behind a call, as linkers make it. The call's frame is below S, so that it isn't taken
    # for that of the handler.
    stdu 1, -112(1)
    .cfi_def_cfa_offset 112
    .cfi_offset 65, 16
    std 2, 24(1)
    bctrl
    ld 2, 24(1)
    trap
    .endm

# A pad. Either call leaves in the link register, and then in the slot, which it was: a function returns to the first, and an exception
# lands behind.
    .macro PAD
    bl mcount_pad_exit
    bl mcount_pad_landing
    .endm
    .macro FRAME_AT_RETURN
    .cfi_def_cfa 1, 0
    .endm

# Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is the link register, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x41, 13, 0x92,0x41,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

# The same once that has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x41, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm
