"""A project with a setup.py as the project of a kernel: all its files, and the parts that are not carried over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli

from py_driver.adopting.adapted_source import Adapted, adapt
from py_driver.adopting.bound_functions import blocks_of
from py_driver.adopting.cpp_code import Code
from py_driver.adopting.losses import Loss
from py_driver.adopting.manifest_text import Head, manifest_text
from py_driver.adopting.op_binding import CONVERSIONS
from py_driver.adopting.python_imports import rewrite
from py_driver.adopting.python_package import ROOT, BoundModule, make_package
from py_driver.adopting.sections import chosen_modules, sections_of
from py_driver.manifest.paths import SOURCES
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from py_driver.adopting.bound_functions import Bound
    from py_driver.adopting.op_binding import Op
    from py_driver.adopting.sections import Section
    from py_driver.plan.plan import Plan
    from py_driver.recording.record import Module, Record

BINDING: Final = f"{ROOT}/torch_binding.cpp"
_HEADER: Final = f"{ROOT}/{CONVERSIONS}.h"
_OF_NAMESPACES: Final = ("name",)
"""Attributes of `torch.ops.NAMESPACE` itself, so that an op of that name could not be called."""

_CUTLASS: Final = re.compile(
    r"#define CUTLASS_MAJOR (?P<major>\d+)\s[\s\S]*?#define CUTLASS_MINOR (?P<minor>\d+)\s", re.ASCII
)


class Input(NamedTuple):
    """The project to adopt.

    Attributes:
        records: the records of its configurations, by the backend's family; the first of each family decides.
        plans: the plans of its modules.
        read: returns the bytes of a file of the project, or of a file that setup.py created.
        installed: its installed files, without libraries.
        metadata: the fields of its metadata, in order.
        extras: further files to copy, by path: licence, readme, tests.
        origin: its name and version: `causal-conv1d 1.7.0`.
    """

    records: Mapping[str, Sequence[Record]]
    plans: Sequence[Plan]
    read: Callable[[str], bytes]
    installed: Mapping[str, bytes]
    metadata: Sequence[tuple[str, str]]
    extras: Mapping[str, bytes]
    origin: str


class Adoption(NamedTuple):
    """The adopted project of a kernel.

    Attributes:
        name: the name of the kernel.
        files: the contents, by path.
        ops: the schemas of its ops.
        losses: the parts that are not carried over.
    """

    name: str
    files: Mapping[str, bytes]
    ops: tuple[str, ...]
    losses: tuple[Loss, ...]


def adopt(project: Input) -> Adoption:
    """Convert a project with a setup.py to the project of a kernel that is compiled in the same way."""
    texts = _Texts(project.read)
    sections: list[Section] = []
    losses: list[Loss] = []
    modules: dict[str, Module] = {}
    for family, records in project.records.items():
        kept, left_out = chosen_modules(records[0].modules, family)
        variants = [
            variant for plan in project.plans for variant in plan.variants if variant.configuration.family == family
        ]
        found, more = sections_of(project.plans, variants, kept, texts.mentions)
        sections += found
        losses += [*left_out, *more]
        modules |= {module.name: module for module in kept if module.name not in modules}
        if len(kept) > 1:
            reason = f"{', '.join(module.name for module in kept)} are one library for {family}"
            advice = "functions of the same name in two modules would clash: rename those that the linker reports"
            losses.append(Loss(kept[0].script, kept[0].line, reason, advice, missing=False))
    adapted = _adapted(sections, list(modules.values()), texts)
    losses += [loss for source in adapted.values() for loss in source.losses]
    sections = [part for section in sections for part in _parted(section, adapted)]
    _give_names(sections)
    ops = {op.name: op for source in adapted.values() for op in source.ops}
    losses += _silent(adapted)
    package = _package_name(project)
    python = make_package(
        package,
        project.installed,
        [_bound(module, adapted, sections) for module in modules.values() if _binds(module, adapted, sections)],
        [namespace for source in adapted.values() for namespace in source.namespaces],
    )
    losses += [*python.losses, *_of_metadata(project), *_cutlass(sections, texts), *_included(sections)]
    files = {path: source.text.encode("utf-8", "surrogateescape") for path, source in sorted(adapted.items())}
    if taken := [path for path in (BINDING, _HEADER) if path in files]:
        losses.append(Loss(taken[0], 0, "the kernel has a file of this name", "rename the project's own"))
    libraries = sum(source.libraries for source in adapted.values())
    files[BINDING] = _binding(ops.values(), libraries=libraries).encode()
    converts = any(op.converts for op in ops.values())
    if converts:
        files[_HEADER] = resource(f"adopting/{CONVERSIONS}.h").encode()
    files |= python.files
    for path, content in project.extras.items():
        moved = rewrite(path, content, python.names, None)
        losses += moved.losses
        files.setdefault(path, moved.content)
    head = Head(
        name=package.replace("_", "-"),
        version=_version(project),
        license=_license(project.metadata),
        backends=tuple(project.records),
        origin=project.origin,
        binding=(BINDING, *([_HEADER] if converts else [])),
        extensions=python.extensions,
    )
    files["build.toml"] = manifest_text(head, sections).encode()
    return Adoption(head.name, files, tuple(op.schema for op in ops.values()), tuple(dict.fromkeys(losses)))


class _Texts:
    """The files of a project as texts, each read once."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._known: dict[str, str] = {}

    def text(self, path: str) -> str:
        """The text of a file."""
        if path not in self._known:
            self._known[path] = self._read(path).decode("utf-8", "surrogateescape")
        return self._known[path]

    def mentions(self, path: str, word: str) -> bool:
        """Whether a file contains a word."""
        return re.search(rf"\b{word}\b", self.text(path)) is not None


def _give_names(sections: list[Section]) -> None:
    """Number sections of different backends that have the same name."""
    seen: dict[str, int] = {}
    for at, section in enumerate(sections):
        seen[section.name] = seen.get(section.name, 0) + 1
        if seen[section.name] > 1:
            sections[at] = section._replace(name=f"{section.name}_{seen[section.name]}")


def _adapted(sections: Sequence[Section], modules: Sequence[Module], texts: _Texts) -> dict[str, Adapted]:
    """All files that are compiled or included, adapted for the kernel."""
    reached: dict[str, dict[str, None]] = {}
    for section in sections:
        for path in (*section.sources, *section.headers):
            reached.setdefault(path, {}).update(dict.fromkeys((*section.headers, *section.sources)))
    owners = {path: _owner(path, modules) for path in reached}
    names: dict[str, set[str]] = {}
    for path in reached:
        for block in blocks_of(Code(texts.text(path)), path) if _may_bind(texts.text(path)) else ():
            for bound in block.functions:
                names.setdefault(bound.name, set()).add(owners[path])
    adapted: dict[str, Adapted] = {}
    first = True
    for path, others in reached.items():
        text = texts.text(path)

        def op_name(bound: Bound, owner: str = owners[path]) -> str:
            name = f"{owner}_{bound.name}" if len(names[bound.name]) > 1 else bound.name
            return f"{name}_" if name in _OF_NAMESPACES else name

        included = [texts.text(other) for other in others if other != path] if _may_bind(text) else []
        adapted[path] = adapt(path, text, included, op_name, first=first)
        first = first and not adapted[path].libraries
    return adapted


def _may_bind(text: str) -> bool:
    return "PYBIND11_MODULE" in text or "RegisterOperators" in text


def _owner(path: str, modules: Sequence[Module]) -> str:
    """The last part of the name of the module that a source belongs to; empty if it belongs to none."""
    return next((module.name.rpartition(".")[2] for module in modules if path in module.sources), "")


def _parted(section: Section, adapted: Mapping[str, Adapted]) -> list[Section]:
    """Split a section: sources that register ops get a section of their own.

    They see the unique id of the kernel, which changes with each edit; all others are compiled without it.
    """
    registering = [path for path in section.sources if adapted[path].registers]
    others = tuple(path for path in section.sources if path not in registering)
    if not registering:
        return [section]
    include = section.include if ROOT in section.include else (*section.include, ROOT)
    binding = section._replace(name=f"{section.name}_ops", sources=tuple(registering), include=include)
    return [binding, *([section._replace(sources=others)] if others else [])]


def _files_of(module: Module, sections: Sequence[Section]) -> list[str]:
    """The files of a module: its sources, and the headers of their sections."""
    own = [section for section in sections if not set(section.sources).isdisjoint(module.sources)]
    return list(dict.fromkeys([*module.sources, *(header for section in own for header in section.headers)]))


def _binds(module: Module, adapted: Mapping[str, Adapted], sections: Sequence[Section]) -> bool:
    """Whether a module has functions in Python."""
    bound = _bound(module, adapted, sections)
    return bool(bound.ops or bound.values)


def _bound(module: Module, adapted: Mapping[str, Adapted], sections: Sequence[Section]) -> BoundModule:
    sources = [adapted[path] for path in _files_of(module, sections) if path in adapted]
    return BoundModule(
        name=module.name,
        script=module.script,
        line=module.line,
        ops=tuple(op for source in sources for op in source.functions),
        values=tuple(value for source in sources for value in source.values),
        doc=next((source.doc for source in sources if source.doc), ""),
    )


def _silent(adapted: Mapping[str, Adapted]) -> list[Loss]:
    """Ops that return nothing, and whose schema marks no argument as written."""
    names = [f"`{op.name}`" for source in adapted.values() for op in source.ops if op.silent and "Tensor" in op.schema]
    if not names:
        return []
    reason = f"{', '.join(names)} return{'s' if len(names) == 1 else ''} nothing, and no argument is marked as written"
    advice = "mark written arguments in the schema, as `Tensor(a!) out`, for torch.compile"
    return [Loss(BINDING, 0, reason, advice, missing=False)]


def _binding(ops: Iterable[Op], *, libraries: int) -> str:
    """The source that defines the ops; the sources of the functions register their implementations."""
    kind = "TORCH_LIBRARY_FRAGMENT_EXPAND" if libraries else "TORCH_LIBRARY_EXPAND"
    lines = [
        "// The ops of this kernel. The sources of the functions register their implementations.",
        "#include <torch/library.h>",
        "",
        '#include "registration.h"',
        "",
    ]
    if defined := [f'  ops.def("{_escaped(op.schema)}");' for op in ops]:
        lines += [f"{kind}(TORCH_EXTENSION_NAME, ops) {{", *defined, "}", ""]
    return "\n".join([*lines, "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _package_name(project: Input) -> str:
    """The name of the kernel's package, from the project's name."""
    record = next(iter(project.records.values()))[0]
    name = re.sub(r"[^a-z0-9]+", "_", record.name.lower()).strip("_")
    return name if name[:1].isalpha() and len(name) > 1 else f"kernel_{name}"


def _version(project: Input) -> int:
    """The version of the kernel's interface: the project's major version, but at least 1."""
    record = next(iter(project.records.values()))[0]
    match = re.match(r"(?:\d+!)?(\d+)", record.version)
    return max(int(match[1]) if match else 1, 1)


_CLASSIFIER: Final = re.compile(r"License :: (?:OSI Approved :: )?(?P<name>.+)")
_LONGEST: Final = 30
"""The longest text of a licence field that counts as a name, and not as the licence itself."""


def _license(metadata: Iterable[tuple[str, str]]) -> str:
    """The Hub's identifier of the licence; `unknown` if the metadata names none."""
    fields = list(metadata)
    stated = [
        value for name, value in fields if name in {"license-expression", "license"} and 0 < len(value) < _LONGEST
    ]
    stated += [
        match["name"] for name, value in fields if name == "classifier" and (match := _CLASSIFIER.fullmatch(value))
    ]
    name = stated[0].lower() if stated else "unknown"
    known: dict[str, str] = tomli.loads(resource("licenses.toml"))["names"]
    return known.get(name, name)


def _of_metadata(project: Input) -> list[Loss]:
    """Losses of metadata: requirements on other packages, and a missing licence."""
    losses = []
    required = [value for name, value in project.metadata if name == "requires-dist" and "extra" not in value]
    required = [f"`{value}`" for value in required if not re.match(r"torch(?![\w.-])", value, re.IGNORECASE)]
    if required:
        advice = "import it only where it is needed, or list it in `python-depends` if the client admits it"
        losses.append(Loss("", 0, f"the project requires {', '.join(required)}", advice, missing=False))
    if _license(project.metadata) == "unknown":
        losses.append(Loss("", 0, "the metadata names no licence", "set `license` in build.toml", missing=False))
    return losses


def _included(sections: Iterable[Section]) -> list[Loss]:
    """Sources that others include: build.toml has a single list of files, and all sources in it are compiled."""
    files = dict.fromkeys(header for section in sections for header in section.headers if header.endswith(SOURCES))
    advice = "give it the extension .cuh or .inc, in the kernel and where it is included"
    return [Loss(file, 0, "it is included by another source, and is also compiled by itself", advice) for file in files]


def _cutlass(sections: Sequence[Section], texts: _Texts) -> list[Loss]:
    """A note on a copy of CUTLASS in the project: it stays, since only an identical copy could be replaced."""
    headers = dict.fromkeys(header for section in sections for header in section.headers)
    for header in headers:
        if header.endswith("cutlass/version.h") and (found := _CUTLASS.search(texts.text(header))):
            version = f"{found['major']}_{found['minor']}"
            reason = (
                f"{header.removesuffix('/cutlass/version.h')} is CUTLASS {version.replace('_', '.')}, and is copied"
            )
            advice = (
                f'if it is unchanged, `depends = ["torch", "cutlass_{version}"]` is shorter where the driver has it'
            )
            return [Loss(header, 0, reason, advice, missing=False)]
    return []
