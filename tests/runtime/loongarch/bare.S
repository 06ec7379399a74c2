/* Start, end and system calls of LoongArch Linux. */
        .text
        .globl  _start, raw_call
_start:
        bl      main
        ori     $a7, $zero, 93
        syscall 0
raw_call:
        move    $a7, $a0
        move    $a0, $a1
        move    $a1, $a2
        move    $a2, $a3
        syscall 0
        ret
        .section .note.GNU-stack, "", @progbits
