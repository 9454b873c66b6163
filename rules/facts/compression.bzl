"""What fatbinary is told to compress device code, for each choice of `//rules/settings:compress`.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# By the newest of its options for this that a fatbinary has, which toolchains/matrix.toml says of each CUDA release: before 12.8
# there is LZ4 alone. `--compress-mode` means PTX and debug code unless `--compress-all` stands beside it, but for `size`.
# As `fatbinary --help` says and its output shows: `speed` is LZ4, `balance` and `size` are Zstandard.
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

# What the names of an author's options of nvcc and fatbinary begin with that choose it, without their dashes.
AUTHORS = ["compress", "no-compress"]

# Options of nvcc for code that is debugged, which nvcc compresses as it likes.
DEBUG = ["--device-debug", "-G"]
