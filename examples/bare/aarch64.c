/* QEMU's `virt` machine, AArch64: serial line, clock, interrupts; and what `hooks` needs. */
#include "hooks.h"
#include "machine.h"

#define AT(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define UART 0x09000000
#define DISTRIBUTOR 0x08000000
#define INTERFACE 0x08010000

long power(unsigned long function, unsigned long one, unsigned long two, unsigned long three);
void _second(void);

/* How often the second processor was asked to fetch its instructions again, and has done so. */
static unsigned asked, done;
static int is_there;

void put(char c)
{
    while (AT(UART + 0x18) & 1 << 5)
        ;
    AT(UART) = (unsigned char)c;
}

int get(void)
{
    while (AT(UART + 0x18) & 1 << 4)
        ;
    return AT(UART) & 0xff;
}

void relax(void)
{
    __asm__ volatile("yield");
}

uint64_t hooks_clock(void)
{
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

uint64_t clock_rate(void)
{
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate;
}

size_t hooks_processor(void)
{
    size_t number;
    __asm__("mrs %0, mpidr_el1" : "=r"(number));
    return number & 0xff;
}

/* The manual is the Arm ARM (DDI 0487), B2.2.5 and "Synchronization and coherency issues between data and instruction
 * accesses". Each word is stored at once, so another processor finds the old instruction or the new one, and both are of
 * the kind that may be exchanged while it runs. A kernel whose code is read-only writes to a second mapping of it. */
int hooks_write(uint64_t address, const void *bytes, size_t length)
{
    for (size_t at = 0; at < length; at += 4) {
        uint32_t word;
        __builtin_memcpy(&word, (const char *)bytes + at, 4);
        AT(address + at) = word;
        /* To where instructions come from: out of the data cache. */
        __asm__ volatile("dc cvau, %0" ::"r"(address + at) : "memory");
    }
    return 0;
}

int hooks_synchronize(void)
{
    /* All stores have left the data cache, then all instruction caches forget what they have, then this processor fetches
     * again. For few hooks `ic ivau` of each would be cheaper. */
    __asm__ volatile("dsb ish\n ic ialluis\n dsb ish\n isb" ::: "memory");
    if (!__atomic_load_n(&is_there, __ATOMIC_ACQUIRE) || hooks_processor() != 0)
        return 0;
    /* What another processor has already fetched, it drops at a context synchronization event only: the interrupt. */
    unsigned number = __atomic_add_fetch(&asked, 1, __ATOMIC_RELEASE);
    __asm__ volatile("dsb ishst" ::: "memory");
    AT(DISTRIBUTOR + 0xf00) = 1 << 17;
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != number)
        relax();
    return 0;
}

void interrupt(void)
{
    uint32_t which = AT(INTERFACE + 0x0c);

    if ((which & 0x3ff) >= 1020)
        return;
    unsigned number = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
    /* An `isb` of its own, because the other one goes on before this interrupt returns. */
    __asm__ volatile("isb" ::: "memory");
    __atomic_store_n(&done, number, __ATOMIC_RELEASE);
    AT(INTERFACE + 0x10) = which;
}

static void enable_interrupts(void)
{
    AT(DISTRIBUTOR + 0x100) = 1;
    AT(INTERFACE + 4) = 0xff;
    AT(INTERFACE) = 1;
}

void machine_init(void)
{
    AT(DISTRIBUTOR) = 1;
    enable_interrupts();
}

/* Where the second processor comes to from _second. */
void arrived(void)
{
    enable_interrupts();
    __atomic_store_n(&is_there, 1, __ATOMIC_RELEASE);
    second();
}

int start_second(void)
{
    if (power(0xc4000003, 1, (unsigned long)_second, 0) != 0)
        return 0;
    while (!__atomic_load_n(&is_there, __ATOMIC_ACQUIRE))
        relax();
    return 1;
}

_Noreturn void power_off(void)
{
    power(0x84000008, 0, 0, 0);
    for (;;)
        ;
}
