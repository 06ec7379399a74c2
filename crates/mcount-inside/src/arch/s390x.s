# A watched or traced call, s390x: registers are kept for its handlers, who see and change them.
#
# The stub of an armed site stores r0 at 8(r15), which is for compilers, and jumps here by r1 with the address of the site's
# record (src/record.rs) in r0. r14 is the caller's address, and r15 the stack pointer of the caller, S. The 160 bytes
# from S on are for whoever is called to keep registers in; its canonical frame address is behind them. The *slot* is the word
# below S: nothing of the program's is there at the entry, and when the function has returned, nothing is there any more.
# While a call is watched, r14 has an address in here, and the true one is in the shadow of the stack, RET = slot ^ 2^46.
#
# All registers are kept but r1 and the condition code, which linkers' stubs change as well; vector registers, where the
# processor has them.
#
# The frame of a watched call is said to be 8 bytes higher than that of the function that it calls. So unwinders tell the
# two apart, and an exception's way is only looked at, in the personality routine, and not diverted.

    # The registers of a call: r2 to r6, r0, S, the site.
    .set CALL_R0, 40
    .set CALL_SP, 48
    .set CALL_PC, 56
    # The rest of it.
    .set CALL_STACK, 64
    .set CALL_RETURN, 72
    .set CALL_TARGET, 96
    .set CALL_ACTION, 124
    .set CALL_RECORD, 128
    .set CALL_SAVED, 136
    .set CALL_AREA, 144
    .set CALL_HANDLER, 152
    .set CALL_LINK, 160
    .set CALL_SIZE, 192

    .set RECORD_BODY, 0
    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24
    .set RECORD_ID, 28
    .set RECORD_SITE, 48

    .set TRACED_FLAG, 4

    # Where registers are kept, from S on, and what a routine needs below: what it calls may use the lowest 160 bytes; then
    # the call, the vector registers, and the slot.
    .set KEPT_R6, 48
    .set KEPT_R14, 112
    .set CALL, 192
    .set FRAME, CALL + CALL_SIZE + 512 + 8

# The address of this thread's own memory. Changes r3.
    .macro THREAD
    ear %r1, %a0
    sllg %r1, %r1, 32
    ear %r1, %a1
    lgrl %r3, mcount_inside_thread@INDNTPOFF
    agr %r1, %r3
    .endm

# Unwind information where r15 is S: at an entry, and where a watched call returns to, whose frame is 8 bytes higher, and whose
# caller's address is in RET: CFA-176 ^ 2^46. r15 is CFA-160, CFA-168.
    .macro AT_ENTRY
    .cfi_def_cfa 15, 160
    .cfi_escape 0x14,0x0f,0x14
    .endm
    .macro AT_RETURN
    .cfi_def_cfa 15, 168
    .cfi_escape 0x14,0x0f,0x15
    .endm
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x0e,0x09,0x0a,0x00,0xb0,0x1c,0x31,0x08,0x2e,0x24,0x27
    .endm
    .macro KEPT distance
    .cfi_def_cfa 11, \distance
    .cfi_offset 6, 48 - \distance
    .cfi_offset 7, 56 - \distance
    .cfi_offset 8, 64 - \distance
    .cfi_offset 9, 72 - \distance
    .cfi_offset 10, 80 - \distance
    .cfi_offset 11, 88 - \distance
    .cfi_offset 12, 96 - \distance
    .cfi_offset 13, 104 - \distance
    .cfi_offset 15, 120 - \distance
    .endm

# Keeps all general registers: r11 is S then, r10 the call. With `link`, r14 is the address of whom to return to.
    .macro KEEP link
    stmg %r6, %r15, KEPT_R6(%r15)
    lgr %r11, %r15
    .if \link
    KEPT 160
    .cfi_offset 14, -48
    .else
    KEPT 168
    .endif
    lay %r15, -FRAME(%r15)
    nill %r15, 0xffc0
    stg %r11, 0(%r15)
    la %r10, CALL(%r15)
    stmg %r2, %r6, 0(%r10)
    lg %r1, 8(%r11)
    stg %r1, CALL_R0(%r10)
    stg %r0, CALL_RECORD(%r10)
    stg %r11, CALL_SP(%r10)
    lay %r1, -8(%r11)
    stg %r14, 0(%r1)
    stg %r1, CALL_STACK(%r10)
    la %r1, KEPT_R14(%r11)
    stg %r1, CALL_LINK(%r10)
    stfpc CALL_SAVED(%r10)
    .endm

# Puts them back, but for r1; the condition code is what it was.
    .macro RESTORE
    lmg %r2, %r5, 0(%r10)
    lg %r0, CALL_R0(%r10)
    lmg %r6, %r15, KEPT_R6(%r11)
    .cfi_restore 6
    .cfi_restore 7
    .cfi_restore 8
    .cfi_restore 9
    .cfi_restore 10
    .cfi_restore 11
    .cfi_restore 12
    .cfi_restore 13
    .cfi_restore 14
    .endm

# Floating-point registers, each in the first half of sixteen bytes, as vector registers have them. The instructions for those
# aren't known to assemblers for older processors: vstm %v0,%v15,0(%r1), vstm %v16,%v31,256(%r1), vlm.
    .macro KEEP_VECTORS
    la %r1, CALL_SIZE(%r10)
    stg %r1, CALL_AREA(%r10)
    larl %r3, {long_vectors}
    chsi 0(%r3), 0
    je 8f
    .byte 0xe7, 0x0f, 0x10, 0x00, 0x00, 0x3e
    .byte 0xe7, 0x0f, 0x11, 0x00, 0x0c, 0x3e
    j 9f
8:
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    std %f\n, 16 * \n(%r1)
    .endr
9:
    .endm
    .macro RESTORE_VECTORS
    lfpc CALL_SAVED(%r10)
    lg %r1, CALL_AREA(%r10)
    larl %r3, {long_vectors}
    chsi 0(%r3), 0
    je 8f
    .byte 0xe7, 0x0f, 0x10, 0x00, 0x00, 0x36
    .byte 0xe7, 0x0f, 0x11, 0x00, 0x0c, 0x36
    j 9f
8:
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    ld %f\n, 16 * \n(%r1)
    .endr
9:
    .endm

# The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
# \busy. Changes r1, r3 and r4, and so do the others.
    .macro AWAIT_TURN busy
    THREAD
    lg %r4, 0(%r1)
    clgr %r11, %r4
    jl \busy
    ltgr %r4, %r4
    je 9f
    LEFT_TURN \busy
9:
    .endm

# A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
# full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    la %r3, CALL_SIZE(%r10)
    xc 0(24, %r3), 0(%r3)
    lghi %r2, 0
    svc 186                     # sigaltstack
    tm CALL_SIZE + 11(%r10), 1  # SS_ONSTACK
    jo \busy
    THREAD
    xc 0(8, %r1), 0(%r1)
    .endm

# A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
# before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    lay %r1, -2048(%r15)
    cli 0(%r1), 0
    THREAD
    lg %r4, 0(%r1)
    stg %r4, CALL_HANDLER(%r10)
    stg %r11, 0(%r1)
    .endm
    .macro END_TURN
    THREAD
    lg %r4, CALL_HANDLER(%r10)
    stg %r4, 0(%r1)
    .endm

# Nobody is shown this call. Then it's only traced, if it is: the condition is "ones". r1 is the record.
    .macro MISS
    lg %r1, CALL_RECORD(%r10)
    lg %r3, RECORD_LIST(%r1)
    ltgr %r3, %r3
    je 8f
    larl %r3, {missed}
    lg %r4, 0(%r3)
7:  la %r5, 1(%r4)
    csg %r4, %r5, 0(%r3)
    jne 7b
8:  tm RECORD_FLAGS + 3(%r1), TRACED_FLAG
    .endm

# The caller's address to where it's loaded from.
    .macro LET_PAD_GO
    lg %r1, CALL_RETURN(%r10)
    stg %r1, KEPT_R14(%r11)
    .cfi_offset 14, -56
    .endm

# The same, of a call whose caller's address was in the shadow; then that is cleared. In this order: unwinders and signal handlers
# always find one of both.
    .macro LET_GO
    LET_PAD_GO
    lay %r3, -8(%r11)
    xihf %r3, 0x4000
    xc 0(8, %r3), 0(%r3)
    .endm

# A pad: a call, which leaves in r14 which it was.
    .macro PAD
    brasl %r14, mcount_pad_exit
    .endm
    .macro BEGIN_PADS personality
    .cfi_startproc
    .cfi_personality 0x1b, \personality
    AT_RETURN
    CALLER_OF_PAD_IN_LINK
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

# Unwinders find the caller's address at (v & -16) + *(v & -4096), where v is r14, which leads to the pad.
    .macro CALLER_OF_PAD_IN_LINK
    .cfi_escape 0x10,0x0e, 12, 0x7e,0x00, 0x09,0xf0, 0x1a, 0x12, 0x11,0x80,0x60, 0x1a, 0x06, 0x22
    .endm

# The same once that has been saved in the slot: v = *(CFA - 176).
    .macro CALLER_OF_PAD
    .cfi_escape 0x10,0x0e, 15, 0x0a,0x00,0xb0, 0x1c, 0x06, 0x09,0xf0, 0x1a, 0x12, 0x0b,0xf0,0x00, 0x1a, 0x06, 0x22
    .endm

    .text

# The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    AT_ENTRY
    lgr %r1, %r0
    lg %r1, RECORD_BODY(%r1)
    lg %r0, 8(%r15)
    br %r1
    FINISH mcount_inside_pass

# The entry of a watched function.
    BEGIN mcount_inside_enter
    AT_ENTRY
    KEEP 1
    stg %r14, CALL_RETURN(%r10)
    lgr %r1, %r0
    lg %r1, RECORD_SITE(%r1)
    stg %r1, CALL_PC(%r10)
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    lgr %r2, %r10
    brasl %r14, {entered}
    END_TURN
    RESTORE_VECTORS
    lg %r1, CALL_TARGET(%r10)
    l %r3, CALL_ACTION(%r10)
    chi %r3, 1
    RESTORE
    AT_ENTRY
    jge mcount_inside_call
    jh 6f
    br %r1
6:  br %r14
    # A call that a handler makes.
    KEPT 160
    .cfi_offset 14, -48
20: MISS
    RESTORE
    AT_ENTRY
    lgr %r0, %r1
    jgo mcount_inside_enter_traced
    jg mcount_inside_pass
    FINISH mcount_inside_enter

# A watched call, and where it returns to.
    BEGIN mcount_inside_call
    .cfi_personality 0x1b, mcount_inside_personality
    AT_RETURN
    CALLER_IN_SHADOW
    basr %r14, %r1
    .globl mcount_inside_return
    .hidden mcount_inside_return
mcount_inside_return:
    stg %r0, 8(%r15)
    larl %r14, mcount_inside_return     # perhaps the function has returned by another register
    KEEP 0
    KEEP_VECTORS
    BEGIN_TURN
    lgr %r2, %r10
    brasl %r14, {left}
    END_TURN
    RESTORE_VECTORS
    LET_GO
    RESTORE
    AT_RETURN
    br %r14
    FINISH mcount_inside_call

# The exit of a call that returns to a pad, whether it's watched or only traced.
    BEGIN mcount_pad_exit
    .cfi_personality 0x1b, mcount_inside_personality
    AT_RETURN
    CALLER_OF_PAD_IN_LINK
    stg %r0, 8(%r15)
    KEEP 0
    CALLER_OF_PAD
    KEEP_VECTORS
    BEGIN_TURN
    lgr %r2, %r10
    brasl %r14, {left}
    END_TURN
    RESTORE_VECTORS
    LET_PAD_GO
    RESTORE
    AT_RETURN
    br %r14
    FINISH mcount_pad_exit

# No hook is behind a prologue, and no exception is stopped: nobody goes to these.
    .irp name, enter_late, enter_traced_late, landing
    .globl mcount_inside_\name
    .hidden mcount_inside_\name
    .set mcount_inside_\name, mcount_inside_pass
    .endr

# An exception passes through the watched call whose slot is in r2, and which returns to the address in r3.
    BEGIN mcount_inside_unwound
    AT_ENTRY
    stmg %r6, %r15, KEPT_R6(%r15)
    lgr %r11, %r15
    KEPT 160
    .cfi_offset 14, -48
    lay %r15, -FRAME(%r15)
    nill %r15, 0xffc0
    stg %r11, 0(%r15)
    la %r10, CALL(%r15)
    stg %r2, CALL_STACK(%r10)
    stg %r3, CALL_RETURN(%r10)
    BEGIN_TURN
    lgr %r2, %r10
    brasl %r14, {unwound}
    END_TURN
    lmg %r6, %r15, KEPT_R6(%r11)
    AT_ENTRY
    br %r14
    FINISH mcount_inside_unwound

# What the unwinder asks when it comes through a watched call; the sixth argument is its own address, on the stack.
    BEGIN mcount_inside_personality
    AT_ENTRY
    stmg %r14, %r15, KEPT_R14(%r15)
    .cfi_offset 14, -48
    .cfi_offset 15, -40
    lay %r15, -168(%r15)
    .cfi_def_cfa_offset 328
    stg %r14, 160(%r15)
    brasl %r14, {personality}
    lmg %r14, %r15, 168 + KEPT_R14(%r15)
    .cfi_restore 14
    AT_ENTRY
    br %r14
    FINISH mcount_inside_personality

# The entry of a function that is traced and has no handlers.
    BEGIN mcount_inside_enter_traced
    AT_ENTRY
    KEEP 1
    KEEP_VECTORS
    lay %r2, -8(%r11)
    lg %r1, CALL_RECORD(%r10)
    llgf %r3, RECORD_ID(%r1)
    brasl %r14, {slow_entry}
    lgr %r8, %r2
    RESTORE_VECTORS
    lg %r1, CALL_RECORD(%r10)
    lg %r1, RECORD_BODY(%r1)
    ltgr %r8, %r8
    je 5f
    lay %r3, -8(%r11)           # perhaps that's a pad
    mvc KEPT_R14(8, %r11), 0(%r3)
5:  RESTORE
    AT_ENTRY
    jge mcount_inside_traced
    br %r1
    FINISH mcount_inside_enter_traced

# A traced call, and where it returns to.
    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    AT_RETURN
    CALLER_IN_SHADOW
    basr %r14, %r1
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    stg %r0, 8(%r15)
    larl %r14, mcount_inside_traced_return
    KEEP 0
    KEEP_VECTORS
    lay %r2, -8(%r11)
    lghi %r3, 0
    brasl %r14, {slow_exit}
    stg %r2, CALL_RETURN(%r10)
    LET_GO
    RESTORE_VECTORS
    RESTORE
    AT_RETURN
    br %r14
    FINISH mcount_inside_traced

    PADS mcount_inside_personality

# What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    .byte 0xc0, 0x04, 0, 0, 0, 0
    jg {mark}
    .cfi_endproc
    MARK_ENDS 0, 8
