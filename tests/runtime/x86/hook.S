/* The hooks of x86: they are called in the middle of a prologue, or before it, and must keep every
   register that may hold an argument, at whatever alignment the stack has there. */
        .text
        .globl  mcount, __fentry__
        .type   mcount, @function
        .type   __fentry__, @function
mcount:
__fentry__:
#ifdef __x86_64__
        push    %rbp
        mov     %rsp, %rbp
        and     $-16, %rsp
        push    %rax
        push    %rcx
        push    %rdx
        push    %rsi
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        mov     8(%rbp), %rdi
        call    count_hook
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %rcx
        pop     %rax
        mov     %rbp, %rsp
        pop     %rbp
#else
        push    %ebp
        mov     %esp, %ebp
        and     $-16, %esp
        push    %eax
        push    %ecx
        push    %edx
        push    4(%ebp)
        call    count_hook
        pop     %edx
        pop     %edx
        pop     %ecx
        pop     %eax
        mov     %ebp, %esp
        pop     %ebp
#endif
        ret
        .section .note.GNU-stack, "", @progbits
