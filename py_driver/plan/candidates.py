"""The compiled variants that a project may have: the matrix's, or one for each backend for the stable ABI."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.model import TVM_FFI
from py_driver.matrix.configurations import Configuration
from py_driver.matrix.toolkits import numbers

if TYPE_CHECKING:
    from collections.abc import Collection

    from py_driver.manifest.model import Bounds, Framework
    from py_driver.matrix.matrix import Matrix

_ABI = "cxx11"


class Candidate(NamedTuple):
    """A variant that a project may have.

    Attributes:
        configuration: its configuration.
        needs: the variant of the matrix with the torch that it is compiled against; differs only for the stable ABI.
        default: whether it is built by default.
        reason: why no torch release is suitable; empty if one is.
    """

    configuration: Configuration
    needs: Configuration
    default: bool
    reason: str = ""


def describe(what: str, bounds: Bounds) -> str:
    """The requirement of bounds: `torch must be at least 2.11`."""
    low, high = (".".join(map(str, bound.value)) if bound else "" for bound in (bounds.minver, bounds.maxver))
    return f"{what} must be " + " and ".join([f"at least {low}"] * bool(low) + [f"at most {high}"] * bool(high))


def candidates(framework: Framework, matrix: Matrix, families: Collection[str]) -> list[Candidate]:
    """The variants that a project may have, as far as torch is concerned; default ones first.

    Args:
        framework: the project's table for torch.
        matrix: the releases to build for.
        families: the backends that it compiles for, without versions.
    """
    if framework.table == TVM_FFI:
        configurations = (
            (configuration, default)
            for configuration, default in matrix.tvm_ffi_configurations()
            if configuration.family in families
        )
        return [
            Candidate(configuration=configuration, needs=configuration, default=default)
            for configuration, default in configurations
        ]
    found: list[Candidate] = []
    stable: dict[tuple[str, str | None], list[tuple[Configuration, bool]]] = {}
    for configuration, default in matrix.configurations():
        if configuration.family not in families:
            continue
        if configuration.family in framework.stable_abi:
            stable.setdefault((configuration.backend, configuration.cpu), []).append((configuration, default))
        else:
            reason = "" if _admits(framework, configuration) else describe("torch", framework.bounds)
            found.append(Candidate(configuration=configuration, needs=configuration, default=default, reason=reason))
    found += [_stable(framework, configurations) for configurations in stable.values()]
    return sorted(found, key=lambda candidate: not candidate.default)


def _admits(framework: Framework, configuration: Configuration) -> bool:
    return framework.bounds.admit(numbers(configuration.torch or "0"))


def _stable(framework: Framework, configurations: list[tuple[Configuration, bool]]) -> Candidate:
    """The variant for the stable ABI that replaces all variants of a backend and CPU."""
    first = configurations[0][0]
    version = (*framework.stable_abi[first.family].value, 0)[:2]
    torch = ".".join(map(str, version))
    later = [
        (configuration, default)
        for configuration, default in configurations
        if configuration.abi == _ABI and numbers(configuration.torch or "0") >= version
    ]
    admitted = [(configuration, default) for configuration, default in later if _admits(framework, configuration)]
    configuration = Configuration(torch=torch, stable=True, backend=first.backend, cpu=first.cpu, os=first.os)
    if not admitted:
        without = f"no torch release from {torch} on is built with {first.backend}"
        reason = describe("torch", framework.bounds) if later else without
        return Candidate(configuration=configuration, needs=first, default=False, reason=reason)
    needs = max(
        (configuration for configuration, _ in admitted), key=lambda configuration: numbers(configuration.torch or "0")
    )
    return Candidate(configuration=configuration, needs=needs, default=any(default for _, default in admitted))
