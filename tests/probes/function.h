// Functions in assembly, with unwind information and a size.
#include <stdio.h>
#define NAMED(name, symbol, body)                                              \
  asm(".text\n.p2align 4\n.globl \"" symbol "\"\n.type \"" symbol              \
      "\",@function\n\"" symbol "\":\n.cfi_startproc\n" body                   \
      "\n.cfi_endproc\n.size \"" symbol "\",.-\"" symbol "\"\n")
#define FUNCTION(name, body) NAMED(name, #name, body)
