"""What Triton compiles ahead of time: aot.toml with the functions that it names, as they are in the sources."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code, DriverError
from py_driver.manifest.ahead import AHEAD, FAMILIES, OPTIONS, Values, check_names, read_ahead
from py_driver.manifest.model import values
from py_driver.manifest.paths import path_problem
from py_driver.matrix.backends import BUILT
from py_driver.plan.staging import staged
from py_driver.spelling import did_you_mean
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.manifest.ahead import Ahead, Compiled
    from py_driver.manifest.model import Manifest
    from py_driver.manifest.section import Findings
    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.links import Links

_DIGITS = 10
"""Of the digest in the name of what is compiled."""


_SIGNED_BOOLEANS = "3.6"
"""The release of Triton that calls a bool `i1`."""

_INTEGERS = (("i32", (1 << 31) - 1), ("i64", (1 << 63) - 1))
"""The types of integers that Triton chooses, with the greatest of each."""


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: as the source spells it.
        is_constant: whether it is a `tl.constexpr`.
        default: a list with its default; empty if it has none that the source says literally.
        is_optional: whether it has a default, of whatever kind.
    """

    name: str
    is_constant: bool
    default: tuple[Any, ...]
    is_optional: bool

    @property
    def is_fixed(self) -> bool:
        """Whether the function says the value of a constant that nobody passes."""
        return self.is_constant and self.is_optional

    def default_type(self, release: str) -> str:
        """The type of the default of an argument that is no constant; empty if the source does not say one.

        Args:
            release: of Triton.
        """
        if self.is_constant or not self.default:
            return ""
        value = self.default[0]
        if isinstance(value, bool):
            return "i1" if release == _SIGNED_BOOLEANS else "u1"
        if isinstance(value, int) and value != 1:
            bits = next((type_ for type_, most in _INTEGERS if -most - 1 <= value <= most), "u64")
            return f"{bits}:16" if value % 16 == 0 else bits
        return {float: "fp32", int: "1", type(None): "None"}.get(type(value), "")


class TritonTarget(NamedTuple):
    """What Triton compiles ahead of time for a backend.

    Attributes:
        name: of the target: `triton_cuda`.
        family: `cuda` or `rocm`.
        archs: the architectures.
        release: of Triton, e.g. `3.9`.
        strict: whether a call that nothing was compiled for is an error.
        functions: the parameters of each function, by its name in the package.
        requests: by a name of its own what is compiled: the function, a signature, constants and options.
        sources: the modules that have the functions, and those that these import.
        reads: those of each function.
    """

    name: str
    family: str
    archs: tuple[str, ...]
    release: str
    strict: bool
    functions: Mapping[str, tuple[Parameter, ...]]
    requests: Mapping[str, Mapping[str, Any]]
    sources: tuple[str, ...]
    reads: Mapping[str, tuple[str, ...]]

    @property
    def shown_functions(self) -> dict[str, Any]:
        """The functions as the rule has them."""
        return {
            function: {"parameters": [[known.name, known.is_constant, list(known.default)] for known in parameters]}
            for function, parameters in self.functions.items()
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What of it is a part of the id."""
        return {
            "archs": self.archs,
            "requests": list(self.requests.values()),
            "strict": self.strict,
            "triton": self.release,
        }


def triton_targets(manifest: Manifest, matrix: Matrix, python: Sequence[str], links: Links) -> tuple[TritonTarget, ...]:
    """What is compiled ahead of time, for each backend of a project with an aot.toml that Triton compiles for.

    Args:
        manifest: the build.toml.
        matrix: with the releases of Triton.
        python: the files of the Python package.
        links: the project's.

    Raises:
        DriverError: all that is wrong with aot.toml and the functions that it names: what `read_ahead` collects,
            FILE_MISSING, UNSUPPORTED, UNKNOWN_ARCH; PATH_ESCAPES.
    """
    path = links.directory / AHEAD
    links.check(AHEAD)
    ahead, findings = read_ahead(path.read_bytes(), str(path))
    if findings.has_errors:
        raise DriverError(findings.diagnostics())
    modules = Modules(manifest, python, links.directory)
    release = _release(ahead, matrix, findings)
    functions = {}
    ahead = ahead._replace(kernels=tuple(_with_tuned(kernel, links, findings) for kernel in ahead.kernels))
    for compiled in ahead.kernels:
        if parameters := modules.parameters(compiled, findings):
            functions[compiled.function.value] = parameters
            check_names(
                compiled,
                {known.name: bool(known.default_type(release) or known.is_fixed) for known in parameters},
                findings,
            )
            _check_kinds(compiled, parameters, findings)
    targets = []
    for family in FAMILIES:
        archs = _archs(ahead, family, release, matrix, findings)
        if family in manifest.built and archs:
            targets.append(
                TritonTarget(
                    name=f"triton_{family}",
                    family=family,
                    archs=archs,
                    release=release,
                    strict=ahead.strict,
                    functions=functions,
                    requests=dict(_requests(ahead, functions, release)) if functions else {},
                    sources=modules.closure(functions),
                    reads={function: modules.closure((function,)) for function in functions},
                )
            )
    if findings.has_errors:
        raise DriverError(findings.diagnostics())
    return tuple(targets)


def _with_tuned(compiled: Compiled, links: Links, findings: Findings) -> Compiled:
    """A function with the configurations that `driver tune --apply` wrote for it, each once.

    A file has a configuration for each of some sizes, or one alone.
    """
    tuned = compiled.tuned
    if tuned is None:
        return compiled
    directory = links.directory / tuned.value
    if problem := path_problem(tuned.value) or (directory.exists() and links.problem(tuned.value)):
        findings.add(Code.PATH_ESCAPES, f"`{tuned.value}` {problem}", tuned.span)
        return compiled
    configs = [config for config in compiled.configs if config.values]
    for path in sorted(directory.glob("*.json")):
        try:
            chosen = json.loads(path.read_bytes())
            nested = [config for config in chosen.values() if isinstance(config, dict)]
            found = [{**config} for config in chosen.values()] if nested else [chosen]
        except (AttributeError, OSError, RecursionError, TypeError, ValueError):
            message = f"{path} is no file of `driver tune --apply`: it has no configurations"
            findings.add(Code.BAD_VALUE, message, tuned.span)
            continue
        for config in found:
            if config not in [known.values for known in configs]:
                configs.append(Values(config, dict.fromkeys(config, tuned.span), tuned.span))
    return compiled._replace(configs=tuple(configs) or compiled.configs)


def _requests(
    ahead: Ahead, functions: Mapping[str, Sequence[Parameter]], release: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each signature with each configuration, by a name that is the same wherever it stands."""
    for compiled in ahead.kernels:
        function = compiled.function.value
        for signature in compiled.signatures:
            for config in compiled.configs:
                chosen = {**signature.values, **config.values}
                request = {
                    "constants": {
                        known.name: chosen[known.name]
                        for known in functions[function]
                        if known.is_constant and known.name in chosen
                    },
                    "function": function,
                    "options": {name: config.values[name] for name in OPTIONS if name in config.values},
                    "signature": {
                        known.name: chosen.get(known.name, known.default_type(release))
                        for known in functions[function]
                        if not known.is_constant
                    },
                }
                digest = sha256(json.dumps(request, sort_keys=True).encode("ascii"))[:_DIGITS]
                yield f"{function.rpartition('.')[2]}-{digest}", request


def _release(ahead: Ahead, matrix: Matrix, findings: Findings) -> str:
    """The release of Triton."""
    known = [release.version for release in matrix.triton]
    if ahead.release is None:
        return known[-1]
    if ahead.release.value not in known:
        label = did_you_mean(ahead.release.value, known)
        advice = "" if label else f"choose from {', '.join(known)}"
        message = f"there is no Triton {ahead.release.value} among the toolchains"
        findings.add(Code.UNSUPPORTED, message, ahead.release.span, label=label, advice=advice)
        return known[-1]
    return ahead.release.value


def _archs(ahead: Ahead, family: str, release: str, matrix: Matrix, findings: Findings) -> tuple[str, ...]:
    """The architectures of a backend."""
    asked = ahead.capabilities if family == "cuda" else ahead.rocm_archs
    if asked is None:
        # For AMD only on request: the launcher leaves its GPUs to Triton.
        defaults = {known.version: known.capabilities for known in matrix.triton}
        return defaults[release] if family == "cuda" else ()
    known = matrix.known[family].archs
    for arch in asked:
        has_suffix = BUILT[family].plain(arch.value) != arch.value or (
            family == "cuda" and not arch.value[-1].isdigit()
        )
        if arch.value not in known or has_suffix:
            label = did_you_mean(arch.value, known)
            findings.add(Code.UNKNOWN_ARCH, f"Triton compiles for no `{arch.value}`", arch.span, label=label)
    return tuple(dict.fromkeys(values(asked)))


def _check_kinds(compiled: Compiled, parameters: Sequence[Parameter], findings: Findings) -> None:
    """Collect an error for a constant with a type, and for another argument with a value in place of a type."""
    constants = {known.name for known in parameters if known.is_constant}
    for signature in compiled.signatures:
        for name in constants.intersection(signature.values):
            message = f"`{name}` of `{compiled.function.value}` is a constexpr, which has a value and no type"
            findings.add(Code.BAD_VALUE, message, signature.spans[name], advice="move it to `configs`")
    for config in compiled.configs:
        for name in config.values.keys() - constants - {*OPTIONS}:
            if any(known.name == name for known in parameters):
                message = f"`{name}` of `{compiled.function.value}` is no constexpr: it has a type and no value"
                findings.add(Code.BAD_VALUE, message, config.spans[name], advice="move it to `signatures`")


class Modules:
    """The modules of a Python package, each parsed once.

    Args:
        manifest: the project's build.toml.
        python: the files of the package.
        directory: the project's.
    """

    def __init__(self, manifest: Manifest, python: Sequence[str], directory: Path) -> None:
        self._package = manifest.module
        self._root = manifest.python_root
        self._directory = directory
        self._files = {
            name.removeprefix(f"{self._root}/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
            for name in python
            if name.endswith(".py") and staged(name) == name
        }
        self._trees: dict[str, ast.Module] = {}

    def _tree(self, module: str) -> ast.Module:
        """A module's syntax; empty if Python cannot read it, which the compile says."""
        if module not in self._trees:
            try:
                self._trees[module] = ast.parse((self._directory / self._files[module]).read_bytes())
            except (SyntaxError, ValueError, RecursionError):
                self._trees[module] = ast.Module(body=[], type_ignores=[])
        return self._trees[module]

    def parameters(self, compiled: Compiled, findings: Findings) -> tuple[Parameter, ...]:
        """The parameters of a function; empty if there is no such function, which is collected."""
        module, _, name = compiled.function.value.rpartition(".")
        if module not in self._files:
            message = f"there is no module `{module}` in {self._root}"
            label = did_you_mean(module, sorted(self._files))
            findings.add(Code.FILE_MISSING, message, compiled.function.span, label=label)
            return ()
        functions = self._functions(module)
        if name not in functions:
            message = f"{self._files[module]} has no function `{name}`"
            label = did_you_mean(name, sorted(functions))
            findings.add(Code.BAD_VALUE, message, compiled.function.span, label=label)
            return ()
        return tuple(_parameters(functions[name].args))

    def _functions(self, module: str) -> dict[str, ast.FunctionDef]:
        """The functions of a module."""
        nodes = [node for node in ast.walk(self._tree(module)) if isinstance(node, ast.FunctionDef)]
        own = {*_statements(self._tree(module).body)}
        # A method, or a function in a function, is what the name means if nothing else is.
        return {node.name: node for node in sorted(nodes, key=lambda node: (node in own, node.lineno))}

    def parameters_of(self, function: str) -> tuple[Parameter, ...]:
        """The parameters of a function, e.g. `kernels.forward`; empty if there is no such function."""
        module, _, name = function.rpartition(".")
        node = self._functions(module).get(name) if module in self._files else None
        return tuple(_parameters(node.args)) if node else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The modules, as they are imported from the package."""
        return tuple(self._files)

    def text(self, module: str) -> bytes:
        """The content of a module."""
        return (self._directory / self._files[module]).read_bytes()

    def closure(self, functions: Iterable[str]) -> tuple[str, ...]:
        """The files of the modules with some functions, and of those of the package that they import."""
        waiting = sorted({function.rpartition(".")[0] for function in functions})
        found: dict[str, None] = {}
        while waiting:
            module = waiting.pop()
            if module in found:
                continue
            found[module] = None
            waiting += [name for name in self._imports(module) if name in self._files and name]
        return tuple(sorted(self._files[module] for module in found))

    def _imports(self, module: str) -> Iterator[str]:
        """What a module imports of its package, by names in that."""
        is_package = self._files[module].endswith("/__init__.py")
        for node in ast.walk(self._tree(module)):
            if isinstance(node, ast.Import):
                yield from (
                    alias.name.removeprefix(f"{self._package}.")
                    for alias in node.names
                    if alias.name.startswith(f"{self._package}.")
                )
            elif isinstance(node, ast.Call) and (named := _named_module(node)):
                bare = named.lstrip(".")
                if named != bare:
                    own = module.split(".")
                    yield ".".join([*own[: len(own) - (len(named) - len(bare) - is_package)], bare])
                elif bare.startswith(f"{self._package}."):
                    yield bare.removeprefix(f"{self._package}.")
            elif isinstance(node, ast.ImportFrom):
                parts = module.split(".")
                if node.level:
                    above = node.level - 1 if is_package else node.level
                    base = parts[: len(parts) - above]
                elif (node.module or "").split(".")[0] == self._package:
                    base = []
                else:
                    continue
                named = (node.module or "").split(".") if node.module else []
                path = ".".join([*base, *(named if node.level else named[1:])])
                yield path
                yield from (f"{path}.{alias.name}" if path else alias.name for alias in node.names)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those in `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)


def _named_module(call: ast.Call) -> str:
    """What `importlib.import_module` imports, with its dots; empty if it is another call, or its name no plain text."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    named = first.value if isinstance(first, ast.Constant) else None
    return named if function == "import_module" and isinstance(named, str) else ""


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    """The parameters of a function."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    pairs = [
        *zip(plain, [*defaults, *arguments.defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        yield Parameter(
            name=argument.arg,
            is_constant="constexpr" in annotation,
            default=_literal(default),
            is_optional=default is not None,
        )


def _literal(default: ast.expr | None) -> tuple[Any, ...]:
    """A default that is a plain value; empty for others."""
    try:
        value = ast.literal_eval(default) if default is not None else None
        json.dumps(value)
    except (TypeError, ValueError):
        return ()
    return () if default is None else (value,)
