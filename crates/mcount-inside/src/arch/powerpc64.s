# Watched calls, 64-bit PowerPC (ELFv2): registers are kept for handlers, who see and change them. What these have in common with traced
# calls is in `call.s` of `mcount-cpu`.
#
# The stub of an armed site has the address of its record (src/record.rs) in r0, and jumps here by r12.

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

    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_SITE, 48

    .set TRACED_FLAG, 4

# The address of this thread's own memory.
    .macro THREAD register
    addis \register, 2, mcount_inside_thread@got@tprel@ha
    ld \register, mcount_inside_thread@got@tprel@l(\register)
    add \register, \register, mcount_inside_thread@tls
    .endm

# The rest of an entry.
    .macro ENTERED name
    std 0, CALL_RECORD(30)
    OWN \name, 12
    .endm

    .macro LANDED
    BEGIN_TURN
    mr 3, 30
    bl {unwound}
    nop
    std 3, CALL_RETURN(30)
    END_TURN
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
    ENTERED mcount_inside_enter
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
    ENTERED mcount_inside_enter_late
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

    BEGIN mcount_inside_landing
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
    KEEP 0
    LAND .Llanding_here, LET_GO
    FINISH mcount_inside_landing

# The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN_OF_PAD mcount_pad_exit, mcount_inside_personality
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
    BEGIN_OF_PAD mcount_pad_landing, mcount_inside_personality
    LAND .Lpad_landing_here, LET_PAD_GO
    FINISH mcount_pad_landing

# What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    BEGIN mcount_inside_personality
    OWN mcount_inside_personality, 12
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

# Functions that are traced and have no handlers.
    TRACED_ENTRY mcount_inside_enter_traced, mcount_inside_traced
    TRACED_LATE mcount_inside_enter_traced_late
    TRACED_CALL mcount_inside_traced, mcount_inside_traced_return, mcount_inside_personality

# The memory of this thread, and the word that says which block of the trace is its own.
    .macro LOCAL_ENTRY name
    OWN \name, 12
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
    PADS mcount_inside_personality

# What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    LOCAL_ENTRY mcount_mark
0:  nop
    b {mark}
    .cfi_endproc
    MARK_ENDS 8, 8
