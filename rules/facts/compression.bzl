"""fatbinary's options for the compression of device code, for each value of `//rules/settings:compress`.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# By the newest compression option that a fatbinary has; toolchains/matrix.toml names it for each CUDA release. Before
# 12.8, fatbinary has LZ4 alone. `--compress-mode` covers only PTX and debug code unless `--compress-all` stands beside
# it, except for `size`. As `fatbinary --help` says and its output shows: `speed` is LZ4, `balance` and `size` are
# Zstandard.
FATBINARY = {
    "--compress-all": {
        "none": ["--compress=false"],
        "speed": ["--compress-all"],
    },
    "--compress-mode": {
        "balance": ["--compress-all", "--compress-mode=balance"],
        "none": ["--compress-mode=none"],
        "size": ["--compress-all", "--compress-mode=size"],
        "speed": ["--compress-all", "--compress-mode=speed"],
    },
}

# Prefixes, without dashes, of the options of nvcc and fatbinary with which an author chooses the compression.
AUTHORS = ["compress", "no-compress"]

# Options of nvcc for debug code, whose compression is left to nvcc.
DEBUG = ["--device-debug", "-G"]
