# Start of both processors of QEMU's `virt` machine, riscv64, in machine mode: stacks and interrupts.

    .section .text.start, "ax"
    .globl _start
_start:
    csrr t0, mhartid
    la sp, stacks_end
    bnez t0, other
    la a0, bss_start
    la a1, bss_stop
1:  bgeu a0, a1, 2f
    sd zero, (a0)
    addi a0, a0, 8
    j 1b
2:  call common
    call first
    j .

# The second one waits until it's started, by an interrupt that nobody has allowed yet. Others wait for ever.
other:
    csrwi mie, 8
1:  wfi
    la a0, is_started
    lw a0, (a0)
    beqz a0, 1b
    li a0, 1
    bne t0, a0, 1b
    li a0, 0x10000
    sub sp, sp, a0
    call common
    call arrived
    j .

common:
    la a0, trap
    csrw mtvec, a0
    csrwi mie, 8                # software interrupts
    csrsi mstatus, 8
    ret

    .balign 4
trap:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd a0, 32(sp)
    sd a1, 40(sp)
    sd a2, 48(sp)
    sd a3, 56(sp)
    sd a4, 64(sp)
    sd a5, 72(sp)
    sd a6, 80(sp)
    sd a7, 88(sp)
    sd t3, 96(sp)
    sd t4, 104(sp)
    sd t5, 112(sp)
    sd t6, 120(sp)
    csrr a0, mcause
    bgez a0, fault              # no interrupt: something is wrong
    call interrupt
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld a0, 32(sp)
    ld a1, 40(sp)
    ld a2, 48(sp)
    ld a3, 56(sp)
    ld a4, 64(sp)
    ld a5, 72(sp)
    ld a6, 80(sp)
    ld a7, 88(sp)
    ld t3, 96(sp)
    ld t4, 104(sp)
    ld t5, 112(sp)
    ld t6, 120(sp)
    addi sp, sp, 128
    mret

fault:
    csrr a1, mepc
    call fail
