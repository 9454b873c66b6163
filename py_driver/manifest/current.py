"""Reads editions 3 to 6 of build.toml, which list their backends; they differ in keys, and 3 in optional keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.early import read_hub
from py_driver.manifest.model import NOARCH, TORCH, TVM_FFI, Bounds, Framework, Manifest
from py_driver.manifest.names import project_name
from py_driver.manifest.parts import frameworks, read_bounds, read_depends, read_framework, read_tagged_kernels

if TYPE_CHECKING:
    from py_driver.manifest.model import Texts
    from py_driver.manifest.section import Section

_IMPLICIT_NOARCH = 3
"""The last edition in which a file without a framework table is a project of Python files."""


def read_current(root: Section, file: str) -> Manifest:
    """The manifest of a file of edition 3 to 6; errors are collected in the findings of `root`."""
    general = root.section("general", "general")
    framework = _framework(root)
    backends = _backends(general) if general else ()
    kernels = read_tagged_kernels(root, backends)
    root.finish()
    name = project_name(general or root)
    folder = "tvm-ffi-ext" if framework.table == TVM_FFI else "torch-ext"
    manifest = Manifest(
        file=file,
        edition=root.edition,
        name=name,
        framework=framework,
        kernels=kernels,
        backends=backends,
        python_root=f"{folder}/{name.value.replace('-', '_')}",
    )
    return _with_general(manifest, general) if general else manifest


def _with_general(manifest: Manifest, general: Section) -> Manifest:
    """The manifest with the keys of [general] besides the name."""
    version, licence = general.integer("version"), general.text("license")
    if licence and not licence.value.strip():
        general.findings.add(Code.BAD_VALUE, "`license` in [general] is empty", licence.span)
    general.integer("edition")
    upstream, source = general.text("upstream"), general.text("source")
    depends = {"": read_depends(general, "")}
    cuda = Bounds()
    for backend in ("cuda", "neuron", "tpu", "xpu"):
        if table := general.section(backend, f"general.{backend}"):
            depends[backend] = read_depends(table, backend)
            cuda = read_bounds(table) if backend == "cuda" else cuda
            table.finish()
    manifest = manifest._replace(
        version=manifest.version if version is None else version,
        license=licence.value if licence else manifest.license,
        upstream=upstream.value if upstream else None,
        source=source.value if source else None,
        depends=depends,
        cuda=cuda,
        hub=read_hub(general),
    )
    general.finish()
    return manifest


def _backends(general: Section) -> Texts:
    """The unique `backends`."""
    listed = general.texts("backends")
    found: list[str] = []
    for backend in listed or ():
        if backend.value in found:
            general.findings.add(Code.BAD_VALUE, f"the backend `{backend.value}` is listed twice", backend.span)
        found.append(backend.value)
    if listed == () and general.findings.value((*general.path, "backends", 0)) == general.value_span("backends"):
        advice = 'name at least one, e.g. ["cpu", "cuda"]'
        message = "`backends` in [general] is empty"
        general.findings.add(Code.BAD_VALUE, message, general.value_span("backends"), advice=advice)
    return listed or ()


def _framework(root: Section) -> Framework:
    """The framework table."""
    present = frameworks(root)
    for other in present[1:]:
        message = f"[{present[0]}] and [{other}] are both present; a project has one framework table"
        root.findings.add(Code.BAD_VALUE, message, root.value_span(other))
    tables = {kind: root.section(kind, kind) for kind in present}
    read = {kind: read_framework(table, kind) for kind, table in tables.items() if table}
    if present:
        return read.get(present[0]) or Framework(span=root.span, table=present[0])
    if root.edition > _IMPLICIT_NOARCH and not root.has_near(TORCH, NOARCH, TVM_FFI):
        advice = "add [torch] for compiled kernels, [torch-noarch] for Python files only"
        root.findings.add(Code.MISSING_KEY, "there is no framework table", root.span, advice=advice)
    return Framework(span=root.span, table=NOARCH if root.edition <= _IMPLICIT_NOARCH else TORCH)
