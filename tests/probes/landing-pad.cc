// An exception handler in the first bytes.
//# plain
//# refuse: f landing-pad
//# force: f 5
#include "function.h"
extern "C" int f();
extern "C" void thrower() { throw 42; }
asm(".text\n.p2align 4\n.globl f\n.type f,@function\nf:\n.cfi_startproc\n.cfi_personality 0x9b,DW.ref.__gxx_personality_v0\n.cfi_lsda 0x1b,table\n"
    "jmp 1f\n.cfi_def_cfa_offset 16\n2: mov %rax, %rdi\njmp 3f\n.cfi_def_cfa_offset 8\n"
    "1: sub $8, %rsp\n.cfi_def_cfa_offset 16\n4: call thrower\n5: ud2\n"
    "3: call __cxa_begin_catch@plt\ncall __cxa_end_catch@plt\nmov $42, %eax\nadd $8, %rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size f,.-f\n"
    ".section .gcc_except_table,\"a\",@progbits\n.p2align 2\ntable: .byte 0xff, 0x9b\n.uleb128 9f-6f\n6: .byte 1\n.uleb128 8f-7f\n"
    "7: .uleb128 4b-f, 5b-4b, 2b-f, 1\n8: .byte 1, 0\n.p2align 2\n.long 0\n9:\n"
    ".text\n.hidden DW.ref.__gxx_personality_v0\n.weak DW.ref.__gxx_personality_v0\n.section .data.rel.local.DW.ref.__gxx_personality_v0,\"awG\",@progbits,DW.ref.__gxx_personality_v0,comdat\n"
    ".p2align 3\n.type DW.ref.__gxx_personality_v0, @object\n.size DW.ref.__gxx_personality_v0, 8\nDW.ref.__gxx_personality_v0: .quad __gxx_personality_v0\n.text\n");
int main() { printf("%d\n", f()); }
