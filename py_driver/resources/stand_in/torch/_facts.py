"""What the stand-in knows of the torch that it stands for: configuration.json, which the driver writes beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("configuration.json").read_text(encoding="utf-8"))
"""release, local, cuda, hip, cxx11, arch_list, archs, home, openmp, common_nvcc_flags."""

CAPABILITIES: list[tuple[int, int]] = [tuple(pair) for pair in FACTS["capabilities"]]
"""The CUDA capabilities of the run, ascending, as major and minor number."""

OLDEST: tuple[int, int] = (5, 0)
"""The capability of a device where the run has none, as for ROCm, whose devices report one as well."""


def lacks(module: str, name: str) -> NoReturn:
    """Refuse an attribute that torch may have and this has not.

    Args:
        module: that lacks it.
        name: of the attribute.

    Raises:
        AttributeError: always; dunder names as Python words it, since importlib and copy ask for them.
    """
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    raise AttributeError(f"the stand-in for torch has no `{module}.{name}`")


class Refused(Exception):  # noqa: N818  (it is no fault of the project)
    """Raised for what a recording cannot do; the driver reports it as unsupported."""
