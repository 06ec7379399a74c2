// The agent's routines, RISC-V, of the macros in `call.s`; how exceptions pass; room for stubs.

    .set RECORD_FRAME, 16

    .text
    TRACED_ENTRY mcount_entry, mcount_call
    TRACED_LATE mcount_pg_entry
    TRACED_CALL mcount_call, mcount_exit, mcount_personality

    ONE_FOR_ALL

// An exception passes through a traced call: the personality routine has had the unwinder come here with the
// exception in a0 and, in a1, the address of the unwinder's `_Unwind_Resume`.
    BEGIN mcount_landing
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa sp, 0
    CALLER_IN_SHADOW
    KEEP 0
    sd a0, -40(s0)              // nobody needs t4 and t5
    sd a1, -48(s0)
    addi a0, s0, -8
    li a1, 2
    call {slow_exit}
    sd a0, CALL_RETURN(s1)
    LET_GO
    ld a0, -40(s0)
    ld t1, -48(s0)
    LEAVE_FRAME
    jr t1
    FINISH mcount_landing

    PADS mcount_personality

// The exit of a call that returns to a pad.
    BEGIN_OF_PAD mcount_pad_exit, mcount_personality
    KEEP_VECTORS
    addi a0, s0, -8
    li a1, 0
    mv a2, s1
    call {slow_exit}
    sd a0, CALL_RETURN(s1)
    LET_PAD_GO
    RESTORE_VECTORS
    RESTORE
    ret
    FINISH mcount_pad_exit

// An exception passes through it, as in `mcount_landing`.
    BEGIN_OF_PAD mcount_pad_landing, mcount_personality
    sd a0, -40(s0)
    sd a1, -48(s0)
    addi a0, s0, -8
    li a1, 2
    call {slow_exit}
    sd a0, CALL_RETURN(s1)
    LET_PAD_GO
    ld a0, -40(s0)
    ld t1, -48(s0)
    LEAVE_FRAME
    jr t1
    FINISH mcount_pad_landing

// What the unwinder asks when it comes through a traced call; the sixth argument is its own address.
    BEGIN mcount_personality
    mv a5, ra
    tail mcount_personality_of
    FINISH mcount_personality

    RENDEZVOUS tail

// kill(2) in the form of tgkill(a0, a1, a2). The recorder knows by the address behind the system call that
// the signal is a question to it.
    HIDDEN mcount_asked
    BEGIN mcount_ask
    li a7, 131
    ecall
mcount_asked:
    ret
    FINISH mcount_ask

// Where functions return to that the recorder has a thread of a running program call (`mcount attach`): the result is
// kept in s1, and the recorder hears of it as of a question. If the recorder is gone by then, the thread goes back to what it did,
// by the frame of a signal that it finds on its stack.
    HIDDEN mcount_done, mcount_is_done
    .balign 16
mcount_done:
    mv s1, a0
    li a7, 172                  // getpid
    ecall
    mv s2, a0
    li a7, 178                  // gettid
    ecall
    mv a1, a0
    mv a0, s2
    li a2, 23                   // SIGURG
    li a7, 131                  // tgkill
    ecall
mcount_is_done:
    li a7, 139                  // rt_sigreturn
    ecall
    unimp

// What `prctl` and `syscall` of the C library begin with: is it for seccomp? A stub jumps here by t1, and goes on with the
// function at the address in t0.
    BEGIN mcount_watch
    sext.w t1, a0
    addi t1, t1, -22            // PR_SET_SECCOMP
    beqz t1, 1f
    addi t1, t1, 22-167         // SYS_prctl
    beqz t1, 1f
    addi t1, t1, 167-277        // SYS_seccomp
    beqz t1, 1f
    mv t1, t0
    jr t1
1:  KEEP 1
    KEEP_VECTORS
    mv a0, s1
    call {confine}
    RESTORE_VECTORS
    ld t1, CALL_RECORD(s1)
    RESTORE
    jr t1
    FINISH mcount_watch

// What functions call that tell of their calls (-finstrument-functions), with their addresses and where they return to: after these come the
// stack pointer, and where the call returns to.
    .macro TOLD name, target
    BEGIN \name
    mv a2, sp
    mv a3, ra
    tail \target
    FINISH \name
    .endm
    TOLD mcount_instrumented_enter, {instrumented_enter}
    TOLD mcount_instrumented_exit, {instrumented_exit}

    STUBS 0x2000000, 4096
    .option pop
