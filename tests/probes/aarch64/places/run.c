// Runs instructions where they were and where they are now, and prints each case whose registers differ afterwards. Breakpoints are
// wherever an instruction may lead; a signal's frame is how registers get their values, and how they're read.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { NOTHING, BRANCH, LITERAL };
struct one {
  uint64_t from, to, target, kind, length;
  uint32_t word, code[33];
  uint64_t registers[31], flags, literal[2];
};
struct seen {
  uint64_t registers[31], sp, pc, flags;
  __uint128_t vectors[32];
};

static struct seen kept, found;
static const struct one *current;
static uint64_t start;
static char stack[1 << 16] __attribute__((aligned(16)));

static struct fpsimd_context *vectors(ucontext_t *frame) {
  return (struct fpsimd_context *)frame->uc_mcontext.__reserved;
}

static void copy(struct seen *to, ucontext_t *frame) {
  memcpy(to->registers, frame->uc_mcontext.regs, sizeof to->registers);
  to->sp = frame->uc_mcontext.sp;
  to->pc = frame->uc_mcontext.pc;
  to->flags = frame->uc_mcontext.pstate & 0xf0000000;
  memcpy(to->vectors, vectors(frame)->vregs, sizeof to->vectors);
}

// The first breakpoint is the one in `run`, the second one is the end.
static void trap(int number, siginfo_t *info, void *context) {
  ucontext_t *frame = context;
  mcontext_t *registers = &frame->uc_mcontext;
  if (start) {
    copy(&kept, frame);
    memcpy(registers->regs, current->registers, sizeof current->registers);
    registers->sp = (uint64_t)(stack + sizeof stack / 2);
    registers->pc = start;
    registers->pstate = (registers->pstate & ~0xf0000000ul) | current->flags;
    start = 0;
    return;
  }
  copy(&found, frame);
  if (number != SIGTRAP) found.pc |= (uint64_t)number << 56;
  memcpy(registers->regs, kept.registers, sizeof kept.registers);
  memcpy(vectors(frame)->vregs, kept.vectors, sizeof kept.vectors);
  registers->sp = kept.sp;
  registers->pc = kept.pc + 4;
}

static __attribute__((noinline)) struct seen run(uint64_t at) {
  start = at;
  asm volatile("brk #0" ::: "memory", "cc");
  for (int i = 0; i < 32; i++)
    if (found.vectors[i] == kept.vectors[i]) found.vectors[i] = 0;
  return found;
}

static void put(uint64_t at, const void *bytes, size_t length) {
  memcpy((void *)at, bytes, length);
  __builtin___clear_cache((char *)at, (char *)at + length);
}

int main(void) {
  static char other[1 << 16];
  stack_t signals = {.ss_sp = other, .ss_size = sizeof other};
  sigaltstack(&signals, 0);
  struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  int numbers[] = {SIGTRAP, SIGILL, SIGSEGV, SIGBUS};
  for (int i = 0; i < 4; i++) sigaction(numbers[i], &action, 0);
  void *arena = (void *)0x1000000000;
  if (mmap(arena, 1ul << 29, PROT_READ | PROT_WRITE | PROT_EXEC,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != arena)
    return 2;
  // What stubs call: ldr x17, [x16]; br x17
  const uint32_t routine[] = {0xf9400211, 0xd61f0220};
  put(0x1000001000, routine, sizeof routine);
  static struct one one;
  const uint32_t breakpoint = 0xd4200000;
  int count = 0;
  for (; fread(&one, sizeof one, 1, stdin) == 1; count++) {
    current = &one;
    if (one.kind == LITERAL) put(one.target, one.literal, sizeof one.literal);
    if (one.kind == BRANCH) put(one.target, &breakpoint, 4);
    put(one.from + 4, &breakpoint, 4);
    put(one.from, &one.word, 4);
    struct seen before = run(one.from);
    put(one.from, &breakpoint, 4);
    put(one.to, one.code, one.length);
    struct seen after = run(one.to);
    if (memcmp(&before, &after, sizeof before))
      printf("%08x at %lx, moved to %lx: ends at %lx and at %lx\n", one.word, one.from, one.to, before.pc, after.pc);
  }
  printf("%d\n", count);
}
