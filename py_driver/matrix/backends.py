"""The backends: which there are, which are built, and how their architectures are spelled."""

UNIVERSAL = "universal"
"""Stands for the backend of Python-only projects that run on every backend (`universal = true`)."""

BUILT = ("cpu", "cuda", "rocm")
"""The backends that are built."""

BACKENDS = ("cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu")
"""The backends that build.toml knows; those not in BUILT are read and left out with a note."""

KERNEL_BACKENDS = ("cpu", "cuda", "metal", "rocm", "xpu")
"""The backends that kernel sections can be for."""

CAPABILITY = r"[1-9][0-9]?\.[0-9][af]?(\+PTX)?"
"""What a CUDA capability looks like: `8.0`, `9.0a`, `10.0f`, `12.0+PTX`."""

GFX = r"gfx[0-9a-f]{3,4}(:[a-z]+[+-])*"
"""What an AMD architecture looks like: `gfx942`, `gfx90a:xnack-`."""
