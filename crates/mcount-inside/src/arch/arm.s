// A watched or traced call, Arm: registers are kept for its handlers, who see and change them. All this is ARM code; what it goes on
// to may be Thumb code.
//
// The stub of an armed site pushes ip, which may be the static chain of a nested function, and jumps here with the address of the
// site's record (src/record.rs) in ip. lr is the caller's address, and E the stack pointer of the caller. The *slot* is the word below E:
// nothing of the program's is there at the entry, and when the function has returned, nothing is there any more. While a call is
// watched, lr has an address in here, and the true one is in the shadow of the stack, RET = table[slot / 2^15] + 2 * slot.
//
// No register is left to jump by. So the routines put ip and the address where to go below E, and pop both.
//
// A frame below E, which fp leads to:
//
//   E-4  ip as a stub has pushed it; then the address where to go       E-16 fp
//   E-8  nothing; then ip                                               E-20 r5
//   E-12 lr                                                             E-24 r4
//                                                                       E-28 fpscr
//
// r4 is the call, r5 this thread's memory. Functions change flags and ip, so nobody needs them at an exit.

    .set CALL_IP, 16
    .set CALL_FP, 20
    .set CALL_SP, 24
    .set CALL_PC, 28
    .set CALL_STACK, {call_stack}
    .set CALL_RETURN, {call_return}
    .set CALL_TARGET, {call_target}
    .set CALL_ACTION, {call_action}
    .set CALL_RECORD, {call_record}
    // A word of the function's frame that has the caller's address, too; 0: there's none.
    .set CALL_SAVED, {call_saved}
    .set CALL_AREA, {call_area}
    .set CALL_HANDLER, {call_handler}
    .set CALL_LINK, {call_link}
    .set CALL_SIZE, {call_size}

    .set RECORD_BODY, {record_body}
    .set RECORD_LIST, {record_list}
    .set RECORD_FLAGS, {record_flags}
    .set RECORD_SITE, {record_site}
    .set RECORD_FRAME, {record_frame}

    .set FLAG_TRACED, 4

    .macro BEGIN name
    .globl \name
    .hidden \name
    .type \name, %function
    .balign 64
\name:
    .fnstart
    .endm
    .macro FINISH name
    .fnend
    .size \name, . - \name
    .endm

// How unwinders undo the frame: of what a caller has called, and of what a function's prologue seems to have called.
    .macro AS_CALLED
    .pad #8
    .save {{r4, r5, fp, lr}}
    .setfp fp, sp, #24
    .endm
    .macro AS_LATE
    .save {{lr}}
    .pad #8
    .save {{r4, r5, fp}}
    .setfp fp, sp, #24
    .endm

// The frame, behind what a stub has pushed. All registers but flags are as they were, and r4 and r5 are the frame's.
    .macro KEEP
    sub sp, sp, #4
    push {{r4, r5, fp, lr}}
    add fp, sp, #24
    sub r4, fp, #(32 + CALL_SIZE)
    bic r4, r4, #63
    mov sp, r4
    stm r4, {{r0, r1, r2, r3}}
    .endm

// Takes note of the record, which ip leads to, and of the rest, where the slot is below r0. Changes r0, r1 and r2.
    .macro DESCRIBE
    mov r2, #0
    str r0, [r4, #CALL_SP]
    sub r0, r0, #4
    str r0, [r4, #CALL_STACK]
    str r2, [r4, #CALL_STACK+4]
    ldr r0, [fp, #-4]
    str r0, [r4, #CALL_IP]
    ldr r0, [fp, #-16]
    str r0, [r4, #CALL_FP]
    ldr r0, [ip, #RECORD_SITE]
    str r0, [r4, #CALL_PC]
    str ip, [r4, #CALL_RECORD]
    sub r0, fp, #12
    str r0, [r4, #CALL_LINK]
    str r2, [r4, #CALL_RETURN+4]
    str r2, [r4, #CALL_SAVED+4]
    .endm
    .macro DESCRIBE_CALLED
    mov r0, fp
    DESCRIBE
    str lr, [r4, #CALL_RETURN]
    str r2, [r4, #CALL_SAVED]
    .endm
// Behind a prologue: the record says how far up its frame begins, and where in it the caller's address is, and one.
    .macro DESCRIBE_LATE
    ldr r0, [ip, #RECORD_FRAME+4]
    add r0, r0, fp
    DESCRIBE
    ldr r0, [ip, #RECORD_FRAME]
    cmp r0, #0
    subne r0, r0, #1
    addne r0, r0, fp
    str r0, [r4, #CALL_SAVED]
    ldrne lr, [r0]
    str lr, [r4, #CALL_RETURN]
    .endm

// Leaves the frame for what r0 leads to.
    .macro GO
    str r0, [fp, #-4]
    ldr r0, [r4, #CALL_IP]
    str r0, [fp, #-8]
    ldm r4, {{r0, r1, r2, r3}}
    sub sp, fp, #24
    pop {{r4, r5, fp, lr}}
    pop {{ip, pc}}
    .endm

// Leaves it as if the stub had just jumped here, with the record in ip. Flags are what they were.
    .macro BACK
    ldr ip, [r4, #CALL_RECORD]
    ldm r4, {{r0, r1, r2, r3}}
    sub sp, fp, #24
    pop {{r4, r5, fp, lr}}
    add sp, sp, #4
    .endm

// Leaves it for the caller, with the stack as it was at the call.
    .macro LEAVE
    ldm r4, {{r0, r1, r2, r3}}
    sub sp, fp, #24
    pop {{r4, r5, fp, lr}}
    add sp, sp, #8
    bx lr
    .endm

// Floating-point registers that arguments and results may be in, 16 bytes each; the stack pointer is aligned to that. Changes r0.
    .macro EACH do
    .irp number, 0,1,2,3,4,5,6,7
    \do d\number, [sp, #16*\number]
    .endr
    .endm
    .macro KEEP_VECTORS
    sub sp, sp, #128
    str sp, [r4, #CALL_AREA]
    EACH vstr
    vmrs r0, fpscr
    str r0, [fp, #-28]
    .endm
    .macro RESTORE_VECTORS
    ldr r0, [fp, #-28]
    vmsr fpscr, r0
    ldr sp, [r4, #CALL_AREA]
    EACH vldr
    .endm

// This thread's memory, in r5. Changes r0, ip and lr.
    .macro THREAD
    bl mcount_inside_memory
    mov r5, r0
    .endm

// The place on the stack at which this thread runs a handler, so that no other one begins further down: that leads to
// \busy. Changes r0 to r3, ip and lr.
    .macro AWAIT_TURN busy
    THREAD
    ldr r1, [r5]
    cmp fp, r1
    blo \busy
    cmp r1, #0
    beq 9f
    LEFT_TURN \busy
9:
    .endm

// A handler was running further down. Either this is a signal handler's stack, or the handler is gone: its stack was
// full, say, and the handler of SIGSEGV has jumped away.
    .macro LEFT_TURN busy
    sub sp, sp, #16
    str r7, [sp, #12]
    mov r0, #0
    str r0, [sp, #4]
    mov r1, sp
    mov r7, #186                // sigaltstack
    svc #0
    ldr r7, [sp, #12]
    ldr r1, [sp, #4]
    add sp, sp, #16
    tst r1, #1                  // SS_ONSTACK
    bne \busy
    mov r1, #0
    str r1, [r5]
    .endm

// A handler runs here from now on. Before any Rust: its functions may have hooks as well. If the stack is full, that shows
// before, so that the handler of SIGSEGV isn't taken for a part of this one.
    .macro BEGIN_TURN
    ldrb r0, [sp, #-2048]
    ldr r0, [r5]
    str r0, [r4, #CALL_HANDLER]
    mov r0, #0
    str r0, [r4, #CALL_HANDLER+4]
    str fp, [r5]
    .endm
    .macro END_TURN
    ldr r0, [r4, #CALL_HANDLER]
    str r0, [r5]
    .endm

// Nobody is shown this call. Then it's only traced, if it is: the condition is "not equal".
    .macro MISS
    ldr ip, [r4, #CALL_RECORD]
    ldr r0, [ip, #RECORD_LIST]
    cmp r0, #0
    blne mcount_inside_miss
    ldr ip, [r4, #CALL_RECORD]
    ldr r0, [ip, #RECORD_FLAGS]
    tst r0, #FLAG_TRACED
    .endm

    .text
    .arm

// Where this thread's memory is, and the word that leads to its block. Changes r0 and ip.
    .macro ADDRESS name, of
    BEGIN \name
    .cantunwind
    ldr r0, 2f
1:  ldr r0, [pc, r0]
    mrc p15, 0, ip, c13, c0, 3
    add r0, r0, ip
    bx lr
2:  .long \of(GOTTPOFF) - ((1b + 8) - 2b)
    FINISH \name
    .endm
    ADDRESS mcount_inside_memory, mcount_inside_thread
    ADDRESS mcount_inside_block_word, mcount_inside_block

// Counts a call that nobody was shown. Changes r0 to r3 and flags.
    BEGIN mcount_inside_miss
    .cantunwind
    ldr r0, 2f
1:  add r0, pc, r0
3:  ldrexd r2, r3, [r0]
    adds r2, r2, #1
    adc r3, r3, #0
    strexd r1, r2, r3, [r0]
    cmp r1, #0
    bne 3b
    bx lr
2:  .long {missed} - (1b + 8)
    FINISH mcount_inside_miss

// Where the caller's address is of the slot of the call in r4: in r0. Changes r1.
    BEGIN mcount_inside_shadow
    .cantunwind
    ldr r0, 2f
1:  add r0, pc, r0
    ldr r1, [r4, #CALL_STACK]
    lsr r1, r1, #15
    ldr r0, [r0, r1, lsl #2]
    ldr r1, [r4, #CALL_STACK]
    add r0, r0, r1, lsl #1
    bx lr
2:  .long {table} - (1b + 8)
    FINISH mcount_inside_shadow

// The site only leads elsewhere: its function was replaced, or nobody wants to see it any more.
    BEGIN mcount_inside_pass
    .cantunwind
    push {{r0, r1}}
    ldr r0, [sp, #8]
    ldr r1, [ip, #RECORD_BODY]
    str r1, [sp, #8]
    mov ip, r0
    pop {{r0, r1}}
    pop {{pc}}
    FINISH mcount_inside_pass

// The entry of a watched function.
    BEGIN mcount_inside_enter
    AS_CALLED
    KEEP
    DESCRIBE_CALLED
    AWAIT_TURN 20f
    KEEP_VECTORS
    BEGIN_TURN
    mov r0, r4
    bl {entered}
    END_TURN
    RESTORE_VECTORS
    ldr r0, [r4, #CALL_TARGET]
    ldr r1, [r4, #CALL_ACTION]
    cmp r1, #2
    ldreq r0, [fp, #-12]
    GO
    // A call that a handler makes.
20: MISS
    BACK
    bne mcount_inside_enter_traced
    b mcount_inside_pass
    FINISH mcount_inside_enter

// The same for a hook behind the prologue (`-pg`). It's as if the hook were a call.
    BEGIN mcount_inside_enter_late
    AS_LATE
    KEEP
    DESCRIBE_LATE
    AWAIT_TURN 20f
    KEEP_VECTORS
    ldr ip, [r4, #CALL_RECORD]
    ldr r0, [ip, #RECORD_BODY]
    str r0, [fp, #-4]
    BEGIN_TURN
    mov r0, r4
    bl {entered_late}
    END_TURN
    RESTORE_VECTORS
    ldr r0, [fp, #-4]
    GO
20: MISS
    BACK
    bne mcount_inside_enter_traced_late
    b mcount_inside_pass
    FINISH mcount_inside_enter_late

// The entries of functions that are traced and have no handlers.
    BEGIN mcount_inside_enter_traced
    AS_CALLED
    KEEP
    DESCRIBE_CALLED
    KEEP_VECTORS
    mov r0, r4
    bl {traced}
    RESTORE_VECTORS
    ldr ip, [r4, #CALL_RECORD]
    ldr r0, [ip, #RECORD_BODY]
    GO
    FINISH mcount_inside_enter_traced

    BEGIN mcount_inside_enter_traced_late
    AS_LATE
    KEEP
    DESCRIBE_LATE
    KEEP_VECTORS
    ldr ip, [r4, #CALL_RECORD]
    ldr r0, [ip, #RECORD_BODY]
    str r0, [fp, #-4]
    mov r0, r4
    bl {traced}
    RESTORE_VECTORS
    ldr r0, [fp, #-4]
    GO
    FINISH mcount_inside_enter_traced_late

// Where watched and traced calls return to. Unwinders look for the instruction before that: its personality routine finds the caller's
// address. Once there's a frame, that's in it.
    .macro RETURN name
    .balign 64
    .fnstart
    .personality mcount_inside_personality
    nop
    .handlerdata
    .fnend
    .globl \name
    .hidden \name
    .type \name, %function
\name:
    .fnstart
    AS_CALLED
    sub sp, sp, #4
    KEEP
    sub r0, fp, #4
    mov r1, #0
    str r0, [r4, #CALL_STACK]
    str r1, [r4, #CALL_STACK+4]
    str r1, [fp, #-4]           // it hasn't returned to a pad
    bl mcount_inside_shadow
    ldr r1, [r0]
    str r1, [fp, #-12]
    KEEP_VECTORS
    .endm
// The shadow is cleared, and the call left.
    .macro LET_GO
    bl mcount_inside_shadow
    mov r2, #0
    mov r3, #0
    strd r2, r3, [r0]
    RESTORE_VECTORS
    LEAVE
    .endm

    RETURN mcount_inside_return
    THREAD
    BEGIN_TURN
    mov r0, r4
    bl {left}
    END_TURN
    LET_GO
    FINISH mcount_inside_return

    RETURN mcount_inside_traced_return
    ldr r0, [r4, #CALL_STACK]
    mov r2, #0
    mov r3, #0
    bl {slow_exit}
    LET_GO
    FINISH mcount_inside_traced_return

// A pad: a call, which leaves in lr which it was. Unwinders have the personality routine find the caller's address.
    .macro PAD
    bl mcount_pad_exit
    .endm
    .macro BEGIN_PADS personality
    .fnstart
    .personality \personality
    .endm
    .macro END_PADS
    .handlerdata
    .fnend
    .text
    .endm

// The exit of a call that returns to a pad, whether it's watched or only traced. The caller's address is at
// (lr & -16) + *(lr & -4096).
    BEGIN mcount_pad_exit
    AS_CALLED
    sub sp, sp, #4
    KEEP
    bic r0, lr, #15
    bic r1, r0, #0xff0
    ldr r1, [r1]
    ldr r1, [r0, r1]
    str r0, [fp, #-4]
    str r1, [fp, #-12]
    sub r0, fp, #4
    mov r1, #0
    str r0, [r4, #CALL_STACK]
    str r1, [r4, #CALL_STACK+4]
    KEEP_VECTORS
    THREAD
    BEGIN_TURN
    mov r0, r4
    bl {left}
    END_TURN
    RESTORE_VECTORS
    LEAVE
    FINISH mcount_pad_exit

// An exception passes through the watched call with this slot, which returns to the address in r1: has its handlers called.
    BEGIN mcount_inside_unwound
    AS_CALLED
    sub sp, sp, #4
    KEEP
    str r0, [r4, #CALL_STACK]
    str r1, [r4, #CALL_RETURN]
    mov r1, #0
    str r1, [r4, #CALL_STACK+4]
    str r1, [r4, #CALL_RETURN+4]
    THREAD
    BEGIN_TURN
    mov r0, r4
    bl {unwound}
    END_TURN
    LEAVE
    FINISH mcount_inside_unwound

// What the unwinder asks when it comes to a watched call; the fourth argument is its own address.
    BEGIN mcount_inside_personality
    .cantunwind
    mov r3, lr
    b {personality}
    FINISH mcount_inside_personality

    PADS mcount_inside_personality

// What a program calls for a marker: see mark.s.
    MARK_BEGINS
    nop
    b {mark}
    MARK_ENDS 0, 4
