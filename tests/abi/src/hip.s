# A bundle as clang-offload-bundler writes it, for two architectures; the code objects have a header and a table of names.
.macro entry name, from, to
  .quad \from - bundle
  .quad \to - \from
  .quad 9f - 8f
8: .ascii "\name"
9:
.endm

.macro code
  .byte 0x7f, 'E', 'L', 'F', 2, 1, 1, 64, 4, 0, 0, 0, 0, 0, 0, 0
  .short 3, 224
  .long 1
  .quad 0, 0, 80
  .long 0
  .short 64, 0, 0, 64, 2, 1
  .ascii "\0.shstrtab\0"
  .zero 5
  .zero 64
  .long 1, 3
  .quad 0, 0, 64, 11
  .long 0, 0
  .quad 1, 0
.endm

.section .hip_fatbin,"a",@progbits
.p2align 4
bundle:
  .ascii "__CLANG_OFFLOAD_BUNDLE__"
  .quad 3
  entry "host-x86_64-unknown-linux-gnu-", first, first
  entry "hipv4-amdgcn-amd-amdhsa--gfx90a", first, second
  entry "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", second, end
first:
  code
second:
  code
end:
.section .note.GNU-stack,"",@progbits
