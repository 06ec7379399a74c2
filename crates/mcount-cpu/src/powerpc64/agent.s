# The agent's routines, 64-bit PowerPC (ELFv2), of the macros in `call.s`; how exceptions pass; room for stubs.

# The rest of an entry: r0 has the routine's address, and r12 that of a place in the stub, in front of its record.
    .macro ENTERED name
    addi 3, 12, RECORD_FROM
    std 3, CALL_RECORD(30)
    mr 12, 0
    OWN \name, 12
    .endm

    .macro LANDED
    addi 3, 31, SLOT
    li 4, 2
    bl {slow_exit}
    nop
    std 3, CALL_RETURN(30)
    .endm

    .text
    TRACED_ENTRY mcount_entry, mcount_call
    TRACED_LATE mcount_pg_entry

    TRACED_CALL mcount_call, mcount_exit, mcount_personality

    ONE_FOR_ALL

    BEGIN mcount_landing
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa 1, 0
    CALLER_IN_SHADOW
    KEEP 0
    LAND .Llanding_here, LET_GO
    FINISH mcount_landing

# The exit of a call that returns to a pad.
    BEGIN_OF_PAD mcount_pad_exit, mcount_personality
    EXIT .Lpad_exit_here
    LET_PAD_GO
    RESTORE_VECTORS
    RESTORE
    blr
    FINISH mcount_pad_exit

# An exception passes through it, as in `mcount_landing`.
    BEGIN_OF_PAD mcount_pad_landing, mcount_personality
    LAND .Lpad_landing_here, LET_PAD_GO
    FINISH mcount_pad_landing

# What the unwinder asks when it comes through a traced call; the sixth argument is its own address.
    BEGIN mcount_personality
    OWN mcount_personality, 12
    mflr 0
    mr 8, 0
    std 0, 16(1)
    stdu 1, -112(1)
    .cfi_def_cfa_offset 112
    .cfi_offset 65, 16
    bl mcount_personality_of
    nop
    addi 1, 1, 112
    .cfi_def_cfa_offset 0
    ld 0, 16(1)
    mtlr 0
    blr
    FINISH mcount_personality

# What the dynamic linker calls instead of its function for debuggers, as one of its own: r2 has to be the same when it returns, and r12
# says nothing.
    BEGIN mcount_rendezvous
    mflr 0
    std 0, 16(1)
    .cfi_offset 65, 16
    stdu 1, -112(1)
    .cfi_def_cfa_offset 112
    std 2, 96(1)
    .cfi_offset 2, -16
    OWN_HERE .Lrendezvous_here
    bl mcount_rendezvous_of
    nop
    ld 2, 96(1)
    addi 1, 1, 112
    .cfi_def_cfa_offset 0
    ld 0, 16(1)
    mtlr 0
    blr
    FINISH mcount_rendezvous

# kill(2) in the form of tgkill(r3, r4, r5). The recorder knows by the address behind the system call that
# the signal is a question to it.
    HIDDEN mcount_asked
    BEGIN mcount_ask
    li 0, 250
    sc
mcount_asked:
    blr
    FINISH mcount_ask

# Where functions return to that the recorder has a thread of a running program call (`mcount attach`): the result is
# kept in r14, and the recorder hears of it as of a question. If the recorder is gone by then, the thread goes back to what it did,
# by the frame of a signal that it finds on its stack, above that of whom the handler would return to.
    HIDDEN mcount_done, mcount_is_done
    .balign 16
mcount_done:
    mr 14, 3
    li 0, 20                    # getpid
    sc
    mr 15, 3
    li 0, 207                   # gettid
    sc
    mr 4, 3
    mr 3, 15
    li 5, 23                    # SIGURG
    li 0, 250                   # tgkill
    sc
mcount_is_done:
    addi 1, 1, 128
    li 0, 172                   # rt_sigreturn
    sc
    trap

# What `prctl` and `syscall` of the C library begin with: is it for seccomp? A stub jumps here by r0, and goes on with the
# function at the address in r11. r12 may be the function's own address.
    BEGIN mcount_watch
    cmpwi 3, 22                 # PR_SET_SECCOMP
    beq 1f
    cmpwi 3, 171                # SYS_prctl
    beq 1f
    cmpwi 3, 358                # SYS_seccomp
    beq 1f
    mtctr 11
    bctr
1:  KEEP 1
    std 12, CALL_HANDLER(30)
    mr 12, 0
    OWN mcount_watch, 12
    KEEP_VECTORS
    mr 3, 30
    bl {confine}
    nop
    RESTORE_VECTORS
    ld 12, CALL_HANDLER(30)
    RESTORE
    mtctr 11
    bctr
    FINISH mcount_watch

# What functions call that tell of their calls (-finstrument-functions), with their addresses and where they return to: after these come the
# stack pointer, and where the call returns to. A linker's stub comes here, which has kept r2.
    .macro TOLD name, target
    .globl \name
    .hidden \name
    .type \name, @function
    .balign 16
\name:
    .cfi_startproc
    OWN \name, 12
    .localentry \name, . - \name
    mr 5, 1
    mflr 6
    b \target
    .cfi_endproc
    .size \name, . - \name
    .endm
    TOLD mcount_instrumented_enter, {instrumented_enter}
    TOLD mcount_instrumented_exit, {instrumented_exit}

# Behind all else: a conditional branch reaches 32 KiB, and they have more.
    PADS mcount_personality

    STUBS 0x800000, 65536
