"""Candidates as a setup.py project for each backend, with a module for each distinct candidate."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.building.extension import candidates as candidates_of
from py_driver.building.installed_torch import fits
from py_driver.errors import Code, Diagnostic, DriverError, Span, error
from py_driver.extensions.binding import Bindings
from py_driver.extensions.flags import is_device
from py_driver.extensions.headers import ProjectTree
from py_driver.extensions.plan import ConfigurationRecord, plan_extensions
from py_driver.matrix.backends import version_of
from py_driver.matrix.installed_python import python_at
from py_driver.matrix.toolkits import numbers
from py_driver.recording.recorder import record_project
from py_driver.system.cache import INLINE, cache_root, storage_errors
from py_driver.system.client import CLIENT
from py_driver.system.files import replacing, sha256
from py_driver.trials.candidates import is_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.building.installed_torch import Torch
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant
    from py_driver.trials.candidates import Candidate

_ARGUMENTS: Final = {
    "extra_compile_args['cxx']": "extra_cflags",
    "extra_compile_args['nvcc']": "extra_cuda_cflags",
    "extra_link_args": "extra_ldflags",
}
"""The names of setup.py arguments in `load_inline`."""

_CLASSES: Final = {"cpu": "CppExtension", "cuda": "CUDAExtension"}
_SETUP: Final = """# Written by `driver batch`.
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, {kind}

setup(
    name={name!r},
    version="0",
    packages=[],
    py_modules=[],
    ext_modules=[
{modules}
    ],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
_MAIN: Final = "main.cpp"
"""The file of `cpp_sources` and `functions`."""

_ENCODING: Final = "surrogateescape"
_DIGITS: Final = 20
_FILES: Final = "files"
"""The directory with the author's further headers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The sources of a candidate, and of all equal candidates.

    The directories of sources and headers are named after their dependencies, so that candidates share them.

    Attributes:
        key: a digest of everything that a build depends on.
        name: the name of the module.
        texts: the texts of files, by path in the project.
        units: the paths of compiled files, by the author's names.
        include_dirs: the include directories among the files.
        flags: options of the compilers, by `cxx` and `nvcc`.
        link_flags: options of the linker.
        family: the backend: `cpu` or `cuda`.
        lines_before: the number of lines before the author's text, by the names of `units`.
    """

    key: str
    name: str
    texts: Mapping[str, str]
    units: Mapping[str, str]
    include_dirs: Sequence[str]
    flags: Mapping[str, Sequence[str]]
    link_flags: Sequence[str]
    family: str
    lines_before: Mapping[str, int]

    @property
    def module(self) -> str:
        """The unique dotted name of the module."""
        return f"{self.key}.{self.name}"

    @property
    def call(self) -> str:
        """The call in a setup.py that creates the module."""
        options = {
            "include_dirs": list(self.include_dirs),
            "extra_compile_args": {kind: list(flags) for kind, flags in self.flags.items()},
            "extra_link_args": list(self.link_flags),
        }
        words = [
            repr(self.module),
            repr([*self.units.values()]),
            *(f"{key}={value!r}" for key, value in options.items()),
        ]
        return f"{_CLASSES[self.family]}({', '.join(words)})"


def compose(candidates: Sequence[Candidate], file: str) -> list[Sources]:
    """The sources of candidates.

    Args:
        candidates: the candidates of a file.
        file: its path for messages.

    Raises:
        DriverError: BAD_VALUE for arguments that `load_inline` does not accept.
    """
    calls = json.dumps([candidate.arguments for candidate in candidates])
    done = subprocess.run(
        [sys.executable, "-I", "-c", _COMPOSE, str(CLIENT)], input=calls, capture_output=True, text=True, check=True
    )
    values: list[dict[str, Any]] = json.loads(done.stdout)
    faults = [
        Diagnostic(Code.BAD_VALUE, value["wrong"], Span(file, candidate.line, 1))
        for candidate, value in zip(candidates, values, strict=True)
        if "wrong" in value
    ]
    if faults:
        raise DriverError(faults)
    return [_sources(value, candidate.files) for candidate, value in zip(candidates, values, strict=True)]


_COMPOSE: Final = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("rules_torch_kernels.composing", None, "__main__", True)
"""


def _sources(value: Mapping[str, Any], files: Mapping[str, str]) -> Sources:
    """The sources of a candidate.

    Args:
        value: the result of `rules_torch_kernels.composing` for its arguments.
        files: further files.
    """
    family = "cuda" if any(is_device(name, "cuda") for name in files) else value["backend"]
    used = [name for name in value["sources"] if name != _MAIN or value["has_main"]]
    sources = {name: value["texts"][name] for name in used}
    sources |= {name: text for name, text in files.items() if is_source(name)}
    copies = {name: text for name, text in value["texts"].items() if name not in value["sources"]}
    headers = {f"{_FILES}/{name}": text for name, text in files.items() if name not in sources} | copies
    headers_at = f"i{_digest(headers)}"
    include_dirs = [f"{headers_at}/{directory}" for directory in ([_FILES] * bool(files) + value["include_dirs"])]
    about = [value["name"], family, include_dirs, value["flags"]]
    units = {name: f"u{_digest([*about, name, text])}/{name}" for name, text in sources.items()}
    key = _digest([*about, units, value["link_flags"]])
    return Sources(
        key=f"k{key}",
        name=value["name"],
        texts={
            **{units[name]: text for name, text in sources.items()},
            **{f"{headers_at}/{name}": text for name, text in headers.items()},
        },
        units=units,
        include_dirs=include_dirs if headers else [],
        flags=value["flags"],
        link_flags=value["link_flags"],
        family=family,
        lines_before=value["lines_before"],
    )


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode())[:_DIGITS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Planned candidates of a backend.

    Attributes:
        directory: the directory of their project.
        plan: the plan, with a variant for each.
        refused: the errors of candidates that cannot be built, by key.
        notes: the notes about candidates, such as an ignored flag, by key.
    """

    directory: Path
    plan: Plan
    refused: Mapping[str, DriverError]
    notes: Mapping[str, Sequence[str]]

    def key_of(self, variant: Variant) -> str:
        """The key of a variant's candidate."""
        return variant.module.partition(".")[0]


class Target(NamedTuple):
    """The target of candidates.

    Attributes:
        torch: the torch.
        python: the interpreter that imports them.
        archs: GPU architectures; the toolkit's if empty.
    """

    torch: Torch
    python: str
    archs: tuple[str, ...]


def plan_trial(sources: Sequence[Sources], target: Target, releases: Releases, output: Output) -> Trial:
    """Write the project of a backend's candidates, record it, and plan its modules.

    Args:
        sources: the candidates' sources, with unique keys.
        target: the target.
        releases: the releases to build for.
        output: shows progress.

    Raises:
        DriverError: NO_SUCH_VARIANT if nothing is built for that torch; the errors of `record_project`.
    """
    family, matrix = sources[0].family, releases.matrix
    directory = _written(sources)
    variant = _configuration(directory, target.torch, family, matrix)
    toolkit = matrix.toolkit(variant.configuration.backend)
    arch_list = ";".join(target.archs or toolkit.default_archs) if toolkit else ""
    record = record_project(directory, variant.configuration, arch_list, releases, output).record
    # Each has its own record, so that the id of a candidate does not depend on others.
    records = {
        module.name.partition(".")[0]: ConfigurationRecord(
            variant.configuration, variant.default, replace(record, modules=(module,))
        )
        for module in record.modules
    }
    bindings = Bindings("", lambda _: (python_at(Path(target.python), matrix),))
    tree = ProjectTree(lambda name: directory / name, lambda: _files(directory))
    spans = {own.module: Span(own.key, 1, 1) for own in sources}
    refused: dict[str, DriverError] = {}
    while True:
        try:
            plan = plan_extensions([*records.values()], tree, matrix, {"": Span("", 0, 0), **spans}, bindings)
        except DriverError as failure:
            wrong: dict[str, list[Diagnostic]] = {}
            for diagnostic in failure.diagnostics:
                wrong.setdefault(diagnostic.span.file if diagnostic.span else "", []).append(diagnostic)
            if not wrong.keys() <= records.keys():
                raise
            refused |= {key: DriverError(_of_candidate(fault, key) for fault in own) for key, own in wrong.items()}
            records = {key: record for key, record in records.items() if key not in wrong}
            if records:
                continue
            plan = candidates_of(directory, matrix)._replace(variants=())
        notes: dict[str, list[str]] = {}
        for note in plan.notes:
            # For a use of Python, the position is in a source, and the message names the module.
            key = next((key for key in records if key == note.span.file or f"{key}." in note.message), "")
            notes.setdefault(key, []).append(_named(note.message, key))
        plan = _sharing(plan)._replace(shown=directory.name, notes=())
        return Trial(directory=directory, plan=plan, refused=refused, notes=notes)


def _named(message: str, key: str) -> str:
    """A message about a module of the setup.py in the terms of `load_inline`.

    Args:
        message: the message.
        key: the key of the candidate.
    """
    for ours, theirs in {f"{key}.": "", **_ARGUMENTS}.items():
        message = message.replace(ours, theirs)
    return message


def _of_candidate(fault: Diagnostic, key: str) -> Diagnostic:
    """An error of a setup.py module, in the terms of the candidate."""
    return fault._replace(span=None, message=_named(fault.message, key))


def _sharing(plan: Plan) -> Plan:
    """A plan in which variants share a target for equal sources; the planner makes one for each module."""
    known: dict[str, Group] = {}
    named: dict[str, str] = {}
    for group in plan.groups:
        digest = _digest(repr(group._replace(name="", title="")))
        # Not by the module's name: a module with further sources must find the same action.
        shared = known.setdefault(digest, group._replace(name=f"objects.{digest}", title="candidates"))
        named[group.name] = shared.name
    variants = [variant._replace(groups=tuple(named[name] for name in variant.groups)) for variant in plan.variants]
    return plan._replace(groups=tuple(known.values()), variants=tuple(variants))


def _written(sources: Sequence[Sources]) -> Path:
    """The project of candidates, in the cache, named after its content."""
    family = sources[0].family
    digest = sha256("\0".join(sorted(own.key for own in sources)).encode())[:24]
    directory = cache_root() / INLINE / f"batch_{family}-{digest}"
    modules = "\n".join(f"        {own.call}," for own in sources)
    script = _SETUP.format(kind=_CLASSES[family], name=f"candidates-{family}", modules=modules)
    files = {path: text for own in sources for path, text in own.texts.items()}
    with storage_errors(directory):
        for name, text in {**files, "setup.py": script}.items():
            path, content = directory / name, text.encode("utf-8", _ENCODING)
            if path.is_file() and path.read_bytes() == content:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(content)
    return directory


def _files(directory: Path) -> Iterator[str]:
    """The files of the candidates of a project."""
    for folder in (*directory.glob("u*"), *directory.glob("i*")):
        yield from (path.relative_to(directory).as_posix() for path in folder.rglob("*") if path.is_file())


def _configuration(directory: Path, torch: Torch, family: str, matrix: Matrix) -> Variant:
    """The configuration of candidates: for a torch as installed, or as if it were built with a toolkit.

    Raises:
        DriverError: NO_SUCH_VARIANT.
    """
    plan = candidates_of(directory, matrix)
    found = [
        variant
        for variant in plan.variants
        if variant.configuration.family == family
        and fits(_as_built(torch, family, variant.configuration.backend), variant.configuration)
    ]
    if not found:
        releases = sorted({v.configuration.torch or "" for v in plan.variants}, key=numbers)
        message = f"nothing is built for torch {torch.version} ({torch.backend}) with the backend {family}"
        raise error(Code.NO_SUCH_VARIANT, message, help=f"known are torch {', '.join(releases)}")
    return max(
        found,
        key=lambda variant: (
            variant.configuration.backend == torch.backend,
            variant.default,
            numbers(version_of(variant.configuration.backend) or "0"),
            variant.configuration.abi == "cxx11",
        ),
    )


def _as_built(torch: Torch, family: str, backend: str) -> Torch:
    """A torch with the backend for the comparison: a torch for GPUs also runs variants for the CPU."""
    return replace(torch, backend=backend) if family == "cpu" or torch.backend == "cpu" else torch
