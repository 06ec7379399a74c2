# The entry and exit of a traced call, x86-64: macros, and the ways from them into Rust. `mcount-agent` makes its
# routines of them, `crates/mcount-inside` those of a library that programs are linked with; that one sets INSIDE.
#
# In the agent, a stub (see `mcount_cpu::x86_64::code`) calls the entry; the traced function returns through the stub to
# the exit. In the library, a stub jumps to the entry with the address of a record in %r11, and the routine that
# follows the entry calls the function. The agent's may clobber nothing but the flags: callers of a function without a
# compiler's hook may know that it leaves %r11 alone (gcc's `-fipa-ra`). The library's entries clobber %r11, too.
#
# The *slot* is the word on the stack that holds the caller's address. Three shadows of the stack, each at a
# constant distance, belong to it:
#   RET = slot ^ A        the caller's address, private memory; 0: this slot isn't watched
#   TIM = slot ^ (A | B)  when the call began, shared with the trace
#   OPN = slot ^ B        thread number << 32 | function number, shared; 0: no call is open here
# A is 2^46 | 2^27, B is 2^45 | 2^26: `x86_64.rs` says why.
#
# %gs leads to the thread's block; in the library, a word of thread-local storage does. It isn't the thread's if OWNER
# differs from the thread pointer: a new thread inherits its parent's %gs, and a forked child finds zeroes. Then, and
# in all rarer cases, the slow path in Rust does the work.

    .att_syntax prefix

    .macro FLIP_A register
    btcq $46, \register
    btcq $27, \register
    .endm
    .macro FLIP_B register
    btcq $45, \register
    btcq $26, \register
    .endm

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
    .set SHORTS, 136

    # Fields of the configuration.
    .set SHORTEST, 24
    .set PG_EXIT, 32
    .set SHORTEST_WAIT, 64

    # Fields of a record.
    .set RECORD_BODY, 0
    .set RECORD_ID, 28

# A special record: where the next call returns to.
    .set CALLER, 9

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
    TO xaddq, %rax, COUNT
    .endif
    .endm

# An instruction with a field of the thread's block. In the library %r11 leads to it, from OWN on.
    .macro FROM instruction, field, register
    .if INSIDE
    \instruction \field(%r11), \register
    .else
    \instruction %gs:\field, \register
    .endif
    .endm
    .macro TO instruction, register, field
    .if INSIDE
    \instruction \register, \field(%r11)
    .else
    \instruction \register, %gs:\field
    .endif
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

# To 1 if the block isn't this thread's.
    .macro OWN
    .if INSIDE
    movq mcount_inside_block@gottpoff(%rip), %r11
    movq %fs:(%r11), %r11
    .endif
    movq %fs:0, %rax
    TO cmpq, %rax, OWNER
    jne 1f
    .endm

# To 1 if the shadows of the slot in %rcx may not be mapped.
    .macro MAPPED
    movq %rcx, %rdx
    FROM subq, LOW, %rdx
    FROM cmpq, SIZE, %rdx
    jae 1f
    .endm

# What the routine begins with. Then there are four words on the stack, and the fourth leads to the function's number:
# the return address into the stub, or the record.
    .macro ENTER place
    .if INSIDE
    .if \place == BEHIND
    # As if the hook were a call.
    .cfi_def_cfa_offset 0
    .cfi_undefined %rip
    pushq RECORD_BODY(%r11)
    .cfi_def_cfa_offset 8
    .cfi_offset %rip, -8
    .endif
    PUSH %r11
    .endif
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    SLOT \place
    .endm

# The function's number into a register, by way of another one.
    .macro NUMBER register, by
    movq 24(%rsp), \by
    .if INSIDE
    movl RECORD_ID(\by), \register
    .else
    movl 21(\by), \register
    .endif
    .endm

# The way back to the stub, or on to the function. Carry: it's to be entered without watching its return.
    .macro LEAVE place, carry
    POP %rcx
    POP %rdx
    POP %rax
    GO \place, \carry
    .cfi_adjust_cfa_offset 24
    .endm

    .macro GO place, carry
    .if INSIDE
    POP %r11
    .if \place == BEHIND
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    jmp *RECORD_BODY(%r11)
    .cfi_adjust_cfa_offset 8
    .else
    .ifc \carry, clc
    jmp mcount_inside_traced
    .else
    jmp *RECORD_BODY(%r11)
    .endif
    .endif
    .cfi_adjust_cfa_offset 8
    .else
    \carry
    ret
    .endif
    .endm

# The rest of a routine: the slow path, where everything that Rust may clobber is kept; %rcx is the slot.
    .macro SLOW place
    PUSH %rdi
    PUSH %rsi
    movq 40(%rsp), %rsi
    .if INSIDE
    movl RECORD_ID(%rsi), %esi
    .else
    movl 21(%rsi), %esi
    .endif
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
    .if INSIDE
    .if \place == BEFORE
    jc 4f
    GO \place, clc
4:
    .endif
    GO \place, stc
    .else
    ret
    .endif
    .endm

# The entry of a traced call. With `limited`, whatever is recorded takes the slow path.
    .macro ENTRY name, place, clock, limited
    BEGIN \name
    ENTER \place
    OWN
    .if \limited
    movq 24(%rsp), %rdx
    cmpb $0, 24(%rdx)           # a function by which what is recorded changes
    jne 1f
    TO cmpq, $0, BUDGET
    jne 1f
    FROM cmpq, INNERMOST, %rcx  # that one was left by longjmp
    jae 1f
    movq (%rcx), %rdx
    leaq mcount_pg_return(%rip), %rax
    cmpq %rax, %rdx
    je 1f
    leaq mcount_stubs(%rip), %rax
    subq %rax, %rdx
    cmpq $mcount_stubs_size, %rdx
    jb 1f                       # a tail call of a function that was recorded
    LEAVE \place, stc
    .else
    MAPPED
    movq (%rcx), %rdx
    FLIP_A %rcx
    cmpq $0, (%rcx)
    jne 2f
    movq %rdx, (%rcx)
    NOW \clock
    FLIP_B %rcx
    movq %rax, (%rcx)
    NUMBER %eax, %rdx
    FROM orq, TAG, %rax
    FLIP_A %rcx
    movq %rax, (%rcx)
    .if \place == BEHIND
    leaq mcount_pg_return(%rip), %rdx
    movq %rdx, 8(%rbp)
    .endif
    LEAVE \place, clc
2:  FLIP_A %rcx
    .endif
1:  SLOW \place
    FINISH \name
    .endm

# The entry of a call of which nothing more is recorded. The record: w1 = slot bits << 2,
# w0 = (now - base) << 24 | function.
    .macro ENTRY_ONLY name, place, clock
    BEGIN \name
    ENTER \place
    OWN
    NOW \clock
    movq %gs:BASE, %rcx
    subq %rcx, %rax
    movq %rax, %rdx
    shrq $40, %rdx
    jnz 1f
    movl $16, %edx
    xaddq %rdx, %gs:HEAD
    cmpq %gs:END, %rdx
    jae 1f
    cmpq %gs:BASE, %rcx
    jne 1f
    SLOT \place
    shrl $1, %ecx
    andl $0xfffffc, %ecx
    movq %rcx, 8(%rdx)
    shlq $24, %rax
    movq 24(%rsp), %rcx
    movl 21(%rcx), %ecx
    orq %rcx, %rax
    movq %rax, (%rdx)
    LEAVE \place, stc
1:  SLOT \place
    SLOW \place
    FINISH \name
    .endm

# Calls a routine in Rust with %rdi and %rsi as they are, and keeps the rest of what a call may clobber: vector and x87
# state by KEEP_STATE, below a stack pointer that's aligned to 64; %rdx leads to it. The result is in %rax.
    .macro KEPT name, routine
    .text
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
    KEEP_STATE
    cld
    movq %rsp, %rdx
    call \routine
    RESTORE_STATE
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


# Unwinders find the caller's address in RET: CFA-8 ^ A.
    .macro CALLER_IN_SHADOW
    .cfi_escape 0x10,0x10,0x0c,0x38,0x1c,0x0e,0x00,0x00,0x00,0x08,0x00,0x40,0x00,0x00,0x27
    .endm

# The traced function has returned: %rsp is just above the slot. With `shortest`, calls that were shorter than
# the configuration says aren't recorded. If it's 2, the function may wait, and shorter calls are counted. If it's 3,
# all are recorded, and where they return to.
    .macro EXIT name, clock, shortest
    BEGIN \name
    .cfi_personality 0x1b, mcount_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    EXIT_BODY \clock, \shortest
    FINISH \name
    .endm

    .macro EXIT_BODY clock, shortest
    leaq -8(%rsp), %rsp
    .cfi_adjust_cfa_offset 8
    PUSH %rax
    PUSH %rdx
    PUSH %rcx
    PUSH %rsi
    PUSH %rdi
    leaq EXIT_SLOT(%rsp), %rcx
    OWN
    MAPPED
    NOW \clock
    RECORD %rdi, \shortest
    # Slot first, then the shadows: unwinders and signal handlers always find one of both.
7:  movq $0, (%rcx)
    FLIP_B %rcx
    FLIP_A %rcx
    movq (%rcx), %rdi
    movq %rdi, EXIT_SLOT(%rsp)
    .cfi_offset %rip, -8
    movq $0, (%rcx)
    POP %rdi
    POP %rsi
    POP %rcx
    POP %rdx
    POP %rax
    ret
    .cfi_adjust_cfa_offset 40
    CALLER_IN_SHADOW
5:  .cfi_adjust_cfa_offset 8
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
1:  SLOW_EXIT
    .endm

    # Where the slot is when registers are saved.
    .set EXIT_SLOT, 40

# Writes the record of the call of which %rcx is the slot, and %rax is the time: w1 = duration << 24 | slot bits << 2,
# w0 = (now - base) << 24 | function. Then %rcx is OPN.
    .macro RECORD spare, shortest
    FLIP_A %rcx
    FLIP_B %rcx
    movq (%rcx), %rsi           # start
    FLIP_A %rcx
    movl (%rcx), %edx           # function
    testl %edx, %edx
    jle 1f                      # there's none, or its result is to be recorded
    movq %rax, \spare
    subq %rsi, \spare
    .if \shortest == 1
    cmpq mcount_config+SHORTEST(%rip), \spare
    jb 7f
    .elseif \shortest == 2
    cmpq mcount_config+SHORTEST_WAIT(%rip), \spare
    jae 8f
    decq %gs:SHORTS
    jns 7f
    jmp 1f                      # so many that the process is to know
8:  andl $0xffffff, %edx
    .endif
    FROM movq, BASE, %rsi
    subq %rsi, %rax
    PUSH %rdx
    movq %rax, %rdx
    orq \spare, %rdx
    shrq $40, %rdx
    jnz 5f
    .if \shortest == 3
    movl $32, %edx
    TO xaddq, %rdx, HEAD
    addq $16, %rdx
    .else
    movl $16, %edx
    TO xaddq, %rdx, HEAD
    .endif
    FROM cmpq, END, %rdx
    jae 5f
    FROM cmpq, BASE, %rsi
    jne 5f
    .if \shortest == 3
    FLIP_B %rcx
    FLIP_A %rcx
    movq (%rcx), %rsi
    movq %rsi, -8(%rdx)
    movq $CALLER << 24, -16(%rdx)
    FLIP_A %rcx
    FLIP_B %rcx
    .endif
    shlq $24, \spare
    leal (%rcx), %esi
    shrl $1, %esi
    andl $0xfffffc, %esi
    orq %rsi, \spare
    movq \spare, 8(%rdx)
    shlq $24, %rax
    orq (%rsp), %rax
    movq %rax, (%rdx)
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    .endm

# The caller's address, in %rax, into the slot at %rsp + `at`; then RET is cleared. Slot first, as above.
    .macro LET_GO at
    movq %rax, \at(%rsp)
    .cfi_offset %rip, -8
    leaq \at(%rsp), %rax
    FLIP_A %rax
    movq $0, (%rax)
    .endm

# The rest of an exit: the slow path.
    .macro SLOW_EXIT
    leaq 40(%rsp), %rdi
    xorl %esi, %esi
    call slow_exit_kept
    LET_GO 40
    POP %rdi
    POP %rsi
    POP %rcx
    POP %rdx
    POP %rax
    ret
    .endm

# A pad. Either call leaves in the slot which it was: a function returns to the first, and an exception lands behind.
    .macro PAD
    call mcount_pad_exit
    .balign 8
    call mcount_pad_landing
    .endm
# Unwinders find the caller's address at (%rip & -16) + *(%rip & -4096).
    .macro BEGIN_PADS personality
    .cfi_startproc
    .cfi_personality 0x1b, \personality
    .cfi_def_cfa %rsp, 0
    .cfi_escape 0x10,0x10, 13, 0x80,0x00, 0x09,0xf0, 0x1a, 0x80,0x00, 0x0b,0x00,0xf0, 0x1a, 0x06, 0x22
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

# The caller's address of a pad's frame, of which the slot leads to the pad: v = *(CFA - 8), (v & -16) + *(v & -4096).
    .macro CALLER_OF_PAD
    .cfi_def_cfa %rsp, 8
    .cfi_escape 0x10,0x10, 14, 0x38, 0x1c, 0x06, 0x12, 0x09,0xf0, 0x1a, 0x16, 0x0b,0x00,0xf0, 0x1a, 0x06, 0x22
    .endm
