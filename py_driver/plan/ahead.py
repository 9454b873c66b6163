"""Triton's ahead-of-time compiles: the functions of aot.toml with their parameters from the sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code, DriverError
from py_driver.manifest.ahead import AHEAD, FAMILIES, OPTIONS, Values, check_names, read_ahead
from py_driver.manifest.model import values
from py_driver.manifest.paths import path_problem
from py_driver.matrix.backends import BUILT
from py_driver.plan.triton_modules import Modules
from py_driver.spelling import did_you_mean
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.manifest.ahead import Ahead, Compiled
    from py_driver.manifest.model import Manifest
    from py_driver.manifest.section import Findings
    from py_driver.matrix.matrix import Matrix
    from py_driver.plan.links import Links
    from py_driver.plan.triton_modules import Parameter

_DIGITS = 10
"""The length of the digest in a request's name."""


class TritonTarget(NamedTuple):
    """Triton's ahead-of-time compiles for a backend.

    Attributes:
        name: the target's name: `triton_cuda`.
        family: `cuda` or `rocm`.
        archs: the architectures.
        release: the release of Triton, e.g. `3.9`.
        strict: whether a call without a compiled function is an error.
        functions: the parameters of each function, by its name in the package.
        requests: the compiles, each under a unique name: a function, a signature, constants and options.
        sources: the modules with the functions, and the modules that they import.
        reads: the modules of each function.
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
        """The functions in the rule's form."""
        return {
            function: {"parameters": [[known.name, known.is_constant, list(known.default)] for known in parameters]}
            for function, parameters in self.functions.items()
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are part of the id."""
        return {
            "archs": self.archs,
            "requests": list(self.requests.values()),
            "strict": self.strict,
            "triton": self.release,
        }


def triton_targets(manifest: Manifest, matrix: Matrix, python: Sequence[str], links: Links) -> tuple[TritonTarget, ...]:
    """The ahead-of-time compiles of a project with an aot.toml, for each backend that Triton supports.

    Args:
        manifest: the build.toml.
        matrix: the matrix, which has the releases of Triton.
        python: the files of the Python package.
        links: the project's.

    Raises:
        DriverError: all errors of aot.toml and the functions that it names: the errors of `read_ahead`, FILE_MISSING,
            UNSUPPORTED, UNKNOWN_ARCH; PATH_ESCAPES.
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
    """A function with the unique configurations that `driver tune --apply` wrote for it.

    A file has either a configuration for each of several sizes, or a single one.
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
    """Each signature with each configuration, by a name that does not depend on its position."""
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
        # For AMD only on request: on AMD GPUs, the launcher leaves the call to Triton.
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
    """Collect an error for a constant with a type, and for another argument with a value instead of a type."""
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
