"""Compiler options that the rules and the driver interpret.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Prefixes of the options that gcc's driver passes to the linker alone.
TO_LINKER = ["-l", "-L", "-Wl,"]

# C++ options that switch OpenMP on and off, and the option that links its runtime, which asks for OpenMP as well.
OPENMP_ON = "-fopenmp"
OPENMP_OFF = "-fno-openmp"
OPENMP_LIBRARY = "-lgomp"

# Options of nvcc that pass a list on to the host compiler.
PASS_ON = ["-Xcompiler", "--compiler-options"]

# Options of nvcc for relocatable device code, which is linked with the code of other sources. Options of the first list
# have a value, `true` or `false`, and the last one counts; options of the third list have the linker optimise the code.
RELOCATABLE = ["-rdc", "--relocatable-device-code"]
RELOCATABLE_ALONE = ["--device-c", "-dc"]
LINK_TIME_OPTIMIZATION = ["--dlink-time-opt", "--lto", "-dlto", "-lto"]

# The option of nvcc that links device code; torch's BuildExtension passes it, with others, to that call alone.
DEVICE_LINK = ["--device-link", "-dlink"]

# The options of nvcc, besides those for architectures, that change the result of linking device code; options of the
# second list have no value.
OF_DEVICE_LINK = [
    "--compress-mode",
    "--fatbin-options",
    "--maxrregcount",
    "--no-compress",
    "--nvlink-options",
    "--ptxas-options",
    "-Xfatbin",
    "-Xnvlink",
    "-Xptxas",
    "-compress-mode",
    "-g",
    "-maxrregcount",
    "-no-compress",
]
OF_DEVICE_LINK_ALONE = ["--no-compress", "-g", "-no-compress"]

# The option that links device code of HIP, which the rules do not support.
HIP_RELOCATABLE = "-fgpu-rdc"

# Options of nvcc for the number of commands that it runs at once. Bazel decides that; besides, nvcc would need a shell
# to redirect each command's output, and actions have none.
THREADS = ["-t", "--threads"]
