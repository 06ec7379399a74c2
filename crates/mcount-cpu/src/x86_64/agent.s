# The agent's routines, x86-64, of the macros in `call.s`; how exceptions pass; room for stubs.

# Rust's baseline code, which the agent is made of, doesn't go beyond what FXSAVE keeps.
    .macro KEEP_STATE
    subq $512, %rsp
    andq $-64, %rsp
    fxsave64 (%rsp)
    .endm
    .macro RESTORE_STATE
    fxrstor64 (%rsp)
    .endm

    KEPT slow_entry_kept, {slow_entry}
    KEPT slow_exit_kept, {slow_exit}
    KEPT slow_pg_kept, {slow_entry_late}
    KEPT confine_kept, {confine}

    ENTRY mcount_entry, BEFORE, 1, 0
    ENTRY mcount_pg_entry, BEHIND, 1, 0
    ENTRY mcount_entry_untimed, BEFORE, 0, 0
    ENTRY mcount_pg_entry_untimed, BEHIND, 0, 0
    ENTRY mcount_entry_limited, BEFORE, 0, 1
    ENTRY mcount_pg_entry_limited, BEHIND, 0, 1
    ENTRY_ONLY mcount_entry_only, BEFORE, 1
    ENTRY_ONLY mcount_pg_entry_only, BEHIND, 1
    ENTRY_ONLY mcount_entry_only_untimed, BEFORE, 0
    ENTRY_ONLY mcount_pg_entry_only_untimed, BEHIND, 0

# The entry of a call whose arguments are recorded.
    BEGIN mcount_entry_values
    ENTER BEFORE
    SLOW BEFORE
    FINISH mcount_entry_values
    BEGIN mcount_pg_entry_values
    ENTER BEHIND
    SLOW BEHIND
    FINISH mcount_pg_entry_values

    EXIT mcount_exit, 1, 0
    EXIT mcount_exit_untimed, 0, 0
    EXIT mcount_exit_shortest, 1, 1
    EXIT mcount_exit_waits, 1, 2
    EXIT mcount_exit_callers, 1, 3

# The exit of a call by which what is recorded may have changed.
    BEGIN mcount_exit_limited
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    PUSH %rsi
    PUSH %rdi
    SLOW_EXIT
    FINISH mcount_exit_limited

# The return of a function that was entered by `mcount_pg_entry`.
# Which exit follows is said by the configuration.
    .balign 16
    nop
    .globl mcount_pg_return
    .hidden mcount_pg_return
    .type mcount_pg_return, @function
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    nop
mcount_pg_return:
    jmp *mcount_config+PG_EXIT(%rip)
    .cfi_endproc
    .size mcount_pg_return, . - mcount_pg_return

# An exception passes through a traced call: the personality routine has had the unwinder come here with the
# exception in %rax and, in %rdx, the address of the unwinder's `_Unwind_Resume`. %rsp is just above the slot.
    .globl mcount_landing
    .hidden mcount_landing
    .type mcount_landing, @function
    .balign 16
mcount_landing:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    PUSH %rax
    PUSH %rdx
    leaq 16(%rsp), %rdi
    movl $2, %esi
    call slow_exit_kept
    LET_GO 16
    POP %rdx
    POP %rdi
    jmp *%rdx
    .cfi_endproc
    .size mcount_landing, . - mcount_landing

    PADS mcount_personality

# The exit of a call that returns to a pad. %rsp is the slot.
    .type mcount_pad_exit, @function
    .balign 16
mcount_pad_exit:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    CALLER_OF_PAD
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    PUSH %rsi
    PUSH %rdi
    leaq 40(%rsp), %rdi
    xorl %esi, %esi
    call slow_exit_kept
    movq %rax, 40(%rsp)
    .cfi_offset %rip, -8
    POP %rdi
    POP %rsi
    POP %rcx
    POP %rdx
    POP %rax
    ret
    .cfi_endproc
    .size mcount_pad_exit, . - mcount_pad_exit

# An exception passes through it, as in `mcount_landing`. %rsp is the slot.
    .type mcount_pad_landing, @function
    .balign 16
mcount_pad_landing:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    CALLER_OF_PAD
    PUSH %rax
    PUSH %rdx
    leaq 16(%rsp), %rdi
    movl $2, %esi
    call slow_exit_kept
    movq %rax, 16(%rsp)
    .cfi_offset %rip, -8
    POP %rdx
    POP %rdi
    jmp *%rdx
    .cfi_endproc
    .size mcount_pad_landing, . - mcount_pad_landing

# What functions call that tell of their calls (-finstrument-functions), with their addresses and where they return to: after these come the
# stack pointer before the call, and where it returns to.
    .macro TOLD name, target
    .globl \name
    .hidden \name
    .type \name, @function
    .balign 16
\name:
    .cfi_startproc
    endbr64
    leaq 8(%rsp), %rdx
    movq (%rsp), %rcx
    jmp \target
    .cfi_endproc
    .size \name, . - \name
    .endm
    TOLD mcount_instrumented_enter, {instrumented_enter}
    TOLD mcount_instrumented_exit, {instrumented_exit}

# What the unwinder asks when it comes through a traced call; the sixth argument is its own address.
    .globl mcount_personality
    .hidden mcount_personality
mcount_personality:
    .cfi_startproc
    movq (%rsp), %r9
    jmp mcount_personality_of
    .cfi_endproc

# What the dynamic linker calls instead of its function for debuggers.
    .globl mcount_rendezvous
    .hidden mcount_rendezvous
mcount_rendezvous:
    .cfi_startproc
    jmp mcount_rendezvous_of
    .cfi_endproc

# kill(2) in the form of tgkill(%edi, %esi, %edx). The recorder knows by the address behind the system call that
# the signal is a question to it.
    .globl mcount_ask
    .hidden mcount_ask
    .globl mcount_asked
    .hidden mcount_asked
    .type mcount_ask, @function
    .balign 16
mcount_ask:
    .cfi_startproc
    movl $234, %eax
    syscall
mcount_asked:
    ret
    .cfi_endproc
    .size mcount_ask, . - mcount_ask

# Where functions return to that the recorder has a thread of a running program call (`mcount attach`): the result is
# kept in %rbx, and the recorder hears of it as of a question. If the recorder is gone by then, the thread goes back to what it did, by
# the frame of a signal that it finds on its stack. So it does behind a system call that it's made to do there.
    .globl mcount_done
    .hidden mcount_done
    .globl mcount_is_done
    .hidden mcount_is_done
    .balign 16
mcount_done:
    movq %rax, %rbx
    movl $39, %eax              # getpid
    syscall
    movl %eax, %edi
    movl $186, %eax             # gettid
    syscall
    movl %eax, %esi
    movl $23, %edx              # SIGURG
    movl $234, %eax             # tgkill
    syscall
mcount_is_done:
    movl $15, %eax              # rt_sigreturn
    syscall
    ud2

# What `prctl` and `syscall` of the C library begin with: is it for seccomp? A stub calls it, and goes on with the function.
    .globl mcount_watch
    .hidden mcount_watch
    .type mcount_watch, @function
    .balign 16
mcount_watch:
    .cfi_startproc
    cmpl $22, %edi              # PR_SET_SECCOMP
    je 1f
    cmpl $157, %edi             # SYS_prctl
    je 1f
    cmpl $317, %edi             # SYS_seccomp
    je 1f
    ret
1:  PUSH %rax
    PUSH %r9
    PUSH %r8
    PUSH %rcx
    PUSH %rdx
    PUSH %rsi
    PUSH %rdi
    movq %rsp, %rdi
    call confine_kept
    POP %rdi
    POP %rsi
    POP %rdx
    POP %rcx
    POP %r8
    POP %r9
    POP %rax
    ret
    .cfi_endproc
    .size mcount_watch, . - mcount_watch

# The unit of a marker calls it, in the middle of a function. All registers and the flags are kept, so that Rust finds them as they
# were: general ones by their numbers, from the lowest address on, then the flags and where in the unit it was.
    KEPT marker_kept, mcount_marker_of
    .hidden mcount_marker_of
    BEGIN mcount_marker
    pushfq
    .cfi_adjust_cfa_offset 8
    .irp register, %r15, %r14, %r13, %r12, %r11, %r10, %r9, %r8, %rdi, %rsi, %rbp, %rsp, %rbx, %rdx, %rcx, %rax
    PUSH \register
    .endr
    movq %rsp, %rdi
    call marker_kept
    .irp register, %rax, %rcx, %rdx, %rbx
    POP \register
    .endr
    leaq 8(%rsp), %rsp          # the stack pointer
    .cfi_adjust_cfa_offset -8
    .irp register, %rbp, %rsi, %rdi, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15
    POP \register
    .endr
    popfq
    .cfi_adjust_cfa_offset -8
    ret
    FINISH mcount_marker

# Room for stubs. One description of how to unwind serves them all, by the address within 32 bytes, and by what a byte of the
# stub says of its kind. At byte 16, where calls return to, stubs of all kinds are alike.
#
# A stub at the entry of a function stands for that function:
#   CFA = %rsp + ((((%rip + 11) & 31) < 22) << 3)
#   caller's address at (CFA - 8) ^ ((((%rip + 1) & 31) >> 1 == 8) * A)
# One behind a prologue is as if its function, which goes on at the address in the jump at its end, had called it and
# nothing had changed; but in some of those behind a prologue that has aligned the stack, %rbp is pushed:
#   CFA = %rsp + (pushed << 3), caller's address = that jump's target, %rbp = pushed ? *%rsp : %rbp

    # As in `mcount_cpu::x86_64::code`.
    .set STUB_KIND_AT, 30
    .set KIND_BACK, 1
    .set KIND_ALIGNED, 22

# Pushes where the stub is.
    .macro STUB_START
    .cfi_escape 0x80,0x00, 0x09,0xe0, 0x1a                      # %rip & -32
    .endm
# Pushes how far in the stub it is.
    .macro STUB_OFFSET
    .cfi_escape 0x80,0x00, 0x08,0x1f, 0x1a                      # %rip & 31
    .endm
# Pushes what the stub's kind is, but 0 at byte 16.
    .macro STUB_KIND
    STUB_START
    .cfi_escape 0x23,STUB_KIND_AT, 0x94,0x01                  # the byte there
    STUB_OFFSET
    .cfi_escape 0x40, 0x2e, 0x1e                                # * (offset != 16)
    .endm
# Pushes whether %rbp is pushed: at 0, 5, 9 and 13 of a stub of that kind.
    .macro STUB_PUSHED
    STUB_KIND
    .cfi_escape 0x08,KIND_ALIGNED, 0x29                       # ==
    .cfi_escape 0x0a,0x21,0x22                                  # 1 << 0 | 1 << 5 | 1 << 9 | 1 << 13
    STUB_OFFSET
    .cfi_escape 0x25, 0x31, 0x1a, 0x1a                          # >> offset & 1 & it
    .endm

    .section .stubs, "axR", @nobits
    .globl mcount_stubs
    .hidden mcount_stubs
    .balign 4096
mcount_stubs:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    # The CFA.
    .cfi_escape 0x0f, 74
    STUB_KIND
    .cfi_escape 0x28,16,0                                       # to 1 if it isn't 0
    .cfi_escape 0x77,0x00, 0x80,0x0b, 0x08,0x1f, 0x1a, 0x08,0x16, 0x2d, 0x33, 0x24, 0x22
    .cfi_escape 0x2f,37,0                                       # to 2
    .cfi_escape 0x77,0x00                                       # 1: %rsp
    STUB_PUSHED
    .cfi_escape 0x33, 0x24, 0x22                                # << 3, +
    .cfi_escape 0x96                                            # 2: nop, as elfutils refuses jumps behind the end
    # The value of %rbp.
    .cfi_escape 0x16,0x06, 44
    STUB_PUSHED
    .cfi_escape 0x28,5,0                                        # to 1 if it isn't 0
    .cfi_escape 0x76,0x00                                       # %rbp
    .cfi_escape 0x2f,3,0                                        # to 2
    .cfi_escape 0x77,0x00, 0x06                                 # 1: *%rsp
    .cfi_escape 0x96                                            # 2: nop
    # The value of %rip; the CFA is on the stack.
    .cfi_escape 0x16,0x10, 85
    STUB_KIND
    .cfi_escape 0x12, 0x28,27,0                                 # to 1 if it isn't 0
    .cfi_escape 0x13, 0x38, 0x1c, 0x80,0x01, 0x08,0x1f, 0x1a, 0x31, 0x25, 0x38, 0x29
    .cfi_escape 0x0e, 0x00,0x00,0x00,0x08,0x00,0x40,0x00,0x00, 0x1e, 0x27, 0x06    # * A, ^, the word there
    .cfi_escape 0x2f,36,0                                       # to 3
    .cfi_escape 0x12, 0x30 + KIND_BACK, 0x29, 0x28,22,0         # 1: to 2 if it's that kind
    STUB_START                                                  # the target: 32 bits there + 4 + where they are
    .cfi_escape 0x22, 0x12, 0x23,0x04, 0x16, 0x94,0x04, 0x08,0x20, 0x24, 0x08,0x20, 0x26, 0x22
    .cfi_escape 0x2f,8,0                                        # to 3
    STUB_START                                                  # 2: 64 bits there
    .cfi_escape 0x23,0x06, 0x06
    .cfi_escape 0x96                                            # 3: nop
    .set mcount_stubs_size, 0x4000000
    .skip mcount_stubs_size
    .cfi_endproc
    .globl mcount_stubs_end
    .hidden mcount_stubs_end
mcount_stubs_end:

# Room for the first instructions of functions that have a probe, in units of 256 bytes (`mcount_live::x86_64::unit`). A unit's code
# is in its first 64 bytes, and each byte there has one 64 bytes behind it that says which row of the unit holds at that
# instruction: rows are in the second half, as
#   0: .long distance of the CFA from its register
#   4: .byte 0 if that's %rsp, 1 if it's %rbp
#   6: for each of %rbx, %rbp, %r12 to %r15, a byte: how many words below the CFA it's saved, or 0
# The caller's address is at CFA - 8.

    .set UNIT_ROWS, 128
    .set UNIT_SAVED, 6

# Pushes where the row is.
    .macro UNIT_ROW
    .cfi_escape 0x80,0xc0,0x00, 0x94,0x01                      # the byte at %rip + 64
    .cfi_escape 0x80,0x00, 0x0b,0x00,0xff, 0x1a                 # %rip & -256
    .cfi_escape 0x23,UNIT_ROWS & 127 | 128,UNIT_ROWS >> 7, 0x22 # + the rows, +
    .endm
# The value of a register by its number, and its place in a row; the CFA is on the stack.
    .macro UNIT_SAVES register, place
    .cfi_escape 0x16,\register, 35
    UNIT_ROW
    .cfi_escape 0x23,UNIT_SAVED + \place, 0x94,0x01
    .cfi_escape 0x12, 0x28,7,0                                  # to 1 if it isn't 0
    .cfi_escape 0x13, 0x13, 0x70 + \register,0x00, 0x2f,4,0     # as it is, to 2
    .cfi_escape 0x33, 0x24, 0x1c, 0x06                          # 1: the word at CFA - (it << 3)
    .cfi_escape 0x96                                            # 2: nop
    .endm

    .globl mcount_moved
    .hidden mcount_moved
    .balign 4096
mcount_moved:
    .cfi_startproc
    .cfi_escape 0x0f, 40
    UNIT_ROW
    .cfi_escape 0x12, 0x94,0x04, 0x08,0x20, 0x24, 0x08,0x20, 0x26   # the distance
    .cfi_escape 0x16, 0x23,0x04, 0x94,0x01, 0x28,5,0            # to 1 if the register isn't %rsp
    .cfi_escape 0x77,0x00, 0x2f,2,0                             # to 2
    .cfi_escape 0x76,0x00                                       # 1: %rbp
    .cfi_escape 0x22                                            # 2: +
    UNIT_SAVES 3, 0
    UNIT_SAVES 6, 1
    UNIT_SAVES 12, 2
    UNIT_SAVES 13, 3
    UNIT_SAVES 14, 4
    UNIT_SAVES 15, 5
    .skip 0x4000000
    .cfi_endproc
    .globl mcount_moved_end
    .hidden mcount_moved_end
mcount_moved_end:
    .globl mcount_rooms_end
    .hidden mcount_rooms_end
mcount_rooms_end:
    .section .note.GNU-stack, "", @progbits
    .text
# As it was before.
    .intel_syntax noprefix
