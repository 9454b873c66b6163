"""The machine that the driver runs on."""

from __future__ import annotations


def machine_cpu() -> str:
    """Its CPU as Linux calls it, e.g. `x86_64`, `aarch64`; also one for which there are no compilers."""
    import platform  # noqa: PLC0415  (`driver check` does not need it)

    return platform.machine()
