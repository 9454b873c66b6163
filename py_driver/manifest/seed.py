"""Reads the early form of build.toml (upstream's "v1", April 2025): a name, [torch], [kernel.*] with `language`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.model import UNIVERSAL, Framework, Kernel, Located, Manifest
from py_driver.manifest.names import check_section_name, project_name
from py_driver.manifest.sources import read_capabilities, read_depends, read_extensions
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from py_driver.manifest.section import Section

_EDITION_5 = "is a key of edition 5: say `edition = 5` in [general]"
_LANGUAGES = ("cuda", "cuda-hipify")


def read_seed(root: Section, file: str) -> Manifest:
    """The manifest of a early-form file; errors are collected in the findings of `root`.

    Args:
        root: the whole file.
        file: its path as the user knows it.
    """
    findings = root.findings
    general = root.section("general", required=True)
    name = project_name(general) if general else Located(value="name", span=root.span)
    if general:
        general.finish(dict.fromkeys(("version", "license", "backends", "edition", "upstream", "source"), _EDITION_5))
    torch = root.section("torch", required=True)
    framework, universal = _framework(torch) if torch else (Framework(span=root.span), False)
    kernels = root.section("kernel")
    sections = [] if kernels is None else [kernels.section(key) for key in kernels.names()]
    read = tuple(_kernel(section) for section in sections if section)
    root.finish()
    if torch and universal and (framework.src or read):
        message = "a universal project has no sources to compile"
        advice = "take away `universal`, or `src` and the [kernel] sections"
        findings.add(Code.BAD_VALUE, message, torch.key_span("universal"), advice=advice)
    if torch and not universal and not read:
        advice = "add [kernel.<name>], or `universal = true` in [torch] for a project of Python files only"
        findings.add(Code.MISSING_KEY, "there is no [kernel.*] section", torch.span, advice=advice)
    return Manifest(
        file=file,
        edition=1,
        name=name,
        backends=(UNIVERSAL,) if universal else ("cuda",),
        framework=framework,
        kernels=read,
        notes=findings.notes(),
    )


def _framework(torch: Section) -> tuple[Framework, bool]:
    """[torch], and whether it says `universal = true`."""
    universal = bool(torch.boolean("universal"))
    framework = Framework(
        span=torch.span,
        noarch=universal,
        src=torch.texts("src") or (),
        include=torch.texts("include") or (),
        pyext=read_extensions(torch),
    )
    torch.finish(dict.fromkeys(("minver", "maxver", "stable-abi", "cxx-flags"), _EDITION_5))
    return framework, universal


def _kernel(section: Section) -> Kernel:
    """A [kernel.*] section."""
    findings = section.findings
    name = str(section.path[-1])
    key = findings.key(section.path)
    check_section_name(findings, name, key)
    language = section.text("language")
    if language and language.value not in _LANGUAGES:
        label = did_you_mean(language.value, _LANGUAGES) or f"one of {', '.join(_LANGUAGES)}"
        findings.add(Code.BAD_VALUE, f"unknown language `{language.value}`", language.span, label=label)
    elif language and language.value == "cuda-hipify":
        findings.note(f"{section.title} is built for CUDA; its ROCm half is not built yet", language.span)
    section.texts("rocm-archs")
    kernel = Kernel(
        name=Located(value=name, span=key),
        span=section.span,
        backend="cuda",
        torch=read_depends(section, built=True),
        src=section.texts("src", required=True) or (),
        include=section.texts("include") or (),
        capabilities=read_capabilities(section, "cuda-capabilities", required=True),
    )
    section.finish(dict.fromkeys(("backend", "cxx-flags", "cuda-flags", "hip-flags", "cuda-minver"), _EDITION_5))
    return kernel
