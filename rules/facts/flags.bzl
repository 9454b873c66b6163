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

# Options of nvcc with which the device code of a source is linked with that of others before it runs. Those of the first
# list take `true` or `false` as a value, of which the last counts; those of the third have the linker optimise it.
RELOCATABLE = ["-rdc", "--relocatable-device-code"]
RELOCATABLE_ALONE = ["--device-c", "-dc"]
LINK_TIME_OPTIMIZATION = ["--dlink-time-opt", "--lto", "-dlto", "-lto"]

# The option of nvcc that links device code; torch's BuildExtension gives it with others to that call alone.
DEVICE_LINK = ["--device-link", "-dlink"]

# The options of nvcc, besides those for architectures, that change what linking device code makes; those of the second list have
# no value.
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

# What links device code of HIP, which nothing here does.
HIP_RELOCATABLE = "-fgpu-rdc"

# Options of nvcc that say how many commands it runs at once. Bazel decides that; and nvcc would leave what each prints to
# a shell, which there is none of.
THREADS = ["-t", "--threads"]
