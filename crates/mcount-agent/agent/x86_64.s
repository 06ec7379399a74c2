# The entry and exit of a traced call, x86-64.
#
# A stub (see `mcount_live::x86_64`) calls `mcount_entry`; the traced function returns through the stub to
# `mcount_exit`. Both may clobber nothing but %r11 and the flags, and at the exit also the flags only: a
# function may have any calling convention as long as %r11 is scratch in it.
#
# The *slot* is the word on the stack that holds the caller's address. Three shadows of the stack, each at a
# constant distance, belong to it:
#   RET = slot ^ 2^46           the caller's address, private memory; 0: this slot isn't watched
#   TIM = slot ^ (2^46 | 2^45)  when the call began, shared with the trace
#   OPN = slot ^ 2^45           thread number << 32 | function number, shared; 0: no call is open here
#
# %gs leads to the thread's block. It isn't the thread's if OWNER differs from the thread pointer: a new
# thread inherits its parent's %gs, and a forked child finds zeroes. Then, and in all rarer cases, the slow
# path in Rust does the work.

    .set OWNER, 0
    .set LOW, 8
    .set SIZE, 16
    .set HEAD, 24
    .set END, 32
    .set BASE, 40
    .set TAG, 48

    .set COUNT, 80
    .set BUDGET, 88
    .set INNERMOST, 96

    # Fields of the configuration.
    .hidden mcount_config
    .set SHORTEST, 24
    .set PG_EXIT, 32

# What routines differ in.
    .set BEFORE, 0              # the hook is at the function's entry, %rsp is the slot but for what is pushed
    .set BEHIND, 1              # it is behind the prologue, the slot is above the frame pointer

# The time into %rax; %rdx is lost. Without a clock it is a count of this thread's events.
    .macro NOW clock
    .if \clock
    rdtsc
    shlq $32, %rdx
    orq %rdx, %rax
    .else
    movl $1, %eax
    xaddq %rax, %gs:COUNT
    .endif
    .endm

    .macro BEGIN name
    .text
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

    .macro PUSH register
    pushq \register
    .cfi_adjust_cfa_offset 8
    .endm

    .macro POP register
    popq \register
    .cfi_adjust_cfa_offset -8
    .endm

# The slot into %rcx.
    .macro SLOT place
    .if \place == BEFORE
    leaq 32(%rsp), %rcx
    .else
    leaq 8(%rbp), %rcx
    .endif
    .endm

# To 1 if %gs doesn't lead to this thread's block.
    .macro OWN
    movq %fs:0, %rax
    cmpq %rax, %gs:OWNER
    jne 1f
    .endm

# To 1 if the shadows of the slot in %rcx may not be mapped.
    .macro MAPPED
    movq %rcx, %rdx
    subq %gs:LOW, %rdx
    cmpq %gs:SIZE, %rdx
    jae 1f
    .endm

# The way back to the stub. Carry: the function is to be entered without watching its return.
    .macro LEAVE carry
    POP %rcx
    POP %rdx
    POP %rax
    \carry
    ret
    .cfi_adjust_cfa_offset 24
    .endm

# The rest of a routine: the slow path, where everything that Rust may clobber is kept; %rcx is the slot.
    .macro SLOW place
    movq 24(%rsp), %r11
    PUSH %rdi
    PUSH %rsi
    movl 21(%r11), %esi
    movq %rcx, %rdi
    .if \place == BEFORE
    call slow_entry_kept
    cmpl $1, %eax               # carry: 0 is below 1
    cmc                         # carry: the answer isn't 0
    .else
    call slow_pg_kept
    .endif
    POP %rsi
    POP %rdi
    POP %rcx
    POP %rdx
    POP %rax
    ret
    .endm

# The entry of a traced call. With `limited`, whatever is recorded takes the slow path.
    .macro ENTRY name, place, clock, limited
    BEGIN \name
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    SLOT \place
    OWN
    .if \limited
    movq 24(%rsp), %r11
    cmpb $0, 24(%r11)           # a function by which what is recorded changes
    jne 1f
    cmpq $0, %gs:BUDGET
    jne 1f
    cmpq %gs:INNERMOST, %rcx    # that one was left by longjmp
    jae 1f
    movq (%rcx), %r11
    leaq mcount_pg_return(%rip), %rax
    cmpq %rax, %r11
    je 1f
    leaq mcount_stubs(%rip), %rax
    subq %rax, %r11
    cmpq $mcount_stubs_size, %r11
    jb 1f                       # a tail call of a function that was recorded
    LEAVE stc
    .else
    MAPPED
    movq (%rcx), %r11
    btcq $46, %rcx
    cmpq $0, (%rcx)
    jne 2f
    movq %r11, (%rcx)
    NOW \clock
    btcq $45, %rcx
    movq %rax, (%rcx)
    movq 24(%rsp), %r11
    movl 21(%r11), %eax
    orq %gs:TAG, %rax
    btcq $46, %rcx
    movq %rax, (%rcx)
    .if \place == BEHIND
    leaq mcount_pg_return(%rip), %r11
    movq %r11, 8(%rbp)
    .endif
    LEAVE clc
2:  btcq $46, %rcx
    .endif
1:  SLOW \place
    FINISH \name
    .endm

# The entry of a call of which nothing more is recorded. The record: w1 = slot bits << 2,
# w0 = (now - base) << 24 | function.
    .macro ENTRY_ONLY name, place, clock
    BEGIN \name
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    SLOT \place
    OWN
    NOW \clock
    movq %gs:BASE, %r11
    subq %r11, %rax
    movq %rax, %rdx
    shrq $40, %rdx
    jnz 1f
    movl $16, %edx
    xaddq %rdx, %gs:HEAD
    cmpq %gs:END, %rdx
    jae 1f
    cmpq %gs:BASE, %r11
    jne 1f
    shrl $1, %ecx
    andl $0xfffffc, %ecx
    movq %rcx, 8(%rdx)
    shlq $24, %rax
    movq 24(%rsp), %r11
    movl 21(%r11), %ecx
    orq %rcx, %rax
    movq %rax, (%rdx)
    LEAVE stc
1:  SLOT \place
    SLOW \place
    FINISH \name
    .endm

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

# Calls mcount_slow_entry with %rdi, %rsi and %rdx as they are, and keeps the rest of what a call may clobber:
# vector and x87 state by fxsave, which Rust's baseline code doesn't go beyond.
    .macro KEPT name, routine
    .type \name, @function
\name:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %r8
    .cfi_offset %r8, -24
    pushq %r9
    .cfi_offset %r9, -32
    pushq %r10
    .cfi_offset %r10, -40
    pushq %r11
    .cfi_offset %r11, -48
    subq $512, %rsp
    andq $-64, %rsp
    fxsave64 (%rsp)
    cld
    call \routine
    fxrstor64 (%rsp)
    leaq -32(%rbp), %rsp
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm

    KEPT slow_entry_kept, mcount_slow_entry
    KEPT slow_exit_kept, mcount_slow_exit
    KEPT slow_pg_kept, mcount_slow_pg

# Unwinders find the caller's address in RET: CFA-8 ^ 2^46.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x10,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    .endm

# The traced function has returned: %rsp is just above the slot. With `shortest`, calls that were shorter than
# the configuration says aren't recorded.
    .macro EXIT name, clock, shortest
    BEGIN \name
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    PUSH %rsi
    leaq 32(%rsp), %rcx
    OWN
    MAPPED
    NOW \clock
    btcq $46, %rcx
    btcq $45, %rcx
    movq (%rcx), %rsi           # start
    btcq $46, %rcx
    movl (%rcx), %edx           # function
    testl %edx, %edx
    jz 1f
    # The record: w1 = duration << 24 | slot bits << 2, w0 = (now - base) << 24 | function
    movq %rax, %r11
    subq %rsi, %r11
    .if \shortest
    cmpq mcount_config+SHORTEST(%rip), %r11
    jb 7f
    .endif
    movq %gs:BASE, %rsi
    subq %rsi, %rax
    PUSH %rdx
    movq %rax, %rdx
    orq %r11, %rdx
    shrq $40, %rdx
    jnz 5f
    movl $16, %edx
    xaddq %rdx, %gs:HEAD
    cmpq %gs:END, %rdx
    jae 5f
    cmpq %gs:BASE, %rsi
    jne 5f
    shlq $24, %r11
    leal (%rcx), %esi
    shrl $1, %esi
    andl $0xfffffc, %esi
    orq %rsi, %r11
    movq %r11, 8(%rdx)
    shlq $24, %rax
    orq (%rsp), %rax
    movq %rax, (%rdx)
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    # Slot first, then the shadows: unwinders and signal handlers always find one of both.
7:  movq $0, (%rcx)
    btcq $45, %rcx
    btcq $46, %rcx
    movq (%rcx), %r11
    movq %r11, 32(%rsp)
    .cfi_offset %rip, -8
    movq $0, (%rcx)
6:  POP %rsi
    POP %rcx
    POP %rdx
    POP %rax
    ret
    .cfi_adjust_cfa_offset 32
    CALLER_IN_SHADOW
5:  .cfi_adjust_cfa_offset 8
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
1:  SLOW_EXIT
    FINISH \name
    .endm

# The rest of an exit: the slow path.
    .macro SLOW_EXIT
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
    .endm

    EXIT mcount_exit, 1, 0
    EXIT mcount_exit_untimed, 0, 0
    EXIT mcount_exit_shortest, 1, 1

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
    movq %rax, 16(%rsp)
    .cfi_offset %rip, -8
    POP %rdx
    POP %rdi
    jmp *%rdx
    .cfi_endproc
    .size mcount_landing, . - mcount_landing

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

# Where functions that the recorder calls in a static program return to.
    .globl mcount_trap
    .hidden mcount_trap
    .balign 16
mcount_trap:
    int3
    ret

# Room for stubs. One description of how to unwind serves them all, by the address within 32 bytes.
# CFA = %rsp + ((((%rip + 11) & 31) < 22) << 3)
# caller's address at (CFA - 8) ^ ((((%rip + 1) & 31) >> 1 == 8) << 46)
    .section .stubs, "axR", @nobits
    .globl mcount_stubs
    .hidden mcount_stubs
    .balign 4096
mcount_stubs:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    .cfi_escape 0x0f,0x0d,0x77,0x00,0x80,0x0b,0x08,0x1f,0x1a,0x08,0x16,0x2d,0x33,0x24,0x22
    .cfi_escape 0x10,0x10,0x0f,0x38,0x1c,0x80,0x01,0x08,0x1f,0x1a,0x31,0x25,0x38,0x29,0x08,0x2e,0x24,0x27
    .set mcount_stubs_size, 0x4000000
    .skip mcount_stubs_size
    .cfi_endproc
    .globl mcount_stubs_end
    .hidden mcount_stubs_end
mcount_stubs_end:
    .section .note.GNU-stack, "", @progbits
    .text
