"""Readers for keys that tables of both editions share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import Located
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from py_driver.manifest.section import Section

_CAPABILITY = re.compile(r"[1-9]\d?\.\d[af]?(\+PTX)?", re.ASCII)
_EXTENSION = re.compile(r"[A-Za-z0-9_]{1,16}")

TORCH = "torch"
_DEPENDS = (
    TORCH,
    *(f"cutlass_{version}" for version in ("2_10", "3_5", "3_6", "3_8", "3_9", "4_0", "4_4", "4_5")),
    "sycl_tla",
    "metal-cpp",
)
"""What upstream's kernel-builder knows (kernels-data/src/config/deps.rs, August 2026)."""


def read_extensions(framework: Section) -> tuple[str, ...]:
    """`pyext`: extensions without a dot; `py` and `pyi` where absent."""
    extensions = framework.texts("pyext")
    if extensions is None:
        return ("py", "pyi")
    for extension in extensions:
        if not _EXTENSION.fullmatch(extension.value):
            message = "an extension in `pyext` has letters, digits and `_` only, without a dot"
            framework.findings.add(Code.BAD_VALUE, message, extension.span)
    return tuple(extension.value for extension in extensions)


def read_depends(kernel: Section, *, built: bool) -> bool:
    """`depends`: whether torch is in it.

    Args:
        kernel: the section.
        built: whether its backend is built; only then is a dependency that is not built yet an error.
    """
    torch = False
    for depend in kernel.texts("depends", required=True, expected='a list, [] or ["torch"]') or ():
        if depend.value == TORCH:
            torch = True
        elif depend.value not in _DEPENDS:
            message = f"unknown dependency `{depend.value}` in {kernel.title}"
            label = did_you_mean(depend.value, _DEPENDS)
            kernel.findings.add(Code.BAD_VALUE, message, depend.span, label=label)
        elif built:
            message = f"the dependency `{depend.value}` is not supported yet"
            advice = 'only "torch" is; headers of your own can be listed in `src`'
            kernel.findings.add(Code.UNSUPPORTED, message, kernel.key_span("depends"), advice=advice)
    return torch


def read_capabilities(section: Section, key: str, *, required: bool = False) -> Located[tuple[str, ...]] | None:
    """A list of GPU architectures such as `8.0`, `9.0a`, `10.0f`, `12.0+PTX`; each once, in the order given."""
    found = section.texts(key, required=required, expected='a list such as ["8.0", "9.0a"]')
    if found is None:
        return None
    good = [capability.value for capability in found if _CAPABILITY.fullmatch(capability.value)]
    for capability in found:
        if not _CAPABILITY.fullmatch(capability.value):
            message = f"`{capability.value}` is not a CUDA capability"
            label = "such as 8.0, 9.0a, 10.0f or 12.0+PTX"
            section.findings.add(Code.BAD_VALUE, message, capability.span, label=label)
    if section.is_empty(key):
        advice = f"leave `{key}` out for the default list"
        message = f"`{key}` in {section.title} is empty"
        section.findings.add(Code.BAD_VALUE, message, section.value_span(key), advice=advice)
    return Located(value=tuple(dict.fromkeys(good)), span=section.value_span(key))
