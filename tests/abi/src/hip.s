# A bundle as clang-offload-bundler writes it, for two architectures; of the code objects there is the header only.
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
  .zero 44
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
