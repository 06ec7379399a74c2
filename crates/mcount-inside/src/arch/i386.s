# A watched or traced call, i386: registers are kept for its handlers, who see and change them.
#
# The stub of an armed site pushes the address of the site's record (src/record.rs), changes no register, and jumps here. Functions
# can have arguments in %eax, %ecx and %edx, so there's none to jump by: the routines put the address where to go into the place
# of the record's, and go there by `ret`. The *slot* is the word above, which holds the caller's address. While a call is watched
# the slot has an address in here, and the true one is in the shadow of the stack, RET = table[slot / 2^15] + 2 * slot.
#
# A function may take arguments off the stack when it returns. So the slot is somewhere below the stack pointer then, nobody
# knows how far, and Rust looks for it.
#
# For handlers all vector and x87 state is kept by XSAVE, or by FXSAVE where there's none. Recording a call changes vector
# registers only, and perhaps the upper halves of those that C libraries copy by.

    .set REGISTERS_EAX, 0
    .set REGISTERS_ECX, 4
    .set REGISTERS_EDX, 8
    .set CALL_STACK, {call_stack}
    .set CALL_RETURN, {call_return}
    .set CALL_TARGET, {call_target}
    # Three words that nobody needs before handlers are called.
    .set CALL_VECTORS, {call_vectors}
    .set CALL_ACTION, {call_action}
    .set CALL_RECORD, {call_record}
    .set CALL_SAVED, {call_saved}
    .set CALL_AREA, {call_area}
    .set CALL_HANDLER, {call_handler}
    .set CALL_SIZE, {call_size}

    .set RECORD_BODY, {record_body}
    .set RECORD_LIST, {record_list}
    .set RECORD_FLAGS, {record_flags}

    .set FLAG_TRACED, 4

    # x87, SSE, AVX, and the three parts of AVX-512.
    .set STATE, 0xe7
    # How it was kept.
    .set BY_XSAVE, 3
    .set BY_FXSAVE, 4

    .macro EACH_8 name
    .irp number, 0,1,2,3,4,5,6,7
    \name \number
    .endr
    .endm
    .macro STORE_XMM number
    movaps %xmm\number, 16*\number(%esp)
    .endm
    .macro LOAD_XMM number
    movaps 16*\number(%esp), %xmm\number
    .endm
    .macro STORE_YMM number
    vmovups %ymm\number, 32*\number(%esp)
    .endm
    .macro LOAD_YMM number
    vmovups 32*\number(%esp), %ymm\number
    .endm

# A frame below what a stub has pushed, or what an exit has: the canonical frame address is `distance` above the saved %ebp.
# %esi is the call, %ebx the global offset table; general registers are kept. Changes %eax.
    .macro KEEP distance
    pushl %ebp
    .cfi_def_cfa_offset \distance
    .cfi_offset %ebp, -(\distance)
    movl %esp, %ebp
    .cfi_def_cfa_register %ebp
    pushl %ebx
    .cfi_offset %ebx, -(\distance)-4
    pushl %esi
    .cfi_offset %esi, -(\distance)-8
    subl $CALL_SIZE, %esp
    andl $-64, %esp
    movl %esp, %esi
    movl %eax, REGISTERS_EAX(%esi)
    movl %ecx, REGISTERS_ECX(%esi)
    movl %edx, REGISTERS_EDX(%esi)
    call mcount_inside_place
    addl $_GLOBAL_OFFSET_TABLE_, %ebx
    .endm

# Puts general registers back; flags are what they were. The canonical frame address is `distance` above the stack pointer then.
    .macro RESTORE distance
    movl REGISTERS_EAX(%esi), %eax
    movl REGISTERS_ECX(%esi), %ecx
    movl REGISTERS_EDX(%esi), %edx
    leal -8(%ebp), %esp
    popl %esi
    .cfi_restore %esi
    popl %ebx
    .cfi_restore %ebx
    popl %ebp
    .cfi_def_cfa %esp, \distance
    .cfi_restore %ebp
    .endm

# The frame again, behind code that has left it.
    .macro IN_FRAME distance
    .cfi_def_cfa %ebp, \distance
    .cfi_offset %ebp, -(\distance)
    .cfi_offset %ebx, -(\distance)-4
    .cfi_offset %esi, -(\distance)-8
    .endm

# Takes note of the record, and of the slot, which is in %ecx. Changes %eax, %edx.
    .macro DESCRIBE
    movl 4(%ebp), %eax
    movl %eax, CALL_RECORD(%esi)
    movl (%ecx), %edx
    xorl %eax, %eax
    movl %ecx, CALL_STACK(%esi)
    movl %eax, CALL_STACK+4(%esi)
    movl %edx, CALL_RETURN(%esi)
    movl %eax, CALL_RETURN+4(%esi)
    .endm

# All state below the stack pointer, which is aligned to 64. Changes %eax, %ecx, %edx.
    .macro BY_XSAVE_TO
    xorl %eax, %eax
    .irp word, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movl %eax, 512+4*\word(%esp)
    .endr
    movl $STATE, %eax
    xorl %edx, %edx
    xsave (%esp)
    .endm
    .macro KEEP_ALL
    movl {area}@GOTOFF(%ebx), %ecx
    testl %ecx, %ecx
    jz 3f
    subl %ecx, %esp
    BY_XSAVE_TO
    movl $BY_XSAVE, CALL_SAVED(%esi)
    jmp 4f
3:  subl $512, %esp
    fxsave (%esp)
    movl $BY_FXSAVE, CALL_SAVED(%esi)
4:  fninit
    fldcw (%esp)
    movl %esp, CALL_AREA(%esi)
    cmpl $0, {vectors}@GOTOFF(%ebx)
    je 5f
    vzeroupper                  # what the handlers begin with
5:  subl $16, %esp
    .endm
# Puts it back. Changes %eax and %edx.
    .macro RESTORE_ALL
    movl CALL_AREA(%esi), %esp
    cmpl $BY_XSAVE, CALL_SAVED(%esi)
    jne 3f
    movl $STATE, %eax
    xorl %edx, %edx
    xrstor (%esp)
    jmp 4f
3:  fxrstor (%esp)
4:
    .endm

# The same for recording only.
    .macro KEEP_VECTORS
    cmpl $1, {vectors}@GOTOFF(%ebx)
    ja 2f
    je 1f
    subl $128, %esp
    EACH_8 STORE_XMM
    jmp 3f
1:  subl $256, %esp
    EACH_8 STORE_YMM
    vzeroupper
    jmp 3f
2:  subl {area}@GOTOFF(%ebx), %esp
    BY_XSAVE_TO
    vzeroupper
3:  movl %esp, CALL_AREA(%esi)
    subl $16, %esp
    .endm
    .macro RESTORE_VECTORS
    movl CALL_AREA(%esi), %esp
    cmpl $1, {vectors}@GOTOFF(%ebx)
    ja 2f
    je 1f
    EACH_8 LOAD_XMM
    jmp 3f
1:  EACH_8 LOAD_YMM
    jmp 3f
2:  movl $STATE, %eax
    xorl %edx, %edx
    xrstor (%esp)
3:
    .endm

# Calls a function with the call.
    .macro ASK function
    movl %esi, (%esp)
    call \function
    .endm

# Where this thread's own memory is, behind %gs. Changes %eax.
    .macro THREAD
    movl mcount_inside_thread@GOTNTPOFF(%ebx), %eax
    .endm

# The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
# \busy. Changes %eax, %ecx and %edx.
    .macro AWAIT_TURN busy
    THREAD
    movl %gs:(%eax), %edx
    cmpl %edx, %ebp
    jb \busy
    testl %edx, %edx
    jz 9f
    LEFT_TURN \busy
9:
    .endm

# A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
# full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    pushl %ebx
    xorl %ebx, %ebx
    leal CALL_VECTORS(%esi), %ecx
    movl %ebx, CALL_VECTORS+4(%esi)
    movl $186, %eax             # sigaltstack
    int $0x80
    popl %ebx
    testb $1, CALL_VECTORS+4(%esi)      # SS_ONSTACK
    jnz \busy
    THREAD
    movl $0, %gs:(%eax)
    .endm

# A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
# before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    cmpb $0, -2048(%esp)
    THREAD
    movl %gs:(%eax), %edx
    movl %edx, CALL_HANDLER(%esi)
    movl %ebp, %gs:(%eax)
    .endm
    .macro END_TURN
    THREAD
    movl CALL_HANDLER(%esi), %edx
    movl %edx, %gs:(%eax)
    .endm

# Nobody is shown this call. It's only traced, if it is: the condition is "not zero". %eax is the record.
    .macro MISS
    movl CALL_RECORD(%esi), %eax
    movl %eax, 4(%ebp)
    cmpl $0, RECORD_LIST(%eax)
    je 8f
    lock addl $1, {missed}@GOTOFF(%ebx)
    jnc 8f
    lock addl $1, {missed}@GOTOFF+4(%ebx)
8:  testl $FLAG_TRACED, RECORD_FLAGS(%eax)
    .endm

# Clears the shadow of the slot. The caller's address is where it's returned by already: unwinders and signal handlers always
# find one of both. Changes %eax and %edx.
    .macro LET_GO
    movl CALL_STACK(%esi), %eax
    movl %eax, %edx
    shrl $15, %edx
    movl {table}@GOTOFF(%ebx,%edx,4), %edx
    movl $0, (%edx,%eax,2)
    movl $0, 4(%edx,%eax,2)
    .endm

    .text

# The address behind the call, in %ebx.
    BEGIN mcount_inside_place
    movl (%esp), %ebx
    ret
    FINISH mcount_inside_place

# Where this thread's memory is, and the word that leads to its block.
    .macro ADDRESS name, of
    BEGIN \name
    pushl %ebx
    .cfi_def_cfa_offset 8
    .cfi_offset %ebx, -8
    call mcount_inside_place
    addl $_GLOBAL_OFFSET_TABLE_, %ebx
    movl \of@GOTNTPOFF(%ebx), %eax
    addl %gs:0, %eax
    popl %ebx
    .cfi_def_cfa_offset 4
    .cfi_restore %ebx
    ret
    FINISH \name
    .endm
    ADDRESS mcount_inside_memory, mcount_inside_thread
    ADDRESS mcount_inside_block_word, mcount_inside_block

# The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    .cfi_def_cfa_offset 8
    pushl %eax
    .cfi_def_cfa_offset 12
    movl 4(%esp), %eax
    movl RECORD_BODY(%eax), %eax
    movl %eax, 4(%esp)
    popl %eax
    .cfi_def_cfa_offset 8
    ret
    FINISH mcount_inside_pass

# The entry of a watched function.
    BEGIN mcount_inside_enter
    .cfi_def_cfa_offset 8
    KEEP 12
    leal 8(%ebp), %ecx
    DESCRIBE
    AWAIT_TURN 20f
    KEEP_ALL
    BEGIN_TURN
    cld
    ASK {entered}
    END_TURN
    RESTORE_ALL
    movl CALL_TARGET(%esi), %eax
    movl %eax, 4(%ebp)
    cmpl $2, CALL_ACTION(%esi)  # nothing from here on changes flags
    RESTORE 8
    je 6f
    ret
    # Left out: the word says where the stack pointer is to be.
6:  movl (%esp), %esp
    .cfi_def_cfa_offset 4
    ret
    IN_FRAME 12
20: MISS
    RESTORE 8
    jnz mcount_inside_enter_traced
    jmp mcount_inside_pass
    FINISH mcount_inside_enter

# The same for a hook behind the prologue (`-pg`): the slot is above the function's frame pointer. It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    .cfi_undefined %eip
    KEEP 8
    movl (%ebp), %ecx
    addl $4, %ecx
    DESCRIBE
    AWAIT_TURN 20f
    KEEP_ALL
    movl CALL_RECORD(%esi), %eax
    movl RECORD_BODY(%eax), %eax
    movl %eax, 4(%ebp)
    .cfi_offset %eip, -4
    BEGIN_TURN
    cld
    ASK {entered_late}
    END_TURN
    RESTORE_ALL
    RESTORE 4
    ret
    IN_FRAME 8
    .cfi_undefined %eip
20: MISS
    RESTORE 4
    jnz mcount_inside_enter_traced_late
    jmp mcount_inside_pass
    FINISH mcount_inside_enter_late

# The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    .cfi_def_cfa_offset 8
    KEEP 12
    leal 8(%ebp), %ecx
    DESCRIBE
    KEEP_VECTORS
    cld
    ASK {traced}
    RESTORE_VECTORS
    movl CALL_RECORD(%esi), %eax
    movl RECORD_BODY(%eax), %eax
    movl %eax, 4(%ebp)
    RESTORE 8
    ret
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
    .cfi_undefined %eip
    KEEP 8
    movl (%ebp), %ecx
    addl $4, %ecx
    DESCRIBE
    KEEP_VECTORS
    movl CALL_RECORD(%esi), %eax
    movl RECORD_BODY(%eax), %eax
    movl %eax, 4(%ebp)
    .cfi_offset %eip, -4
    cld
    ASK {traced}
    RESTORE_VECTORS
    RESTORE 4
    ret
    FINISH mcount_inside_enter_traced_late

# Where watched and traced calls return to, and how unwinders find their callers' addresses in the table of shadows. Its address
# is found by a word in the code: that's five bytes before where functions return to, and that in turn is what their slot has, or
# what the unwinder takes for the instruction pointer (its register 8).
#
# The first row is for functions that are being called, and the next two for signals just when they return. In the last one there's
# the address of the instruction behind the call, 17 bytes behind that word, 1024 bytes below where the slot may be: the slot is left
# as it is, because it's known by what it has.
    .set LEFT, 1024
    .macro RETURN name
    .globl \name
    .hidden \name
    .type \name, @function
    .balign 64
    .cfi_startproc
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa %esp, 0
    # S = CFA-4; W = *S-5; RET = *(4 * (S >> 15) + W + *W) + 2 * S
    .cfi_escape 0x10,0x08,0x14,0x34,0x1c,0x12,0x06,0x35,0x1c,0x12,0x06,0x22,0x14,0x3f,0x25,0x32,0x24,0x22,0x06,0x16,0x31,0x24,0x22
    .long {table} - .
    nop
\name:
    CALLER_BY_PLACE 0x7b        # W = %eip-5
    .byte 0x8d, 0xa4, 0x24      # leal -LEFT(%esp), %esp
    .long -LEFT
    .cfi_def_cfa_offset LEFT
    CALLER_BY_PLACE 0x74        # W = %eip-12
    call 1f
1:  .cfi_def_cfa_offset LEFT+4
    # W = *(S-1024)-17
    .cfi_escape 0x10,0x08,0x19,0x34,0x1c,0x12,0x0a,0x00,0x04,0x1c,0x06,0x08,0x11,0x1c,0x12,0x06,0x22,0x14,0x3f,0x25,0x32,0x24,0x22,0x06,0x16,0x31,0x24,0x22
    KEEP LEFT+8
    leal LEFT+4(%ebp), %ecx
    movl %ecx, CALL_STACK(%esi)
    movl $0, CALL_STACK+4(%esi)
    .endm
    .macro CALLER_BY_PLACE distance
    .cfi_escape 0x10,0x08,0x12,0x34,0x1c,0x78,\distance,0x12,0x06,0x22,0x14,0x3f,0x25,0x32,0x24,0x22,0x06,0x16,0x31,0x24,0x22
    .endm

# Finds the slot, and puts its caller's address where it's returned by.
    .macro FIND name
    leal \name@GOTOFF(%ebx), %eax
    movl %eax, 4(%esp)
    ASK {returned}
    .cfi_offset %eip, -4
    .endm
    .macro LEAVE
    RESTORE LEFT+4
    leal LEFT(%esp), %esp
    .cfi_def_cfa_offset 4
    ret
    .endm

    RETURN mcount_inside_return
    KEEP_ALL
    BEGIN_TURN
    cld
    FIND mcount_inside_return
    ASK {left}
    END_TURN
    LET_GO
    RESTORE_ALL
    LEAVE
    FINISH mcount_inside_return

    RETURN mcount_inside_traced_return
    KEEP_VECTORS
    cld
    FIND mcount_inside_traced_return
    movl CALL_STACK(%esi), %eax
    movl %eax, (%esp)
    movl $0, 4(%esp)
    movl $0, 8(%esp)
    call {slow_exit}
    LET_GO
    RESTORE_VECTORS
    LEAVE
    FINISH mcount_inside_traced_return

# The rest of a landing, with the slot above the frame: then the caller's address is let go by \let_go.
    .macro LAND let_go
    leal 4(%ebp), %eax
    movl %eax, CALL_STACK(%esi)
    movl $0, CALL_STACK+4(%esi)
    movl REGISTERS_EAX(%esi), %eax
    movl REGISTERS_EDX(%esi), %edx
    pushl %eax
    pushl %edx
    subl $8, %esp
    BEGIN_TURN
    ASK {unwound}
    movl %eax, 4(%ebp)
    .cfi_offset %eip, -4
    END_TURN
    leal 4(%ebp), %eax
    movl %eax, CALL_STACK(%esi)
    \let_go
    movl 8(%esp), %edx
    movl 12(%esp), %eax
    movl %eax, (%esp)
    call *%edx
    ud2
    .endm

# An exception passes through a watched call: the personality routine has had the unwinder come here with the
# exception in %eax and, in %edx, the address of the unwinder's `_Unwind_Resume`. %esp is just above the slot.
# No register but those that are kept in a call has a value here.
    BEGIN mcount_inside_landing
    .cfi_def_cfa_offset 0
    .cfi_undefined %eip
    pushl $0
    .cfi_def_cfa_offset 4
    KEEP 8
    LAND LET_GO
    FINISH mcount_inside_landing

# A pad. A function may have taken arguments off the stack, so its slot is left alone by room above it; and then by a call, which says
# which pad it was. An exception lands at the second call.
    .macro PAD
    .byte 0x8d, 0xa4, 0x24      # leal -LEFT(%esp), %esp
    .long -LEFT
    call mcount_pad_exit
    .balign 16
    call mcount_pad_landing
    .endm

# The canonical frame address is %esp, or LEFT above that between the two instructions: S + (%eip % 32 == 7) * LEFT. The caller's
# address is at (%eip & -32) + *(%eip & -4096).
    .macro BEGIN_PADS personality
    .cfi_startproc
    .cfi_personality 0x1b, \personality
    .cfi_escape 0x0f, 13, 0x74,0x00, 0x78,0x00, 0x4f, 0x1a, 0x37, 0x29, 0x0a,0x00,0x04, 0x1e, 0x22
    .cfi_escape 0x10,0x08, 13, 0x78,0x00, 0x09,0xe0, 0x1a, 0x78,0x00, 0x0b,0x00,0xf0, 0x1a, 0x06, 0x22
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

# The exit of a call that returns to a pad, whether it's watched or only traced. The caller's address is at (v & -32) + *(v & -4096),
# where v = *(CFA - LEFT - 4) leads to the pad.
    BEGIN mcount_pad_exit
    .cfi_personality 0x1b, mcount_inside_personality
    .cfi_def_cfa %esp, LEFT+4
    .cfi_escape 0x10,0x08, 16, 0x0a,0x04,0x04, 0x1c, 0x06, 0x12, 0x09,0xe0, 0x1a, 0x16, 0x0b,0x00,0xf0, 0x1a, 0x06, 0x22
    KEEP LEFT+8
    leal LEFT+4(%ebp), %ecx
    movl %ecx, CALL_STACK(%esi)
    movl $0, CALL_STACK+4(%esi)
    KEEP_ALL
    BEGIN_TURN
    cld
    movl 4(%ebp), %eax
    andl $-32, %eax
    movl %eax, 4(%esp)
    ASK {returned_to_pad}
    ASK {left}
    ASK {put_back}
    .cfi_offset %eip, -4
    END_TURN
    RESTORE_ALL
    LEAVE
    FINISH mcount_pad_exit

# An exception passes through it: as in mcount_inside_landing.
    BEGIN mcount_pad_landing
    .cfi_def_cfa_offset 4
    .cfi_undefined %eip
    KEEP 8
    LAND
    FINISH mcount_pad_landing

    PADS mcount_inside_personality

# What the unwinder asks when it comes through a watched call: with words of 64 bits for Rust, and its own address.
    BEGIN mcount_inside_personality
    subl $44, %esp
    .cfi_def_cfa_offset 48
    xorl %eax, %eax
    movl 44(%esp), %ecx
    movl %ecx, 32(%esp)         # its own address
    movl %eax, 36(%esp)
    movl 68(%esp), %ecx
    movl %ecx, 24(%esp)         # context
    movl %eax, 28(%esp)
    movl 64(%esp), %ecx
    movl %ecx, 16(%esp)         # exception
    movl %eax, 20(%esp)
    movl %eax, 8(%esp)          # class
    movl %eax, 12(%esp)
    movl 52(%esp), %ecx
    movl %ecx, 4(%esp)          # actions
    movl 48(%esp), %ecx
    movl %ecx, (%esp)           # version
    call {personality}
    addl $44, %esp
    .cfi_def_cfa_offset 4
    ret
    FINISH mcount_inside_personality

# What a program calls for a marker: see mark.s.
    MARK_BEGINS
    .cfi_startproc
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    jmp {mark}
    .cfi_endproc
    MARK_ENDS 0, 4
