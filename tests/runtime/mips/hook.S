/* The hook of MIPS: the function's own return address is in $1, the hook's in $31, and on o32 the
   function has made room of 8 bytes on the stack that the hook gives back. It keeps the
   arguments, and finds the GOT by itself, for it need not be called through $25. */
        .text
        .set    noreorder
        .set    noat
        .globl  _mcount
        .type   _mcount, @function
        .ent    _mcount
#if _MIPS_SIM == _ABIO32
#define STORE sw
#define LOAD lw
#define LOAD_GOT lw
#define ADD addiu
#define FRAME 96
#define ROOM 8
#else
#define STORE sd
#define LOAD ld
#define FRAME 160
#define ROOM 0
#if _MIPS_SIM == _ABI64
#define LOAD_GOT ld
#define ADD daddiu
#else
#define LOAD_GOT lw
#define ADD addiu
#endif
#endif
#define SLOT(n) (FRAME - 8 - 8 * n)($29)
_mcount:
        ADD     $29, $29, -FRAME
        STORE   $1, SLOT(0)
        STORE   $31, SLOT(1)
        STORE   $2, SLOT(2)
        STORE   $3, SLOT(3)
        STORE   $4, SLOT(4)
        STORE   $5, SLOT(5)
        STORE   $6, SLOT(6)
        STORE   $7, SLOT(7)
        STORE   $28, SLOT(8)
#if _MIPS_SIM != _ABIO32
        STORE   $8, SLOT(9)
        STORE   $9, SLOT(10)
        STORE   $10, SLOT(11)
        STORE   $11, SLOT(12)
#endif
        move    $4, $31
        bal     1f
        nop
1:
#if _MIPS_SIM == _ABIO32
        .cpload $31
#else
        .cpsetup $31, 8, 1b
#endif
        LOAD_GOT $25, %call16(count_hook)($28)
        jalr    $25
        nop
        LOAD    $1, SLOT(0)
        LOAD    $25, SLOT(1)
        LOAD    $2, SLOT(2)
        LOAD    $3, SLOT(3)
        LOAD    $4, SLOT(4)
        LOAD    $5, SLOT(5)
        LOAD    $6, SLOT(6)
        LOAD    $7, SLOT(7)
        LOAD    $28, SLOT(8)
#if _MIPS_SIM != _ABIO32
        LOAD    $8, SLOT(9)
        LOAD    $9, SLOT(10)
        LOAD    $10, SLOT(11)
        LOAD    $11, SLOT(12)
#endif
        move    $31, $1
        jr      $25
        ADD     $29, $29, FRAME + ROOM
        .end    _mcount
        .section .note.GNU-stack, "", @progbits
