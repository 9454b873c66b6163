"""Checks of a project's op registrations: schemas, names, an implementation for each backend."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.paths import SOURCES
from py_driver.matrix.backends import BUILT
from py_driver.plan.cpp_text import code_of
from py_driver.plan.includes import seen
from py_driver.plan.op_registrations import DIRECTIVE, registrations, without_directives
from py_driver.plan.op_schema import SchemaProblem, name_problem, schema_problem
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from py_driver.errors import Span
    from py_driver.manifest.section import Findings
    from py_driver.plan.op_registrations import Registration
    from py_driver.plan.project_files import ProjectFiles

_KEYS = {name: family.dispatch_keys for name, family in BUILT.items()}
"""The dispatch keys of the tensors of a backend."""

_OF_DEVICES = frozenset(("CPU", "CUDA", "HIP", "HPU", "IPU", "MPS", "MTIA", "Meta", "PrivateUse1", "VE", "XLA", "XPU"))
"""The keys for tensors of one device; an implementation for another key may serve any device."""

_BINDS = ("REGISTER_EXTENSION", "PyInit_", "PyMODINIT_FUNC", "PYBIND11_MODULE")
"""Macros that make a library importable for Python."""

_EXTENSION = re.compile(r"\bREGISTER_EXTENSION\s*\(\s*(?P<name>\w+)\s*\)")


class _Op(NamedTuple):
    """A registration in a file, and the name of its op with the overload."""

    path: str
    name: str
    registration: Registration

    @property
    def certain(self) -> bool:
        """Whether the compilers of its `#if`s certainly see it, and it certainly runs."""
        registration = self.registration
        return (
            registration.certain
            and self.path.endswith(SOURCES)
            and (registration.seen.known or not registration.seen.conditional)
        )


class OpChecker:
    """Checks the registrations of a project and collects errors.

    Args:
        files: the files of the project.
        by_backend: the files that are compiled for each backend, and the files that they include.
        python: the files of the Python package.
        findings: gets OP_REGISTRATION: errors for registrations that torch rejects, notes for missing ones.
    """

    def __init__(
        self,
        files: ProjectFiles,
        by_backend: Mapping[str, Collection[str]],
        python: Iterable[str],
        findings: Findings,
    ) -> None:
        self._files = files
        self._by_backend = by_backend
        self._python = python
        self._findings = findings
        self._paths = list(dict.fromkeys(path for paths in by_backend.values() for path in paths))

    def check_import(self, binding: Collection[str], span: Span) -> None:
        """Collect an error if Python cannot import the library; a note if only the binding does not show that it can.

        Args:
            binding: the sources of the binding.
            span: the position of the binding in build.toml.
        """
        visible = {path: code_of(seen(self._files.text(path), self._by_backend)) for path in binding}
        if _binds("\n".join(visible.values())):
            self._check_name(visible)
            return
        message = "no file of `src` in [torch] has REGISTER_EXTENSION(TORCH_EXTENSION_NAME); Python cannot import it"
        opaque = any(self._files.is_opaque(path) for path in self._paths)
        texts = [code_of(self._files.text(path)) for path in self._paths if path not in visible]
        if opaque or any(word in text for text in texts for word in _BINDS):
            self._findings.note(message, span, Code.OP_REGISTRATION)
        else:
            advice = "end the binding with REGISTER_EXTENSION(TORCH_EXTENSION_NAME)"
            self._findings.add(Code.OP_REGISTRATION, message, span, advice=advice)

    def _check_name(self, visible: Mapping[str, str]) -> None:
        """Collect an error if the binding registers only names that Python does not import."""
        code = "\n".join(visible.values())
        macros = {found["macro"] for path in self._paths for found in DIRECTIVE.finditer(self._files.text(path))}
        others = _EXTENSION.sub("", without_directives(code))
        if "REGISTER_EXTENSION" in macros or _binds(f"{others}\n{''.join(_defines(code))}"):
            return
        found = [
            (path, match) for path, text in visible.items() for match in _EXTENSION.finditer(without_directives(text))
        ]
        if any(match["name"].isupper() or match["name"] in macros for _, match in found):
            return
        for path, match in found:
            message = f"Python imports TORCH_EXTENSION_NAME, not `{match['name']}`; write the macro's name here"
            self._findings.add(Code.OP_REGISTRATION, message, self._files.place(path, *match.span("name")))

    def check_ops(self) -> None:
        """Collect the errors of the ops."""
        read = {path: registrations(self._files.text(path)) for path in self._paths}
        ops, bad = [], False
        for path, found in read.items():
            for registration in found.found:
                if registration.text is None:
                    continue
                op = _Op(path, _name(registration), registration)
                wrong = _problem(registration)
                bad = bad or wrong is not None
                if wrong:
                    self._tell(op, wrong)
                else:
                    ops.append(op)
        for backend in self._by_backend:
            self._check_twice(backend, self._seen(ops, backend))
        if not bad and all(found.whole for found in read.values()):
            self._note_undeclared(ops)
            self._note_missing(ops)

    def _seen(self, ops: Iterable[_Op], backend: str) -> list[_Op]:
        """The ops that the compilers of a backend may see."""
        paths = self._by_backend[backend]
        return [op for op in ops if op.path in paths and backend in op.registration.seen.backends]

    def _span(self, op: _Op, start: int, end: int) -> Span:
        """The position of a part of the first argument, up to the end of its line."""
        places = op.registration.places
        first = places[start]
        last = places[max(start, end - 1)] + 1
        line = self._files.text(op.path).find("\n", first)
        return self._files.place(op.path, first, max(first + 1, last if line < 0 else min(last, line)))

    def _tell(self, op: _Op, wrong: SchemaProblem) -> None:
        """Collect the error of a schema or name, if a compiler may see it."""
        if not any(self._seen([op], backend) for backend in self._by_backend):
            return
        message = f"torch rejects the {_what(op.registration)} of `{op.name}`: {wrong.message}"
        span = self._span(op, wrong.start, wrong.end)
        if op.certain:
            self._findings.add(Code.OP_REGISTRATION, message, span)
        else:
            message = f"{message}; if this runs, the kernel cannot be loaded"
            self._findings.note(message, span, Code.OP_REGISTRATION)

    def _check_twice(self, backend: str, ops: Iterable[_Op]) -> None:
        """Collect an error for each op that is certainly defined twice for a backend."""
        first: dict[tuple[str, str], _Op] = {}
        for op in ops:
            registration = op.registration
            if registration.what == "impl" or not registration.namespace or not op.certain:
                continue
            key = (registration.namespace, op.name if registration.what == "def" else "")
            if first.setdefault(key, op) is op or not self._files.complains(op.path, registration.start, error=True):
                continue
            message = f"the op `{op.name}` is defined twice for {backend}; torch rejects the second definition"
            if registration.what == "library":
                message = f"{backend} has TORCH_LIBRARY for `{op.name}` twice; write TORCH_LIBRARY_FRAGMENT here"
            self._findings.add(Code.OP_REGISTRATION, message, self._span(op, 0, len(op.name)))

    def _note_undeclared(self, ops: Iterable[_Op]) -> None:
        """Note implementations of ops without a declaration."""
        for backend in self._by_backend:
            seen = self._seen(ops, backend)
            declared = {op.name for op in seen if op.registration.what == "def"}
            for op in seen:
                if op.registration.what == "impl" and op.name not in declared and not self._in_python(op.name):
                    near = did_you_mean(op.name, sorted(declared))
                    self._note(op, f"no `def` declares `{op.name}`, which this implements{f'; {near}' if near else ''}")

    def _note_missing(self, ops: Iterable[_Op]) -> None:
        """Note ops without an implementation for a backend; with OP_REGISTRATION if there is none for any device."""
        missing: dict[tuple[_Op, str], dict[str, None]] = {}
        for backend in self._by_backend:
            seen = self._seen(ops, backend)
            keys: dict[str, set[str]] = {}
            for op in seen:
                if op.registration.what == "impl":
                    keys.setdefault(op.name, set()).add(op.registration.key)
            for op in seen:
                here = keys.get(op.name, set())
                implemented = not op.registration.alone or any(
                    key not in _OF_DEVICES or key in _KEYS[backend] for key in here
                )
                if op.registration.what == "def" and not implemented and not self._in_python(op.name):
                    missing.setdefault((op, " and ".join(sorted(here))), {})[backend] = None
        for (op, others), backends in missing.items():
            names = " and ".join(backends)
            if others:
                self._note(op, f"`{op.name}` is implemented for {others} only, in the variants for {names}", None)
            else:
                self._note(op, f"no `impl` implements `{op.name}` for {names}; a call with such tensors fails")

    def _note(self, op: _Op, message: str, code: Code | None = Code.OP_REGISTRATION) -> None:
        if self._files.complains(op.path, op.registration.start, error=False):
            self._findings.note(message, self._span(op, 0, len(op.name)), code)

    def _in_python(self, name: str) -> bool:
        """Whether a Python file may register an op: its name occurs in a string."""
        plain = name.partition(".")[0]
        texts = [self._files.text(path) for path in self._python if path.endswith(".py")]
        return any(f"{before}{plain}{after}" in text for text in texts for before in "\"':" for after in "\"'.:")


def _binds(code: str) -> bool:
    """Whether a text without comments makes a library importable for Python, also through its own macros."""
    macros = [(found["macro"], found["body"]) for found in DIRECTIVE.finditer(code) if found["macro"]]
    words, known = dict.fromkeys(_BINDS), 0
    while known != len(words):
        known, asked = len(words), re.compile("|".join(words))
        words.update((rf"\b{macro}\b", None) for macro, body in macros if asked.search(body))
    return re.search("|".join(words), without_directives(code)) is not None


def _defines(code: str) -> list[str]:
    """The directives of a text that define macros, each with its continued lines."""
    return [f"{found[0]}\n" for found in DIRECTIVE.finditer(code) if found["macro"]]


def _name(registration: Registration) -> str:
    """The name of an op with its overload; or the namespace of a block."""
    text = registration.text or ""
    return text if registration.what == "library" else text.partition("(")[0].strip().rpartition("::")[2]


def _what(registration: Registration) -> str:
    return (
        "schema" if registration.what == "def" and (registration.alone or "(" in (registration.text or "")) else "name"
    )


def _problem(registration: Registration) -> SchemaProblem | None:
    """The reason why torch rejects the first argument of a registration, or the registration."""
    text = registration.text or ""
    if registration.what == "library":
        return None
    if registration.what == "def" and registration.kind == "_IMPL":
        return SchemaProblem(0, len(text), "`def` is allowed only in a block without `_IMPL`")
    if wrong := schema_problem(text) if _what(registration) == "schema" else name_problem(text):
        return wrong
    explicit, colons, _ = text.partition("(")[0].partition("::")
    if colons and registration.namespace and explicit.strip() != registration.namespace.strip('"'):
        start = len(explicit) - len(explicit.lstrip())
        message = f"its namespace must be that of the block, {registration.namespace}"
        return SchemaProblem(start, len(explicit.rstrip()), message)
    return None
