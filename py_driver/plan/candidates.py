"""The compiled cells that a project may have: those of the matrix, or for torch's stable ABI one for each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from py_driver.manifest.model import TVM_FFI
from py_driver.matrix.cells import Cell
from py_driver.matrix.toolkits import numbers

if TYPE_CHECKING:
    from collections.abc import Collection

    from py_driver.manifest.model import Bounds, Framework
    from py_driver.matrix.matrix import Matrix

_ABI = "cxx11"


class Candidate(NamedTuple):
    """A cell that a project may have.

    Attributes:
        cell: which.
        needs: the cell of the matrix with what it is compiled against; the same but for the stable ABI.
        bundled: whether it is built by default.
        reason: why no torch release will do, or nothing.
    """

    cell: Cell
    needs: Cell
    bundled: bool
    reason: str = ""


def describe(what: str, bounds: Bounds) -> str:
    """What bounds ask for: `torch must be at least 2.11`."""
    low, high = (".".join(map(str, one.value)) if one else "" for one in (bounds.minver, bounds.maxver))
    return f"{what} must be " + " and ".join([f"at least {low}"] * bool(low) + [f"at most {high}"] * bool(high))


def candidates(framework: Framework, matrix: Matrix, families: Collection[str]) -> list[Candidate]:
    """The cells that a project may have, as far as torch is concerned; those that are built by default first.

    Args:
        framework: what the project says of torch.
        matrix: the releases to build for.
        families: the backends, without their versions, that it compiles something for.
    """
    if framework.table == TVM_FFI:
        cells = ((cell, bundled) for cell, bundled in matrix.tvm_ffi_cells() if cell.family in families)
        return [Candidate(cell=cell, needs=cell, bundled=bundled) for cell, bundled in cells]
    found: list[Candidate] = []
    stable: dict[tuple[str, str | None], list[tuple[Cell, bool]]] = {}
    for cell, bundled in matrix.cells():
        if cell.family not in families:
            continue
        if cell.family in framework.stable_abi:
            stable.setdefault((cell.backend, cell.cpu), []).append((cell, bundled))
        else:
            reason = "" if _admits(framework, cell) else describe("torch", framework.bounds)
            found.append(Candidate(cell=cell, needs=cell, bundled=bundled, reason=reason))
    found += [_stable(framework, cells) for cells in stable.values()]
    return sorted(found, key=lambda one: not one.bundled)


def _admits(framework: Framework, cell: Cell) -> bool:
    return framework.bounds.admit(numbers(cell.torch or "0"))


def _stable(framework: Framework, cells: list[tuple[Cell, bool]]) -> Candidate:
    """The cell for the stable ABI in the place of all cells of one backend and CPU."""
    first = cells[0][0]
    version = (*framework.stable_abi[first.family].value, 0)[:2]
    torch = ".".join(map(str, version))
    later = [(cell, bundled) for cell, bundled in cells if cell.abi == _ABI and numbers(cell.torch or "0") >= version]
    admitted = [(cell, bundled) for cell, bundled in later if _admits(framework, cell)]
    cell = Cell(torch=torch, stable=True, backend=first.backend, cpu=first.cpu, os=first.os)
    if not admitted:
        without = f"no torch release from {torch} on is built with {first.backend}"
        reason = describe("torch", framework.bounds) if later else without
        return Candidate(cell=cell, needs=first, bundled=False, reason=reason)
    needs = max((cell for cell, _ in admitted), key=lambda one: numbers(one.torch or "0"))
    return Candidate(cell=cell, needs=needs, bundled=any(bundled for _, bundled in admitted))
