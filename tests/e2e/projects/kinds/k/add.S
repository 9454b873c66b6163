#include "part_asm.h"
/* int add(int, int), and the bytes of a file. */
  .text
  .globl NAME
  .hidden NAME
  .type NAME, @function
NAME:
#ifdef __x86_64__
  leal (%rdi, %rsi), %eax
#else
  add w0, w0, w1
#endif
  ret
  .size NAME, . - NAME

  .section .rodata
  .globl bytes
  .hidden bytes
bytes:
  .incbin "bytes.bin"

  .section .note.GNU-stack, "", @progbits
