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

    .text
    .globl mcount_entry
    .hidden mcount_entry
    .type mcount_entry, @function
    .balign 64
mcount_entry:
    .cfi_startproc
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    movq %fs:0, %rax
    leaq 32(%rsp), %rcx
    cmpq %rax, %gs:OWNER
    jne 1f
    movq %rcx, %rdx
    subq %gs:LOW, %rdx
    cmpq %gs:SIZE, %rdx
    jae 1f
    movq (%rcx), %r11
    btcq $46, %rcx
    cmpq $0, (%rcx)
    jne 2f
    movq %r11, (%rcx)
    rdtsc
    shlq $32, %rdx
    orq %rdx, %rax
    btcq $45, %rcx
    movq %rax, (%rcx)
    movq 24(%rsp), %r11
    movl 21(%r11), %eax
    orq %gs:TAG, %rax
    btcq $46, %rcx
    movq %rax, (%rcx)
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    clc
    ret
    .cfi_adjust_cfa_offset 24
2:  btcq $46, %rcx
1:  # The slow path: everything that Rust may clobber is kept; %rcx is the slot.
    movq 24(%rsp), %r11
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    movl 21(%r11), %esi
    movq %rcx, %rdi
    call slow_entry_kept
    cmpl $1, %eax               # carry: 0 is below 1
    cmc                         # carry: the answer isn't 0
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size mcount_entry, . - mcount_entry

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

# The traced function has returned: %rsp is just above the slot.
    .globl mcount_exit
    .hidden mcount_exit
    .type mcount_exit, @function
    .balign 64
mcount_exit:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    # The caller's address: CFA-8 ^ 2^46.
    .cfi_escape 0x10,0x10,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    movq %fs:0, %rax
    leaq 32(%rsp), %rcx
    cmpq %rax, %gs:OWNER
    jne 3f
    movq %rcx, %rdx
    subq %gs:LOW, %rdx
    cmpq %gs:SIZE, %rdx
    jae 3f
    rdtsc
    shlq $32, %rdx
    orq %rdx, %rax              # now
    btcq $46, %rcx
    btcq $45, %rcx
    movq (%rcx), %rsi           # start
    btcq $46, %rcx
    movl (%rcx), %edx           # function
    testl %edx, %edx
    jz 4f
    # The record: w1 = duration << 24 | slot bits << 2, w0 = (now - base) << 24 | function
    movq %rax, %r11
    subq %rsi, %r11
    movq %gs:BASE, %rsi
    subq %rsi, %rax
    pushq %rdx
    .cfi_adjust_cfa_offset 8
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
    movq $0, (%rcx)
    btcq $45, %rcx
    btcq $46, %rcx
    movq (%rcx), %r11
    movq %r11, 32(%rsp)
    .cfi_offset %rip, -8
    movq $0, (%rcx)
6:  popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_adjust_cfa_offset 32
    .cfi_escape 0x10,0x10,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
5:  .cfi_adjust_cfa_offset 8
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
4:
3:  pushq %rdi
    .cfi_adjust_cfa_offset 8
    leaq 40(%rsp), %rdi
    xorl %esi, %esi
    call slow_exit_kept
    movq %rax, 40(%rsp)
    .cfi_offset %rip, -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp 6b
    .cfi_endproc
    .size mcount_exit, . - mcount_exit

# The return of a function that was entered by `mcount_pg_entry`.
    .balign 16
    nop
    .globl mcount_pg_return
    .hidden mcount_pg_return
    .type mcount_pg_return, @function
    .cfi_startproc
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    .cfi_escape 0x10,0x10,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    nop
mcount_pg_return:
    jmp mcount_exit
    .cfi_endproc
    .size mcount_pg_return, . - mcount_pg_return

# The call of a hook behind the prologue (`-pg`): the slot is above the frame pointer.
    .globl mcount_pg_entry
    .hidden mcount_pg_entry
    .type mcount_pg_entry, @function
    .balign 64
mcount_pg_entry:
    .cfi_startproc
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    movq %fs:0, %rax
    leaq 8(%rbp), %rcx
    cmpq %rax, %gs:OWNER
    jne 1f
    movq %rcx, %rdx
    subq %gs:LOW, %rdx
    cmpq %gs:SIZE, %rdx
    jae 1f
    movq (%rcx), %r11
    btcq $46, %rcx
    cmpq $0, (%rcx)
    jne 2f
    movq %r11, (%rcx)
    rdtsc
    shlq $32, %rdx
    orq %rdx, %rax
    btcq $45, %rcx
    movq %rax, (%rcx)
    movq 24(%rsp), %r11
    movl 21(%r11), %eax
    orq %gs:TAG, %rax
    btcq $46, %rcx
    movq %rax, (%rcx)
    leaq mcount_pg_return(%rip), %r11
    movq %r11, 8(%rbp)
3:  popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_adjust_cfa_offset 24
2:  btcq $46, %rcx
1:  movq 24(%rsp), %r11
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    movl 21(%r11), %esi
    movq %rcx, %rdi
    call slow_pg_kept
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp 3b
    .cfi_endproc
    .size mcount_pg_entry, . - mcount_pg_entry

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
    .cfi_escape 0x10,0x10,0x07,0x38,0x1c,0x31,0x08,0x2e,0x24,0x27
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    leaq 16(%rsp), %rdi
    movl $2, %esi
    call slow_exit_kept
    movq %rax, 16(%rsp)
    .cfi_offset %rip, -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
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
    .skip 0x4000000
    .cfi_endproc
    .globl mcount_stubs_end
    .hidden mcount_stubs_end
mcount_stubs_end:
    .section .note.GNU-stack, "", @progbits
    .text
