// Functions in assembly, with unwind information and a size.
#include <stdio.h>
#define FUNCTION(name, body)                                                   \
  asm(".text\n.p2align 4\n.globl " #name "\n.type " #name ",%function\n" #name \
      ":\n.cfi_startproc\n" body "\n.cfi_endproc\n.size " #name ",.-" #name    \
      "\n")
