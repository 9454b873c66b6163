"""The programs that the rules' own actions run, written in Zig.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# The root source file of each program, relative to rules/private/tools.
MAIN = {
    "abi_check": "abi_check/check.zig",
    "assemble": "assemble/main.zig",
    "compile": "compile/main.zig",
    "gcc": "compile/gcc.zig",
    "link": "link/main.zig",
}

# The directory in rules/private/tools with a release's compiled programs, in a subdirectory for each CPU.
PREBUILT = "prebuilt"
