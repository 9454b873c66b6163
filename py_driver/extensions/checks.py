"""Checks of a recorded extension module: its name, its sources and its objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code
from py_driver.extensions.for_rocm import hip_problem
from py_driver.manifest.paths import path_problem
from py_driver.matrix.facts import facts

if TYPE_CHECKING:
    from py_driver.errors import Span
    from py_driver.extensions.headers import ProjectTree
    from py_driver.manifest.section import Findings
    from py_driver.recording.record import Module

_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def check_module(module: Module, family: str, tree: ProjectTree, span: Span, findings: Findings) -> None:
    """Collect errors in the name, the sources and the objects of a module.

    Args:
        module: the recorded module.
        family: the backend of the variant.
        tree: the files of the project.
        span: the call that created the module.
        findings: receives UNSUPPORTED, PATH_ESCAPES, FILE_MISSING, FILE_KIND.
    """
    if family == "rocm" and (reason := hip_problem(module, span)):
        findings.add(Code.UNSUPPORTED, f"{module.name} cannot be built for ROCm: {reason}", span)
    languages = facts("backends")
    known = [f".{extension}" for extension in (*languages["CXX_EXTENSIONS"], *languages["OTHER_LANGUAGES"])]
    device = [f".{extension}" for extension in languages["BACKENDS"]["cuda"]["languages"]]
    if not _NAME.fullmatch(module.name):
        message = f"the module name `{module.name}` is no dotted name of ASCII letters, digits and `_`"
        advice = "rename it: Python imports it by its name"
        findings.add(Code.UNSUPPORTED, message, span, advice=advice)
    for source in module.sources:
        if (problem := path_problem(source)) is not None:
            findings.add(problem[0], f"the source `{source}` of {module.name} {problem[1]}", span)
        elif not tree.exists(source):
            message = f"the source `{source}` of {module.name} is missing"
            advice = tree.suggestion(source) or "the archive lacks it, or setup.py fetches it; name another"
            findings.add(Code.FILE_MISSING, message, span, advice=advice)
        elif source.endswith(tuple(device)) and family not in {"cuda", "rocm"}:
            message = f"{module.name} has the CUDA source `{source}`, and this variant is for the CPU"
            findings.add(Code.UNSUPPORTED, message, span, advice="build it for CUDA: `--backend cuda`")
        elif not source.endswith((*known, *device)):
            message = f"the source `{source}` of {module.name} is not in a supported language"
            findings.add(Code.FILE_KIND, message, span, advice=f"known are {', '.join((*known, *device))}")
    for name in module.extra_objects:
        message = f"{module.name} links the object `{name}`, which is not compiled here"
        findings.add(Code.UNSUPPORTED, message, span, advice="list its source")
