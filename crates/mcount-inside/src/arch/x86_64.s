# A watched call, x86-64: registers are kept for its handlers, who see and change them.
#
# The stub of an armed site loads the address of the site's record (src/record.rs) into %r11 and jumps here. The
# *slot* is the word on the stack that holds the caller's address. While a call is watched the slot has an
# address in here, and the true one is in the shadow of the stack, RET = slot ^ A. WHO = slot ^ (A | 2^44 | 2^25)
# says which handlers see the call; its highest bit, that they want to see vector registers; the one below, that it's the call of a pad.
#
# All general registers that a call may change are kept, and all vector and x87 state: a function may have
# any calling convention as long as %r11 is scratch in it. XSAVE and XRSTOR take a quarter of a microsecond
# together, and to move registers one by one takes a twentieth. So XSAVE is used only where handlers want to see
# vector registers, or where x87 has a result.

    .set CALL_RDI, 0
    .set CALL_RSI, 8
    .set CALL_RDX, 16
    .set CALL_RCX, 24
    .set CALL_R8, 32
    .set CALL_R9, 40
    .set CALL_RAX, 48
    .set CALL_R10, 56
    .set CALL_STACK, 64
    .set CALL_RETURN, 72
    .set CALL_TARGET, 96
    .set CALL_VECTORS, 104
    .set CALL_VECTORS_HIGH, 112
    .set CALL_ACTION, 124
    .set CALL_RECORD, 128
    .set CALL_SAVED, 136
    .set CALL_AREA, 144
    .set CALL_HANDLER, 152
    .set CALL_SIZE, 192

    .set RECORD_LIST, 16
    .set RECORD_FLAGS, 24

    .set FLAG_VECTORS, 1
    .set FLAG_TRACED, 4

    .set THREAD_HANDLER, 0

    # How vector state is kept, in CALL_SAVED.
    .set BY_SSE, 0
    .set BY_AVX, 1
    .set BY_AVX512, 2
    .set BY_XSAVE, 3
    .set BY_FXSAVE, 4
    # With BY_AVX and BY_AVX512: no %ymm register has anything above its %xmm.
    .set LOW_ONLY, 8

    # What else is in the area: MXCSR, the status word of x87, mask registers, and registers above %zmm15.
    .set AREA_MXCSR, 1024
    .set AREA_STATUS, 1028
    .set AREA_MASKS, 1088
    .set AREA_UPPER, 1152
    .set AREA_SIZE, 2176

    .macro STORE_16 how, kind
    .irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    \how %\kind\number, 64*\number(%rsp)
    .endr
    .endm
    .macro LOAD_16 how, kind
    .irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    \how 64*\number(%rsp), %\kind\number
    .endr
    .endm
    .macro OR_YMM number
    vorps %ymm\number, %ymm15, %ymm15
    .endm
    .macro OR_ZMM number
    vporq %zmm\number, %zmm16, %zmm16
    .endm
    .macro UPPER name
    .irp number, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    \name \number
    .endr
    .endm
    .macro STORE_UPPER number
    vmovdqu64 %zmm\number, AREA_UPPER+64*(\number-16)(%rsp)
    .endm
    .macro LOAD_UPPER number
    vmovdqu64 AREA_UPPER+64*(\number-16)(%rsp), %zmm\number
    .endm
    .macro MASKS name
    .irp number, 0,1,2,3,4,5,6,7
    \name \number
    .endr
    .endm
    .macro STORE_MASK number
    kmovq %k\number, AREA_MASKS+8*\number(%rsp)
    .endm
    .macro LOAD_MASK number
    kmovq AREA_MASKS+8*\number(%rsp), %k\number
    .endm

# Keeps vector and x87 state below the stack pointer, which is aligned to 64. %rbx is the call; %ecx says whether
# handlers want to see it. Changes %rax, %rcx, %rdx.
    .macro KEEP_VECTORS
    testl $FLAG_VECTORS, %ecx
    jnz 2f
    # Something on the x87 stack: a result. The handlers need an empty one.
    fnstsw %ax
    testl $0x3800, %eax
    jnz 2f
    subq $AREA_SIZE, %rsp
    stmxcsr AREA_MXCSR(%rsp)
    movw %ax, AREA_STATUS(%rsp)
    movl {vectors}(%rip), %eax
    cmpl $BY_AVX, %eax
    ja 1f
    je 0f
    STORE_16 movaps, xmm
    jmp 5f
0:  STORE_16 vmovups, ymm
    .irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14
    OR_YMM \number
    .endr
    vextractf128 $1, %ymm15, %xmm15
    vptest %xmm15, %xmm15
    jnz 5f
    movl $BY_AVX + LOW_ONLY, %eax
    jmp 5f
1:  STORE_16 vmovdqu64, zmm
    UPPER STORE_UPPER
    MASKS STORE_MASK
    vporq %zmm0, %zmm1, %zmm16
    .irp number, 2,3,4,5,6,7,8,9,10,11,12,13,14,15
    OR_ZMM \number
    .endr
    vptestmq %zmm16, %zmm16, %k1
    kmovq %k1, %rcx
    testl $0xfc, %ecx
    jnz 5f
    movl $BY_AVX512 + LOW_ONLY, %eax
5:  cmpl $BY_SSE, %eax
    je 4f
    vzeroupper                  # what the handlers begin with
    jmp 4f
2:  movq {area}(%rip), %rcx
    testq %rcx, %rcx
    jz 3f
    subq %rcx, %rsp
    BY_XSAVE_TO
    movl $BY_XSAVE, %eax
    jmp 6f
3:  subq $512, %rsp
    fxsave64 (%rsp)
    movl $BY_FXSAVE, %eax
6:  fninit
    fldcw (%rsp)
4:  movl %eax, CALL_SAVED(%rbx)
    movq %rsp, CALL_AREA(%rbx)
    .endm

# Puts it back. Changes %rax, %rcx, %rdx.
    .macro RESTORE_VECTORS
    movl CALL_SAVED(%rbx), %ecx
    cmpl $BY_XSAVE, %ecx
    je 2f
    cmpl $BY_FXSAVE, %ecx
    je 3f
    fnstsw %ax
    cmpw %ax, AREA_STATUS(%rsp)
    jne 7f
8:  testl %ecx, %ecx
    jz 0f
    cmpl $BY_AVX512, %ecx
    je 1f
    cmpl $BY_AVX, %ecx
    je 5f
    # Only their lower parts had something in them.
    vzeroupper
    cmpl $BY_AVX + LOW_ONLY, %ecx
    je 0f
    UPPER LOAD_UPPER
    MASKS LOAD_MASK
0:  LOAD_16 movaps, xmm
    jmp 6f
1:  UPPER LOAD_UPPER
    MASKS LOAD_MASK
    LOAD_16 vmovdqu64, zmm
    jmp 6f
5:  LOAD_16 vmovups, ymm
6:  ldmxcsr AREA_MXCSR(%rsp)
    jmp 4f
7:  # The handlers have used x87: its flags are put back, and its stack is empty as before.
    fnstenv AREA_MASKS-32(%rsp)
    movw AREA_STATUS(%rsp), %ax
    movw %ax, AREA_MASKS-32+4(%rsp)
    movw $0xffff, AREA_MASKS-32+8(%rsp)
    fldenv AREA_MASKS-32(%rsp)
    jmp 8b
2:  BY_XSAVE_FROM
    jmp 4f
3:  fxrstor64 (%rsp)
4:
    .endm

# The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
# \busy. Changes %rax, %rcx and %rdx; %r11 is the record.
    .macro AWAIT_TURN busy
    movq mcount_inside_thread@gottpoff(%rip), %rax
    movq %fs:THREAD_HANDLER(%rax), %rdx
    cmpq %rdx, %rbp
    jb \busy
    testq %rdx, %rdx
    jz 9f
    LEFT_TURN \busy
9:
    .endm

# A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
# before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    cmpb $0, -2048(%rsp)
    movq mcount_inside_thread@gottpoff(%rip), %rax
    movq %fs:THREAD_HANDLER(%rax), %rdx
    movq %rdx, CALL_HANDLER(%rbx)
    movq %rbp, %fs:THREAD_HANDLER(%rax)
    .endm

# A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
# full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    xorl %edi, %edi
    leaq -32(%rbx), %rsi        # in the red zone
    movl %edi, -24(%rbx)
    movl $131, %eax             # sigaltstack
    syscall
    testb $1, -24(%rbx)         # SS_ONSTACK
    jnz \busy
    movq mcount_inside_thread@gottpoff(%rip), %rax
    movq $0, %fs:THREAD_HANDLER(%rax)
    movq CALL_RECORD(%rbx), %r11
    .endm
    .macro END_TURN
    movq mcount_inside_thread@gottpoff(%rip), %rax
    movq CALL_HANDLER(%rbx), %rdx
    movq %rdx, %fs:THREAD_HANDLER(%rax)
    .endm

    .macro KEEP_GENERAL
    movq %rdi, CALL_RDI(%rbx)
    movq %rsi, CALL_RSI(%rbx)
    movq %rdx, CALL_RDX(%rbx)
    movq %rcx, CALL_RCX(%rbx)
    movq %r8, CALL_R8(%rbx)
    movq %r9, CALL_R9(%rbx)
    movq %rax, CALL_RAX(%rbx)
    movq %r10, CALL_R10(%rbx)
    .endm

# The same in a frame, with the caller's address behind it: %rbx is a call then.
    .macro KEEP_CALL
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rbx
    .cfi_offset %rbx, -24
    subq $CALL_SIZE, %rsp
    andq $-64, %rsp
    movq %rsp, %rbx
    KEEP_GENERAL
    .endm

    .macro RESTORE_GENERAL
    movq CALL_RDI(%rbx), %rdi
    movq CALL_RSI(%rbx), %rsi
    movq CALL_RDX(%rbx), %rdx
    movq CALL_RCX(%rbx), %rcx
    movq CALL_R8(%rbx), %r8
    movq CALL_R9(%rbx), %r9
    movq CALL_RAX(%rbx), %rax
    movq CALL_R10(%rbx), %r10
    .endm

# A call that a handler makes: %r11 is its record, and the flags say whether it's traced.
    .macro MISSED_CALL
    movq CALL_RECORD(%rbx), %r11
    MISS
    testl $FLAG_TRACED, RECORD_FLAGS(%r11)
    RESTORE_GENERAL
    movq -8(%rbp), %rbx
    .cfi_restore %rbx
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    .endm

    .text

# Nobody is shown this call. %r11 is the record.
    .macro MISS
    cmpq $0, RECORD_LIST(%r11)
    je 8f
    lock incq {missed}(%rip)
8:
    .endm

# The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    .globl mcount_inside_pass
    .hidden mcount_inside_pass
    .type mcount_inside_pass, @function
    .balign 16
mcount_inside_pass:
    .cfi_startproc
    endbr64
    jmp *RECORD_BODY(%r11)
    .cfi_endproc
    .size mcount_inside_pass, . - mcount_inside_pass

# The entry of a watched function.
    .globl mcount_inside_enter
    .hidden mcount_inside_enter
    .type mcount_inside_enter, @function
    .balign 64
mcount_inside_enter:
    .cfi_startproc
    endbr64
    KEEP_CALL
    movq %r11, CALL_RECORD(%rbx)
    leaq 8(%rbp), %rax
    movq %rax, CALL_STACK(%rbx)
    movq 8(%rbp), %rax
    movq %rax, CALL_RETURN(%rbx)
    AWAIT_TURN 20f
    movl RECORD_FLAGS(%r11), %ecx
    KEEP_VECTORS
    BEGIN_TURN
    cld
    movq %rbx, %rdi
    call {entered}
    END_TURN
    RESTORE_VECTORS
    RESTORE_GENERAL
    movq CALL_TARGET(%rbx), %r11
    cmpl $1, CALL_ACTION(%rbx)  # nothing from here on changes flags
    movq -8(%rbp), %rbx
    .cfi_restore %rbx
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    je mcount_inside_call
    ja 6f
    jmp *%r11
6:  ret
    # A call that a handler makes: it's only traced, if it is.
    .cfi_def_cfa %rbp, 16
    .cfi_offset %rbp, -16
    .cfi_offset %rbx, -24
20: MISSED_CALL
    jnz mcount_inside_enter_traced
    jmp *RECORD_BODY(%r11)
    .cfi_endproc
    .size mcount_inside_enter, . - mcount_inside_enter

# A call has returned: %rsp is its slot. If it returned to a pad, that and not a shadow has the caller's address. Then what is kept for
# the slot may be another call's, so that handlers may want to see vector registers whatever it says.
    .macro RETURNED is_pad
    KEEP_CALL
    leaq 8(%rbp), %rax
    movq %rax, CALL_STACK(%rbx)
    .if \is_pad
    movl $FLAG_VECTORS, %ecx
    .else
    FLIP_A %rax
    btcq $44, %rax
    btcq $25, %rax
    movq (%rax), %rcx           # WHO
    shrq $62, %rcx              # it wants to see them, or it's another call's
    setne %cl
    .endif
    KEEP_VECTORS
    BEGIN_TURN
    cld
    movq %rbx, %rdi
    call {left}
    END_TURN
    RESTORE_VECTORS
    PUT_BACK \is_pad
    RESTORE_GENERAL
    movq -8(%rbp), %rbx
    .cfi_restore %rbx
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    ret
    .endm

# The caller's address into the slot. Slot first, then the shadow: unwinders and signal handlers always find one of both.
    .macro PUT_BACK is_pad
    movq CALL_RETURN(%rbx), %rax
    movq %rax, 8(%rbp)
    .cfi_offset %rip, -8
    .if \is_pad == 0
    leaq 8(%rbp), %rax
    FLIP_A %rax
    movq $0, (%rax)
    .endif
    .endm

# An exception passes through a call: %rsp is its slot.
    .macro UNWOUND is_pad
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rax
    pushq %rdx
    pushq %rbx
    .cfi_offset %rbx, -40
    subq $CALL_SIZE, %rsp
    andq $-64, %rsp
    movq %rsp, %rbx
    leaq 8(%rbp), %rax
    movq %rax, CALL_STACK(%rbx)
    BEGIN_TURN
    movq %rbx, %rdi
    call {unwound}
    movq %rax, CALL_RETURN(%rbx)
    END_TURN
    PUT_BACK \is_pad
    movq -8(%rbp), %rdi
    movq -16(%rbp), %rdx
    movq -24(%rbp), %rbx
    .cfi_restore %rbx
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    jmp *%rdx
    .endm

# A watched call, and where it returns to: %rsp is just above the slot then.
    .globl mcount_inside_return
    .hidden mcount_inside_return
    .type mcount_inside_call, @function
    .balign 64
mcount_inside_call:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    addq $8, %rsp
    .cfi_def_cfa %rsp, 0
    # The caller's address: CFA-8 ^ A.
    .cfi_escape 0x10,0x10,0x0c,0x38,0x1c,0x0e,0x00,0x00,0x00,0x08,0x00,0x40,0x00,0x00,0x27
    call *%r11
mcount_inside_return:
    leaq -8(%rsp), %rsp
    .cfi_def_cfa_offset 8
    RETURNED 0
    .cfi_endproc
    .size mcount_inside_call, . - mcount_inside_call

# The entry of a watched function whose hook is behind its prologue (`-pg`): the slot is above the frame pointer.
    .globl mcount_inside_enter_late
    .hidden mcount_inside_enter_late
    .type mcount_inside_enter_late, @function
    .balign 64
mcount_inside_enter_late:
    .cfi_startproc
    .cfi_def_cfa_offset 0
    .cfi_undefined %rip
    endbr64
    pushq RECORD_BODY(%r11)     # as if the hook were a call
    .cfi_def_cfa_offset 8
    .cfi_offset %rip, -8
    KEEP_CALL
    movq %r11, CALL_RECORD(%rbx)
    movq (%rbp), %rax
    movq 8(%rax), %rdx
    movq %rdx, CALL_RETURN(%rbx)
    addq $8, %rax
    movq %rax, CALL_STACK(%rbx)
    AWAIT_TURN 20f
    movl RECORD_FLAGS(%r11), %ecx
    KEEP_VECTORS
    BEGIN_TURN
    cld
    movq %rbx, %rdi
    call {entered_late}
    END_TURN
    RESTORE_VECTORS
    RESTORE_GENERAL
    movq -8(%rbp), %rbx
    .cfi_restore %rbx
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    popq %r11
    .cfi_def_cfa_offset 0
    .cfi_undefined %rip
    jmp *%r11
    .cfi_def_cfa %rbp, 16
    .cfi_offset %rip, -8
    .cfi_offset %rbp, -16
    .cfi_offset %rbx, -24
20: MISSED_CALL
    leaq 8(%rsp), %rsp          # not addq: flags
    .cfi_def_cfa_offset 0
    .cfi_undefined %rip
    jnz mcount_inside_enter_traced_late
    jmp *RECORD_BODY(%r11)
    .cfi_endproc
    .size mcount_inside_enter_late, . - mcount_inside_enter_late

# An exception passes through a watched call: the personality routine has had the unwinder come here with the
# exception in %rax and, in %rdx, the address of the unwinder's `_Unwind_Resume`. %rsp is just above the slot.
# No register but those that are kept in a call has a value here.
    .globl mcount_inside_landing
    .hidden mcount_inside_landing
    .type mcount_inside_landing, @function
    .balign 16
mcount_inside_landing:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa %rsp, 0
    .cfi_escape 0x10,0x10,0x0c,0x38,0x1c,0x0e,0x00,0x00,0x00,0x08,0x00,0x40,0x00,0x00,0x27
    leaq -8(%rsp), %rsp
    .cfi_def_cfa_offset 8
    UNWOUND 0
    .cfi_endproc
    .size mcount_inside_landing, . - mcount_inside_landing

    PADS mcount_inside_personality

# The exit of a call that returns to a pad, whether it's watched or only traced.
    .type mcount_pad_exit, @function
    .balign 16
mcount_pad_exit:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    CALLER_OF_PAD
    RETURNED 1
    .cfi_endproc
    .size mcount_pad_exit, . - mcount_pad_exit

# An exception passes through it.
    .type mcount_pad_landing, @function
    .balign 16
mcount_pad_landing:
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    CALLER_OF_PAD
    UNWOUND 1
    .cfi_endproc
    .size mcount_pad_landing, . - mcount_pad_landing

# What the unwinder asks when it comes through a watched call; the sixth argument is its own address.
    .globl mcount_inside_personality
    .hidden mcount_inside_personality
    .type mcount_inside_personality, @function
    .balign 16
mcount_inside_personality:
    .cfi_startproc
    movq (%rsp), %r9
    jmp {personality}
    .cfi_endproc
    .size mcount_inside_personality, . - mcount_inside_personality

# The entries and exits of functions that are traced and have no handlers, and where they return to.
    KEPT slow_entry_kept, {slow_entry}
    KEPT slow_exit_kept, {slow_exit}
    KEPT slow_pg_kept, {slow_entry_late}

    ENTRY mcount_inside_enter_traced, BEFORE, 1, 0
    ENTRY mcount_inside_enter_traced_late, BEHIND, 1, 0

    BEGIN mcount_inside_traced
    .cfi_personality 0x1b, mcount_inside_personality
    addq $8, %rsp
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    call *RECORD_BODY(%r11)
    .globl mcount_inside_traced_return
    .hidden mcount_inside_traced_return
mcount_inside_traced_return:
    EXIT_BODY 1, 0
    FINISH mcount_inside_traced

    BEGIN mcount_inside_traced_late
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa %rsp, 0
    CALLER_IN_SHADOW
    nop
    .globl mcount_pg_return
    .hidden mcount_pg_return
mcount_pg_return:
    EXIT_BODY 1, 0
    FINISH mcount_inside_traced_late

# What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    jmp {mark}
    .cfi_endproc
    MARK_ENDS 0, 8
