"""Options of compilers that mean something to the rules and to the driver.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# What begins those that gcc's driver gives to the linker alone.
TO_LINKER = ["-l", "-L", "-Wl,"]

# Those of C++ that switch OpenMP on and off, and the one that links its runtime, which asks for it as well.
OPENMP_ON = "-fopenmp"
OPENMP_OFF = "-fno-openmp"
OPENMP_LIBRARY = "-lgomp"

# The options of nvcc that pass a list on to the host compiler.
PASS_ON = ["-Xcompiler", "--compiler-options"]

# Options of nvcc, and one of clang for HIP, with which GPU code must be linked before it runs. Those of the first list take
# `false` as a value, which asks for nothing.
RELOCATABLE = ["-rdc", "--relocatable-device-code"]
RELOCATABLE_ALONE = [
    "--device-c",
    "--device-link",
    "--dlink-time-opt",
    "--extensible-whole-program",
    "--gen-opt-lto",
    "--lto",
    "-dc",
    "-dlink",
    "-dlto",
    "-ewp",
    "-fgpu-rdc",
    "-gen-opt-lto",
    "-lto",
]

# Options of nvcc that say how many commands it runs at once. Bazel decides that; and nvcc would leave what each prints to
# a shell, which there is none of.
THREADS = ["-t", "--threads"]
