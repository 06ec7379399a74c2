/* QEMU's `virt` machine, riscv64: serial line, clock, interrupts; and what `hooks` needs. */
#include "hooks.h"
#include "machine.h"

#define AT(type, address) (*(volatile type *)(uintptr_t)(address))
#define UART 0x10000000
#define CLINT 0x02000000
#define FINISHER 0x00100000

/* How often the second processor was asked to fetch its instructions again, and has done so. */
static unsigned asked, done;
static int is_there;
/* Not in .bss, which the first processor clears while the second one looks. */
int is_started __attribute__((section(".data"))) = 0;

void put(char c)
{
    while (!(AT(uint8_t, UART + 5) & 1 << 5))
        ;
    AT(uint8_t, UART) = (uint8_t)c;
}

int get(void)
{
    while (!(AT(uint8_t, UART + 5) & 1))
        ;
    return AT(uint8_t, UART);
}

void relax(void)
{
    __asm__ volatile(".word 0x0100000f" ::: "memory"); /* pause */
}

uint64_t hooks_clock(void)
{
    return AT(uint64_t, CLINT + 0xbff8);
}

uint64_t clock_rate(void)
{
    return 10000000;
}

size_t hooks_processor(void)
{
    size_t number;
    __asm__("csrr %0, mhartid" : "=r"(number));
    return number;
}

/* The manual is the unprivileged specification, "Zifencei". Instructions may be anywhere, so they're written halfword by
 * halfword: while other processors run, one halfword of a hook changes, and what they fetch has the old one or the new one. */
int hooks_write(uint64_t address, const void *bytes, size_t length)
{
    for (size_t at = 0; at < length; at += 2) {
        uint16_t half;
        __builtin_memcpy(&half, (const char *)bytes + at, 2);
        AT(uint16_t, address + at) = half;
    }
    return 0;
}

int hooks_synchronize(void)
{
    /* `fence.i` is for this processor only. For others: "the writing hart also has to execute a data FENCE before
     * requesting that all remote RISC-V harts execute a FENCE.I". */
    __asm__ volatile("fence.i" ::: "memory");
    if (!__atomic_load_n(&is_there, __ATOMIC_ACQUIRE) || hooks_processor() != 0)
        return 0;
    unsigned number = ++asked;
    __asm__ volatile("fence" ::: "memory");
    AT(uint32_t, CLINT + 4) = 1;
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != number)
        relax();
    return 0;
}

void interrupt(void)
{
    AT(uint32_t, CLINT + 4 * hooks_processor()) = 0;
    __asm__ volatile("fence" ::: "memory");
    unsigned number = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
    __asm__ volatile("fence.i" ::: "memory");
    __atomic_store_n(&done, number, __ATOMIC_RELEASE);
}

void machine_init(void)
{
}

/* Where the second processor comes to when it's started. */
void arrived(void)
{
    __atomic_store_n(&is_there, 1, __ATOMIC_RELEASE);
    second();
}

/* Whether there's a second one: its register of interrupts keeps what is written, until it's told that it's started.
 * From then on it may have taken its interrupt before anybody looks. */
int start_second(void)
{
    AT(uint32_t, CLINT + 4) = 1;
    if (!AT(uint32_t, CLINT + 4))
        return 0;
    __atomic_store_n(&is_started, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&is_there, __ATOMIC_ACQUIRE))
        relax();
    return 1;
}

_Noreturn void power_off(void)
{
    AT(uint32_t, FINISHER) = 0x5555;
    for (;;)
        ;
}
