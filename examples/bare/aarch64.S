// Start of both processors of QEMU's `virt` machine, AArch64: stacks, memory as it's cached, interrupts.

    .section .text.start, "ax"
    .globl _start
_start:
    adrp x0, stacks_end
    add sp, x0, :lo12:stacks_end
    adrp x0, bss_start
    add x0, x0, :lo12:bss_start
    adrp x1, bss_stop
    add x1, x1, :lo12:bss_stop
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  bl common
    bl first
    b .

    .globl _second
_second:
    adrp x0, stacks_end
    add x0, x0, :lo12:stacks_end
    sub sp, x0, #0x10000
    bl common
    bl arrived
    b .

// Addresses stay what they are. Devices are below 1 GiB; memory above is cached, and shared with the other processor.
common:
    ldr x0, =0xff00             // attribute 0: a device; 1: memory, write-back
    msr mair_el1, x0
    ldr x0, =0x803519           // 39 bits of address, tables are cached, no second table
    msr tcr_el1, x0
    adrp x0, tables
    msr ttbr0_el1, x0
    adrp x0, vectors
    add x0, x0, :lo12:vectors
    msr vbar_el1, x0
    mov x0, #3 << 20            // vector registers may be used
    msr cpacr_el1, x0
    tlbi vmalle1
    dsb ish
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005             // the tables, and both caches
    orr x0, x0, x1
    msr sctlr_el1, x0
    isb
    msr daifclr, #2
    ret

    .section .data.tables, "aw"
    .balign 4096
tables:
    .quad 0x0060000000000401    // devices: nothing is executed
    .quad 0x0000000040000705    // memory, inner shareable
    .skip 510 * 8

    .text
    .balign 2048
vectors:
    .skip 0x200
    b fault                     // something is wrong
    .balign 128
    // An interrupt. Returning from it is what has this processor fetch its instructions again.
    sub sp, sp, #192
    stp x0, x1, [sp]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x30, [sp, #144]
    b interrupted
    .balign 2048
interrupted:
    bl interrupt
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x30, [sp, #144]
    add sp, sp, #192
    eret

fault:
    mrs x0, esr_el1
    mrs x1, elr_el1
    bl fail

// power(function, argument, argument, argument): PSCI, which QEMU has instead of firmware.
    .globl power
power:
    hvc #0
    ret
