# What armed hooks jump to, RISC-V. ra: where the function returns to; t0: the function behind its hook.
#
# Only what may have an argument is kept, a0 to a7, and t2, which has the frame of the function around a nested one (psABI,
# "static chain"). A function may change other temporary registers anyway. Floating-point registers aren't touched: this crate is
# compiled for a target that has none (riscv64imac-unknown-none-elf).

    .text
    .globl hooks_enter
    .type hooks_enter, @function
    .balign 16
hooks_enter:
    addi sp, sp, -96
    sd a0, 0(sp)
    sd a1, 8(sp)
    sd a2, 16(sp)
    sd a3, 24(sp)
    sd a4, 32(sp)
    sd a5, 40(sp)
    sd a6, 48(sp)
    sd a7, 56(sp)
    sd t2, 64(sp)
    sd t0, 72(sp)
    addi a0, t0, -8             # the hook
    mv a1, ra
    addi a2, sp, 96
    call hooks_entered          # where the function is to return to
    mv ra, a0
    ld a0, 0(sp)
    ld a1, 8(sp)
    ld a2, 16(sp)
    ld a3, 24(sp)
    ld a4, 32(sp)
    ld a5, 40(sp)
    ld a6, 48(sp)
    ld a7, 56(sp)
    ld t2, 64(sp)
    ld t1, 72(sp)
    addi sp, sp, 96
    jr t1
    .size hooks_enter, . - hooks_enter

# Where traced functions return to. a0 and a1 may have a result.
    .globl hooks_exit
    .type hooks_exit, @function
    .balign 16
hooks_exit:
    addi sp, sp, -16
    sd a0, 0(sp)
    sd a1, 8(sp)
    addi a0, sp, 16
    call hooks_left             # the true address
    mv ra, a0
    ld a0, 0(sp)
    ld a1, 8(sp)
    addi sp, sp, 16
    ret
    .size hooks_exit, . - hooks_exit
