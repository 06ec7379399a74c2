/* Start, end and system calls of MIPS Linux, n32 and n64. */
#if _MIPS_SIM == _ABI64
#define LOAD_GOT ld
#define SYS_EXIT 5058
#else
#define LOAD_GOT lw
#define SYS_EXIT 6058
#endif
        .text
        .set    noreorder
        .globl  __start, raw_call
        .type   raw_call, @function
__start:
        bal     1f
        nop
1:      .cpsetup $31, $16, 1b
        LOAD_GOT $25, %call16(main)($28)
        jalr    $25
        nop
        move    $4, $2
        li      $2, SYS_EXIT
        syscall
raw_call:
        move    $2, $4
        move    $4, $5
        move    $5, $6
        move    $6, $7
        syscall
        jr      $31
        nop
        .section .note.GNU-stack, "", @progbits
