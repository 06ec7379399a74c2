// A tracer in a few instructions, which no test of the planner may have its own bugs in: a probe calls `probe_enter`. That keeps
// the return address and has the function return to `probe_leave`, which returns there. All registers and flags are preserved.
// At the end of the program, as many must have left as entered.
#include <stdio.h>

long probe_depth;
long probe_frames[4096];
asm(".text\n.globl probe_enter\n.type probe_enter,@function\nprobe_enter:\n"
    " pushfq\n push %rax\n push %rcx\n push %rdx\n"
    " mov probe_depth(%rip), %rax\n cmp $4096, %rax\n jae 1f\n"
    " lea probe_frames(%rip), %rcx\n mov 40(%rsp), %rdx\n"
    " mov %rdx, (%rcx,%rax,8)\n inc %rax\n mov %rax, probe_depth(%rip)\n"
    " lea probe_leave(%rip), %rdx\n mov %rdx, 40(%rsp)\n"
    " pop %rdx\n pop %rcx\n pop %rax\n popfq\n ret\n"
    "1: ud2\n.size probe_enter,.-probe_enter\n"
    ".globl probe_leave\n.type probe_leave,@function\nprobe_leave:\n"
    " sub $8, %rsp\n pushfq\n push %rax\n push %rcx\n push %rdx\n"
    " mov probe_depth(%rip), %rax\n dec %rax\n js 1b\n"
    " mov %rax, probe_depth(%rip)\n"
    " lea probe_frames(%rip), %rcx\n mov (%rcx,%rax,8), %rdx\n"
    " mov %rdx, 32(%rsp)\n"
    " pop %rdx\n pop %rcx\n pop %rax\n popfq\n ret\n"
    ".size probe_leave,.-probe_leave\n"
    // Where the test puts stubs.
    ".pushsection .probe_stubs,\"ax\",@progbits\n.globl probe_stubs\n"
    "probe_stubs: .skip 16384, 0xcc\n.popsection\n");

__attribute__((destructor)) static void probe_end(void) {
  printf("depth %ld\n", probe_depth);
}
