// The agent's routines, AArch64, of the macros in `call.s`; how exceptions pass; room for stubs.

    .set RECORD_FRAME, 16

    .text
    TRACED_ENTRY mcount_entry, mcount_call
    TRACED_PROBE mcount_probe_entry, mcount_call
    TRACED_LATE mcount_pg_entry
    TRACED_CALL mcount_call, mcount_exit, mcount_personality

    ONE_FOR_ALL

// An exception passes through a traced call: the personality routine has had the unwinder come here with the
// exception in x0 and, in x1, the address of the unwinder's `_Unwind_Resume`.
    BEGIN mcount_landing
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    hint #38                    // bti jc
    KEEP 0
    stp x0, x1, [x29, #-32]     // nobody needs x9 and x10
    add x0, x29, #8
    mov x1, #2
    bl {slow_exit}
    str x0, [x19, #CALL_RETURN]
    LET_GO
    ldp x0, x16, [x29, #-32]
    LEAVE_FRAME
    br x16
    FINISH mcount_landing

    PADS mcount_personality

// The exit of a call that returns to a pad.
    BEGIN_OF_PAD mcount_pad_exit, mcount_personality
    KEEP_VECTORS
    add x0, x29, #8
    mov x1, #0
    mov x2, x19
    bl {slow_exit}
    str x0, [x19, #CALL_RETURN]
    LET_PAD_GO
    RESTORE_VECTORS
    RESTORE_ALL
    ret
    FINISH mcount_pad_exit

// An exception passes through it, as in `mcount_landing`.
    BEGIN_OF_PAD mcount_pad_landing, mcount_personality
    stp x0, x1, [x29, #-32]
    add x0, x29, #8
    mov x1, #2
    bl {slow_exit}
    str x0, [x19, #CALL_RETURN]
    LET_PAD_GO
    ldp x0, x16, [x29, #-32]
    LEAVE_FRAME
    br x16
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a traced call; the sixth argument is its own address.
    BEGIN mcount_personality
    hint #34
    mov x5, x30
    b mcount_personality_of
    FINISH mcount_personality

    RENDEZVOUS b

// kill(2) in the form of tgkill(w0, w1, w2). The recorder knows by the address behind the system call that
// the signal is a question to it.
    HIDDEN mcount_asked
    BEGIN mcount_ask
    mov x8, #131
    svc #0
mcount_asked:
    ret
    FINISH mcount_ask

// Where functions return to that the recorder has a thread of a running program call (`mcount attach`): the result is
// kept in x19, and the recorder hears of it as of a question.
    HIDDEN mcount_done, mcount_is_done
    .balign 16
mcount_done:
    mov x19, x0
    mov x8, #172                // getpid
    svc #0
    mov x20, x0
    mov x8, #178                // gettid
    svc #0
    mov x1, x0
    mov x0, x20
    mov x2, #23                 // SIGURG
    mov x8, #131                // tgkill
    svc #0
mcount_is_done:
    mov x8, #139                // rt_sigreturn
    svc #0
    udf #0

// What `prctl` and `syscall` of the C library begin with: is it for seccomp? A stub calls it by x17, and goes on with the
// function at the address in x16.
    BEGIN mcount_watch
    cmp w0, #22                 // PR_SET_SECCOMP
    mov w17, #277               // SYS_seccomp
    ccmp w0, w17, #4, ne
    mov w17, #167               // SYS_prctl
    ccmp w0, w17, #4, ne
    b.eq 1f
    br x16
1:  KEEP 1
    KEEP_VECTORS
    mov x0, x19
    bl {confine}
    RESTORE_VECTORS
    ldr x16, [x19, #CALL_RECORD]
    RESTORE
    br x16
    FINISH mcount_watch

// What functions call that tell of their calls (-finstrument-functions), with their addresses and where they return to: after these come the
// stack pointer, and where the call returns to.
    .macro TOLD name, target
    BEGIN \name
    bti c
    mov x2, sp
    mov x3, x30
    b \target
    FINISH \name
    .endm
    TOLD mcount_instrumented_enter, {instrumented_enter}
    TOLD mcount_instrumented_exit, {instrumented_exit}

    STUBS 0x2000000, 4096
