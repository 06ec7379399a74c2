/* Passes markers as <sys/sdt.h> declares them, and prints of each what a trace has to say. The notes are written here, so that their
   arguments have every form. Says nothing of tracing, but for a counter that a tracer changes. */
#include <stdio.h>
#include <string.h>

#define NI __attribute__((noinline, noclone))
#define TEXT(x) #x
/* "provider", "name", semaphore or 0, "arguments" */
#define NOTE(provider, name, semaphore, arguments)                                              \
    ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"      \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, " semaphore "\n"              \
    ".asciz \"" provider "\", \"" name "\", \"" arguments "\"\n994: .balign 4\n.popsection\n"
#define MARKER(name, semaphore, arguments) \
    "990: nop\n" NOTE("app", name, semaphore, arguments)

__attribute__((section(".probes"), used)) unsigned short guard;
long value[2] = {0x123456789, -5};
static const char *nowhere = (const char *)0x10;

/* Its arguments are in memory below the stack pointer, and flags live across the marker. */
long leaf(long a, long b);
__asm__(".text\n.globl leaf\n.type leaf, @function\nleaf:\n.cfi_startproc\n"
        "movq %rdi, -8(%rsp)\nmovq %rsi, -128(%rsp)\nmovl $7, %eax\nmovl $9, %ecx\n"
        "cmpq %rsi, %rdi\n" MARKER("leaf", "0", "8@-8(%rsp) -8@-128(%rsp)")
        "cmovg %ecx, %eax\nmovslq %eax, %rax\naddq -8(%rsp), %rax\naddq -128(%rsp), %rax\nret\n"
        ".cfi_endproc\n.size leaf, . - leaf\n");

/* All forms of operands. */
void forms(const long *words, long index, double number);
__asm__(".text\n.globl forms\n.type forms, @function\nforms:\n.cfi_startproc\n"
        "pushq %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n"
        "pushq %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbp, -24\n"
        "movq %rsp, %rbp\n.cfi_def_cfa_register %rbp\nmovl $0xfe01, %ebx\nmovq $-2, %r9\n"
        "pushq $77\npushq $88\n"
        MARKER("forms", "0",
               "-1@%bh 1@%bl 2@%bx -4@%r9d 8@%r9 4@$-3 -4@$-3 -8@8(%rdi) 8@(%rdi,%rsi,8) 4@-8(%rdi,%rsi,8) "
               "8@value(%rip) -8@8+value(%rip) 8@-8(%rbp) 4@(%rsp) 8f@%xmm0")
        "movslq %esi, %rax\nleave\n.cfi_def_cfa %rsp, 16\npopq %rbx\n.cfi_adjust_cfa_offset -8\nret\n"
        ".cfi_endproc\n.size forms, . - forms\n");

/* What moves refers to what's near, and ends with a call. */
NI long called(long n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
long calls(long n);
__asm__(".text\n.globl calls\n.type calls, @function\ncalls:\n.cfi_startproc\n"
        "subq $8, %rsp\n.cfi_adjust_cfa_offset 8\n" MARKER("calls", "0", "-8@%rdi")
        "call called\naddq value+8(%rip), %rax\n" MARKER("near", "0", "-8@%rax")
        "subq value+8(%rip), %rax\naddq $8, %rsp\n.cfi_adjust_cfa_offset -8\nret\n"
        ".cfi_endproc\n.size calls, . - calls\n");

/* These can't have a jump: a branch leads into the bytes, far from the function's beginning; … */
long entered(long n);
__asm__(".text\n.globl entered\n.type entered, @function\nentered:\n.cfi_startproc\n"
        "xorl %eax, %eax\n.skip 100, 0x90\n" MARKER("entered", "0", "-8@%rdi")
        "1: incq %rax\ndecq %rdi\njnz 1b\nret\n.cfi_endproc\n.size entered, . - entered\n"
        ".globl twice\n.type twice, @function\ntwice:\n.cfi_startproc\n"
        MARKER("first", "0", "") MARKER("second", "0", "")
        "movl $1, %eax\nret\n.cfi_endproc\n.size twice, . - twice\n"
        ".globl bare\n.type bare, @function\nbare:\n" MARKER("bare", "0", "")
        "movl $1, %eax\nret\n.size bare, . - bare\n"
        ".globl other\n.type other, @function\nother:\n.cfi_startproc\n"
        "990: movl $1, %eax\n" NOTE("app", "other", "0", "")
        "ret\n.cfi_endproc\n.size other, . - other\n"
        ".globl exact\n.type exact, @function\nexact:\n.cfi_startproc\n"
        "990: nopl 0(%rax,%rax,1)\n" NOTE("app", "exact", "0", "8@%rdi 4@%fs:0x28 8@%rdi")
        "leaq 1(%rdi), %rax\nret\n.cfi_endproc\n.size exact, . - exact\n");
long twice(void);
long bare(void);
long other(void);
long exact(long n);

NI static void guarded(int n)
{
    if (guard) {
        __asm__ volatile(MARKER("guarded", "guard", "-4@%0") : : "r"(n));
        printf("app:guarded(%d)\n", n);
    }
}

NI static void said(const char *text)
{
    __asm__ volatile(MARKER("said", "0", "8@%0 8@%1") "cmpq $0, %0" : : "r"(text), "m"(text) : "cc");
}

int main(int count, char **arguments)
{
    long sum = 0;
    if (count > 1 && !strcmp(arguments[1], "served")) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    for (long n = -1; n < 2; n++) {
        sum += leaf(n, -n);
        printf("app:leaf(%lu, %ld)\n", n, -n);
    }
    long words[] = {11, 22, 33, 44};
    forms(words, 2, 0.5);
    puts("app:forms(-2, 1, 65025, -2, 18446744073709551614, 4294967293, -3, 22, 33, 22, 4886718345, -5, 77, 88, 0.5)");
    sum += calls(3);
    puts("app:calls(3)\napp:near(-1)");
    sum += entered(3) + twice() + bare() + other();
    puts("app:first");
    sum += exact(5);
    puts("app:exact(5, ?, 5)");
    said("hello");
    puts("app:said(\"hello\", \"hello\")");
    said(nowhere);
    puts("app:said(0x10 /* unreadable */, 0x10 /* unreadable */)");
    guarded(6);
    printf("sum %ld\n", sum);
    return 0;
}
