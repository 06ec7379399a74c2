// A tracer in a few instructions, as that in the folder above: a probe calls `probe_enter`, which keeps the return address of its
// caller, 8 bytes above the stack pointer, and has the function return to `probe_leave`. All registers and flags are preserved.
#include <stdio.h>

long probe_depth;
long probe_frames[4096];
asm(".text\n.globl probe_enter\n.type probe_enter,%function\nprobe_enter:\n"
    " stp x0, x1, [sp, #-32]!\n stp x2, x3, [sp, #16]\n mrs x3, nzcv\n"
    " adrp x0, probe_depth\n ldr x1, [x0, :lo12:probe_depth]\n"
    " cmp x1, #4096\n b.hs 1f\n"
    " adrp x2, probe_frames\n add x2, x2, :lo12:probe_frames\n"
    " add x2, x2, x1, lsl #3\n add x1, x1, #1\n"
    " str x1, [x0, :lo12:probe_depth]\n"
    " ldr x0, [sp, #40]\n str x0, [x2]\n"
    " adrp x0, probe_leave\n add x0, x0, :lo12:probe_leave\n str x0, [sp, #40]\n"
    " msr nzcv, x3\n ldp x2, x3, [sp, #16]\n ldp x0, x1, [sp], #32\n ret\n"
    "1: udf #0\n.size probe_enter,.-probe_enter\n"
    ".globl probe_leave\n.type probe_leave,%function\nprobe_leave:\n"
    " stp x0, x1, [sp, #-32]!\n stp x2, x3, [sp, #16]\n mrs x3, nzcv\n"
    " adrp x0, probe_depth\n ldr x1, [x0, :lo12:probe_depth]\n"
    " subs x1, x1, #1\n b.lt 1b\n str x1, [x0, :lo12:probe_depth]\n"
    " adrp x2, probe_frames\n add x2, x2, :lo12:probe_frames\n"
    " ldr x30, [x2, x1, lsl #3]\n"
    " msr nzcv, x3\n ldp x2, x3, [sp, #16]\n ldp x0, x1, [sp], #32\n ret\n"
    ".size probe_leave,.-probe_leave\n"
    // Where the test puts stubs.
    ".pushsection .probe_stubs,\"ax\",%progbits\n.globl probe_stubs\n"
    ".p2align 2\nprobe_stubs: .skip 16384\n.popsection\n");

__attribute__((destructor)) static void probe_end(void) {
  printf("depth %ld\n", probe_depth);
}
