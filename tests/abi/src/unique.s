# A static variable of an inline function, as g++ makes it.
    .bss
    .globl _ZZ6singlevE5value
    .type _ZZ6singlevE5value,@gnu_unique_object
_ZZ6singlevE5value:
    .zero 4
    .size _ZZ6singlevE5value,4
