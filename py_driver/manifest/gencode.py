"""The GPU architectures of `-gencode` among flags for nvcc."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code
from py_driver.manifest.flags import with_values
from py_driver.manifest.model import values

if TYPE_CHECKING:
    from py_driver.manifest.model import Text, Texts
    from py_driver.manifest.section import Findings

OPTIMIZED: Final = "-dlto"
"""The flag with the meaning of `code=lto_90`: the code is optimised at link time."""

_GENCODE = ("-gencode", "--generate-code")


def take_gencode(findings: Findings, flags: Texts) -> tuple[Texts, Texts]:
    """The CUDA capabilities that `-gencode` adds to a section's, and the other flags; collects a note for each.

    A `-gencode` whose code has another architecture than its PTX stays, and is refused with the other flags.
    """
    found: dict[str, Text] = {}
    left: list[Text] = []
    optimized = False
    for words in with_values(flags, _GENCODE.__contains__):
        name, _, value = "=".join(values(words)).partition("=")
        if name in _GENCODE and (capability := _capability(value)):
            found[capability] = words[-1]._replace(value=capability)
            optimized |= "lto_" in value
            message = f"the flag `-gencode={value}` in cuda-flags adds {capability}: list it in `cuda-capabilities`"
            findings.note(message, words[-1].span, Code.BAD_FLAG)
        else:
            left += words
    left += [flags[-1]._replace(value=OPTIMIZED)] if optimized else []
    return tuple(found.values()), tuple(left)


def _capability(gencode: str) -> str:
    """The capability that a value of `-gencode` means: `9.0a` for `arch=compute_90a,code=sm_90a`; "" if none."""
    match = re.fullmatch(r"""arch=compute_(\d+)(\d)([af]?),code=["'\[]*([\w,]+)["'\]]*""", gencode, re.ASCII)
    if match is None:
        return ""
    major, minor, kind, codes = match.groups()
    number = f"{major}{minor}{kind}"
    if not {*codes.split(",")} <= {f"sm_{number}", f"lto_{number}", f"compute_{number}"}:
        return ""
    return f"{major}.{minor}{kind}" + ("+PTX" if f"compute_{number}" in codes.split(",") else "")
