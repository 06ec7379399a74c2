# A watched or traced call, 64-bit PowerPC (ELFv2): registers are kept for its handlers, who see and change them.
#
# The stub of an armed site loads the address of the site's record (src/record.rs) into r0 and jumps here by r12. The link
# register is the caller's address, and r1 the stack pointer of the caller, S. Its frame has room for what is called: the
# link register is kept at S+16. The *slot* is the word below S: nothing of the program's is there at the entry, and when the
# function has returned, nothing is there any more. While a call is watched, the link register has an address in here,
# and the true one is in the shadow of the stack, RET = slot ^ 2^45.
#
# r2 is the module's, whose functions may rely on it when a call returns, so it's kept, and routines make their own: from r12 as
# functions do, or from where they are.
#
# All registers are kept but r0, r12, the count register and the condition register's fields for everybody, which linkers'
# stubs change as well. Registers may be kept below the stack pointer: signal handlers leave 288 bytes alone.

    # The registers of a call: r3 to r10, r11, S, the site.
    .set CALL_R11, 64
    .set CALL_SP, 72
    .set CALL_PC, 80
    # The rest of it.
    .set CALL_STACK, 88
    .set CALL_RETURN, 96
    .set CALL_TARGET, 120
    .set CALL_ACTION, 148
    .set CALL_RECORD, 152
    .set CALL_AREA, 168
    .set CALL_HANDLER, 176
    .set CALL_LINK, 184
    .set CALL_SIZE, 192

    .set RECORD_BODY, 0
    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_ID, 28
    .set RECORD_SITE, 48

    .set TRACED_FLAG, 4

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

# The address of this thread's own memory.
    .macro THREAD register
    addis \register, 2, mcount_inside_thread@got@tprel@ha
    ld \register, mcount_inside_thread@got@tprel@l(\register)
    add \register, \register, mcount_inside_thread@tls
    .endm

# Unwinders find the caller's address in RET: CFA-8 ^ 2^45.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x41,0x07,0x38,0x1c,0x31,0x08,0x2d,0x24,0x27
    .endm

    .macro BEGIN name
    .globl \name
    .hidden \name
    .type \name, @function
    .balign 64
\name:
    .cfi_startproc
    .endm
    .macro FINISH name
    .cfi_endproc
    .size \name, . - \name
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
    std 0, CALL_RECORD(30)
    std 31, CALL_SP(30)
    addi 3, 31, SLOT
    std 3, CALL_STACK(30)
    addi 3, 31, 16
    std 3, CALL_LINK(30)
    .endm

# r2 of this library: of routines that r12 leads to, and of others, whose link register isn't needed any more.
    .macro OWN name
    addis 2, 12, .TOC.-\name\()@ha
    addi 2, 2, .TOC.-\name\()@l
    .endm
    .macro OWN_HERE name
    bcl 20, 31, \name
\name:
    mflr 12
    OWN \name
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

# f1 to f13, as vector-scalar registers, whose first half they are; f0; and v0 to v19. Changes r3 to r5.
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

# The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
# \busy. Changes r3 to r5, and so do the others.
    .macro AWAIT_TURN busy
    THREAD 3
    ld 4, 0(3)
    cmpld 31, 4
    blt \busy
    cmpdi 4, 0
    beq 9f
    LEFT_TURN \busy
9:
    .endm

# A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
# full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    li 5, 0
    stw 5, CALL_SIZE + 8(30)
    li 0, 185                   # sigaltstack
    li 3, 0
    addi 4, 30, CALL_SIZE
    sc
    lwz 5, CALL_SIZE + 8(30)
    andi. 5, 5, 1               # SS_ONSTACK
    bne \busy
    THREAD 3
    li 4, 0
    std 4, 0(3)
    .endm

# A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
# before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    lbz 3, -2048(1)
    THREAD 3
    ld 4, 0(3)
    std 4, CALL_HANDLER(30)
    std 31, 0(3)
    .endm
    .macro END_TURN
    THREAD 3
    ld 4, CALL_HANDLER(30)
    std 4, 0(3)
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

# Nobody is shown this call. Then it's only traced, if it is: the first condition is "not equal". r12 is that routine.
    .macro MISS traced
    ld 3, CALL_RECORD(30)
    ld 4, RECORD_LIST(3)
    cmpdi 4, 0
    beq 8f
    addis 5, 2, {missed}@toc@ha
    addi 5, 5, {missed}@toc@l
7:  ldarx 4, 0, 5
    addi 4, 4, 1
    stdcx. 4, 0, 5
    bne 7b
8:  lwz 4, RECORD_FLAGS(3)
    addis 12, 2, \traced@toc@ha
    addi 12, 12, \traced@toc@l
    andi. 4, 4, TRACED_FLAG
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

# A pad: calls, which leave in the link register which it was. A function returns to the first, and an exception lands at the second.
    .macro PAD
    bl mcount_pad_exit
    bl mcount_pad_landing
    .8byte 0
    .endm
    .macro BEGIN_PADS
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_OF_PAD_IN_LINK
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

# Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is the link register, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x41, 13, 0x92,0x41,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

# The same once that has been saved in the slot: v = *(CFA - 8).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x41, 13, 0x38, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

# What a pad leads to.
    .macro BEGIN_OF_PAD name
    BEGIN \name
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_OF_PAD_IN_LINK
    KEEP 0
    CALLER_OF_PAD
    .endm

    .text

# The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    mr 12, 0
    ld 12, RECORD_BODY(12)
    mtctr 12
    bctr
    FINISH mcount_inside_pass

# The entry of a watched function.
    BEGIN mcount_inside_enter
    KEEP 1
    OWN mcount_inside_enter
    ld 3, 16(31)
    std 3, CALL_RETURN(30)
    ld 3, CALL_RECORD(30)
    ld 3, RECORD_SITE(3)
    std 3, CALL_PC(30)
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mr 3, 30
    bl {entered}
    nop
    END_TURN
    RESTORE_VECTORS
    ld 12, CALL_TARGET(30)
    lwz 3, CALL_ACTION(30)
    cmpwi 3, 1
    mtctr 12
    RESTORE
    beq .Lcall
    bgt 6f
    bctr
6:  blr
    # A call that a handler makes.
    AS_KEPT
    .cfi_offset 65, 16
20: MISS mcount_inside_enter_traced
    mtctr 12
    mr 12, 3
    beq 21f
    RESTORE
    mr 0, 12
    mfctr 12
    bctr
    AS_KEPT
    .cfi_offset 65, 16
21: ld 12, RECORD_BODY(3)
    mtctr 12
    RESTORE
    bctr
    FINISH mcount_inside_enter

# A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
.Lcall:
    bctrl
    .globl mcount_inside_return
    .hidden mcount_inside_return
mcount_inside_return:
    KEEP 0
    OWN_HERE .Lreturn_here
    KEEP_VECTORS
    BEGIN_TURN
    mr 3, 30
    bl {left}
    nop
    END_TURN
    RESTORE_VECTORS
    LET_GO
    RESTORE
    blr
    FINISH mcount_inside_call

# The entry of a watched function whose hook is behind its prologue (`-pg`). It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    .cfi_undefined 65
    KEEP 1
    OWN mcount_inside_enter_late
    LATE
    ld 3, CALL_RECORD(30)
    ld 3, RECORD_SITE(3)
    std 3, CALL_PC(30)
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mr 3, 30
    bl {entered_late}
    nop
    END_TURN
    RESTORE_VECTORS
    RESTORE
    blr
    AS_KEPT
    .cfi_offset 65, 16
20: MISS mcount_inside_enter_traced_late
    mtctr 12
    mr 12, 3
    beq 21f
    RESTORE
    mr 0, 12
    mfctr 12
    bctr
    AS_KEPT
    .cfi_offset 65, 16
21: RESTORE
    blr
    FINISH mcount_inside_enter_late

# An exception passes through a watched call: the personality routine has had the unwinder come here with the
# exception in r3 and, in r4, the address of the unwinder's `_Unwind_Resume`. Then the caller's address is let go by \let_go.
    .macro LAND here, let_go
    OWN_HERE \here
    ld 29, 0(30)
    ld 28, 8(30)
    BEGIN_TURN
    mr 3, 30
    bl {unwound}
    nop
    std 3, CALL_RETURN(30)
    END_TURN
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

    BEGIN mcount_inside_landing
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
    KEEP 0
    LAND .Llanding_here, LET_GO
    FINISH mcount_inside_landing

# The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit
    OWN_HERE .Lpad_exit_here
    KEEP_VECTORS
    BEGIN_TURN
    mr 3, 30
    bl {left}
    nop
    END_TURN
    RESTORE_VECTORS
    LET_PAD_GO
    RESTORE
    blr
    FINISH mcount_pad_exit

# An exception passes through it.
    BEGIN_OF_PAD mcount_pad_landing
    LAND .Lpad_landing_here, LET_PAD_GO
    FINISH mcount_pad_landing

# What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    OWN mcount_inside_personality
    mflr 0
    mr 8, 0
    std 0, 16(1)
    stdu 1, -112(1)
    .cfi_def_cfa_offset 112
    .cfi_offset 65, 16
    bl {personality}
    nop
    addi 1, 1, 112
    .cfi_def_cfa_offset 0
    ld 0, 16(1)
    mtlr 0
    blr
    FINISH mcount_inside_personality

# The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    KEEP 1
    OWN mcount_inside_enter_traced
    KEEP_VECTORS
    addi 3, 31, SLOT
    ld 4, CALL_RECORD(30)
    lwz 4, RECORD_ID(4)
    bl {slow_entry}
    nop
    mr 29, 3
    RESTORE_VECTORS
    ld 12, CALL_RECORD(30)
    ld 12, RECORD_BODY(12)
    mtctr 12
    cmpdi 29, 0
    RESTORE
    beq .Ltraced
    ld 0, SLOT(1)               # perhaps that's a pad
    mtlr 0
    bctr
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
    .cfi_undefined 65
    KEEP 1
    OWN mcount_inside_enter_traced_late
    LATE
    KEEP_VECTORS
    mr 3, 30
    bl {slow_entry_late}
    nop
    RESTORE_VECTORS
    RESTORE
    blr
    FINISH mcount_inside_enter_traced_late

# A traced call, and where it returns to.
    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
.Ltraced:
    bctrl
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    KEEP 0
    OWN_HERE .Ltraced_here
    KEEP_VECTORS
    addi 3, 31, SLOT
    li 4, 0
    bl {slow_exit}
    nop
    std 3, CALL_RETURN(30)
    LET_GO
    RESTORE_VECTORS
    RESTORE
    blr
    FINISH mcount_inside_traced

# The memory of this thread, and the word that says which block of the trace is its own.
    .macro LOCAL_ENTRY name
    OWN \name
    .localentry \name, . - \name
    .endm
    BEGIN mcount_inside_own_thread
    LOCAL_ENTRY mcount_inside_own_thread
    THREAD 3
    blr
    FINISH mcount_inside_own_thread

    BEGIN mcount_inside_own_block
    LOCAL_ENTRY mcount_inside_own_block
    addis 3, 2, mcount_inside_block@got@tprel@ha
    ld 3, mcount_inside_block@got@tprel@l(3)
    add 3, 3, mcount_inside_block@tls
    blr
    FINISH mcount_inside_own_block

# What hooks call as long as nobody has made them idle. glibc's can't be called by those of `-mprofile-kernel`, who have no r2
# for that; r0 is the caller's address there.
    .globl _mcount
    .hidden _mcount
    .type _mcount, @function
    .balign 16
_mcount:
    .cfi_startproc
    mflr 12
    mtctr 12
    mtlr 0
    bctr
    .cfi_endproc
    .size _mcount, . - _mcount

# Behind all else: a conditional branch reaches 32 KiB, and they have more.
    PADS

# What a program calls for a marker: it has a hook, as compilers make one.
    .globl mcount_mark
    .hidden mcount_mark
    .type mcount_mark, @function
    .balign 16
mcount_mark:
    .cfi_startproc
    LOCAL_ENTRY mcount_mark
0:  nop
    b {mark}
    .cfi_endproc
    .size mcount_mark, . - mcount_mark
    .section __patchable_function_entries, "awo", @progbits, .text
    .balign 8
    .quad mcount_mark + 8
    .text
