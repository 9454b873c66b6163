"""Reads editions 0 to 2 of build.toml, in which the sections determine the backends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import NOARCH, TORCH, Bounds, Depends, Framework, Hub, Located, Manifest
from py_driver.manifest.names import project_name
from py_driver.manifest.parts import (
    PYTHON_PACKAGES,
    check_python_depends,
    read_bounds,
    read_framework,
    read_kernel,
    read_tagged_kernels,
)
from py_driver.manifest.paths import path_problem
from py_driver.matrix.backends import UNIVERSAL

if TYPE_CHECKING:
    from py_driver.manifest.model import Kernel, Text, Texts
    from py_driver.manifest.section import Section

_HIPIFY = "cuda-hipify"


def read_edition0(root: Section, file: str) -> Manifest:
    """The manifest of a file of January 2025: the name is in [torch], the Python package below `pyroot`."""
    general = root.section("general", "general")
    version = general.text("version") if general else None
    if general:
        general.finish()
    torch = root.section(TORCH, TORCH)
    name = project_name(torch or root)
    pyroot = torch.text("pyroot") if torch else None
    framework = _torch(root, torch, universal=False)
    kernels = []
    for section in root.named_sections("kernel", "kernel.*"):
        kernels.append(read_kernel(section, _cuda(section), "capabilities"))
        section.finish()
    number = re.match(r"\d{1,6}", version.value, re.ASCII) if version else None
    manifest = _manifest(root, file, name, framework, tuple(kernels))
    python_root = f"{pyroot.value.rstrip('/')}/{manifest.module}" if pyroot else manifest.python_root
    if pyroot and (problem := path_problem(python_root)):
        root.findings.add(problem[0], f"the path `{python_root}` of the Python package {problem[1]}", pyroot.span)
    return manifest._replace(version=int(number[0]) if number else 1, python_root=python_root)


def read_edition1(root: Section, file: str) -> Manifest:
    """The manifest of a file of spring 2025: `universal` in [torch], `language` in kernel sections."""
    general = root.section("general", "general")
    name = project_name(general or root)
    if general:
        general.finish()
    torch = root.section(TORCH, TORCH)
    universal = bool(torch and torch.boolean("universal"))
    framework = _torch(root, torch, universal=universal)
    kernels = [kernel for section in root.named_sections("kernel", "kernel.*") for kernel in _by_language(section)]
    names: set[str] = set()
    for kernel in kernels:
        if kernel.name.value in names:
            message = f"the ROCm half of a `{_HIPIFY}` section is called `{kernel.name.value}`, like another section"
            root.findings.add(Code.BAD_NAME, message, kernel.name.span)
        names.add(kernel.name.value)
    return _manifest(root, file, name, framework, tuple(kernels))


def read_edition2(root: Section, file: str) -> Manifest:
    """The manifest of a file of summer and autumn 2025: kernel sections have `backend`."""
    general = root.section("general", "general")
    name = project_name(general or root)
    universal = bool(general and general.boolean("universal"))
    torch = root.section(TORCH, TORCH)
    framework = _torch(root, torch, universal=universal)
    manifest = _manifest(root, file, name, framework, read_tagged_kernels(root))
    if general is None:
        return manifest
    cuda = read_bounds(general, "cuda-minver", "cuda-maxver")
    python = general.texts("python-depends") or ()
    check_python_depends(general, python, (*PYTHON_PACKAGES[""], *PYTHON_PACKAGES["cuda"]))
    hub = read_hub(general)
    general.finish()
    depends = {
        backend: Depends(python=tuple(package.value for package in python if package.value in PYTHON_PACKAGES[backend]))
        for backend in ("", "cuda")
    }
    return manifest._replace(cuda=cuda, hub=hub, depends=depends)


def read_hub(general: Section) -> Hub:
    """[general.hub]."""
    if (table := general.section("hub", "general.hub")) is None:
        return Hub()
    repo, branch = table.text("repo-id"), table.text("branch")
    table.finish()
    return Hub(repo_id=repo.value if repo else None, branch=branch.value if branch else None)


def _torch(root: Section, torch: Section | None, *, universal: bool) -> Framework:
    """[torch], which these editions require except for universal projects."""
    if torch is None and not (universal and not root.has(TORCH)):
        if not root.has(TORCH):
            advice = "add [torch] with the sources that register the operators"
            root.findings.add(Code.MISSING_KEY, "there is no [torch] table", root.span, advice=advice)
        return Framework(span=root.span)
    framework = read_framework(torch, TORCH) if torch else Framework(span=root.span)
    if universal:
        if framework.src or root.has("kernel"):
            message = "a universal project has no sources to compile"
            advice = "remove `universal`, or `src` and the [kernel] sections"
            root.findings.add(Code.BAD_VALUE, message, framework.span, advice=advice)
        framework = framework._replace(table=NOARCH, bounds=Bounds())
    elif not root.has("kernel"):
        advice = "add [kernel.<name>], or `universal = true` for a project of Python files only"
        root.findings.add(Code.MISSING_KEY, "there is no [kernel.*] section", framework.span, advice=advice)
    return framework


def _manifest(root: Section, file: str, name: Text, framework: Framework, kernels: tuple[Kernel, ...]) -> Manifest:
    """What the three editions have in common."""
    root.finish()
    first: dict[str, Text] = {}
    for kernel in kernels:
        first.setdefault(kernel.backend.value, kernel.backend)
    backends: Texts = tuple(first.values())
    if framework.noarch:
        backends = (Located(value=UNIVERSAL, span=framework.span),)
    return Manifest(
        file=file,
        edition=root.edition,
        name=name,
        backends=backends,
        framework=framework,
        kernels=kernels,
        python_root=f"torch-ext/{name.value.replace('-', '_')}",
    )


def _cuda(section: Section) -> Text:
    return Located(value="cuda", span=section.span)


def _by_language(section: Section) -> tuple[Kernel, ...]:
    """The sections from a section of edition 1: two for CUDA and ROCm, as in upstream's migration."""
    language = section.text("language")
    name = language.value if language else "cuda"
    backend = Located(value="metal" if name == "metal" else "cuda", span=language.span if language else section.span)
    first = read_kernel(section, backend)
    section.finish()
    if name != _HIPIFY:
        return (first,)
    rocm = read_kernel(section, Located(value="rocm", span=backend.span))
    return first, rocm._replace(name=Located(value=f"{first.name.value}_rocm", span=first.name.span))
