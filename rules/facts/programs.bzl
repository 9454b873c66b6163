"""The programs that the rules' own actions run, written in Zig.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# Where each begins, in rules/private/tools.
MAIN = {
    "abi_check": "abi_check/check.zig",
    "assemble": "assemble/main.zig",
    "compile": "compile/main.zig",
    "gcc": "compile/gcc.zig",
    "link": "link/main.zig",
}

# The directory, in rules/private/tools, in which a release has them compiled, in one for each CPU.
PREBUILT = "prebuilt"
