"""The releases of torch, CUDA, Python and glibc with which libraries load, and the missing symbols with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.library_needs import abi_of, is_python, is_torch, version_numbers
from py_driver.inspecting.recorded_symbols import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.inspecting.library_needs import Needs, Wanted
    from py_driver.inspecting.recorded_symbols import Policy, Recorded
    from py_driver.matrix.matrix import Torch

CPU: Final = "cpu"
_TVM_FFI: Final = "libtvm_ffi.so"


class Build(NamedTuple):
    """A build of torch.

    Attributes:
        torch: `2.13`.
        abi: the C++ ABI, `cxx11` or `cxx98`.
        backend: `cpu`, `cu130`, `rocm72`.
    """

    torch: str
    abi: str
    backend: str


class Missing(NamedTuple):
    """Something that a library does not find.

    Attributes:
        name: the library, symbol, version or Python.
        why: an explanation for messages; possibly empty.
    """

    name: str
    why: str = ""


class Loads(NamedTuple):
    """The releases with which a library loads.

    Attributes:
        needs: its needs.
        uses: the providers of its symbols: `torch`, `cuda`, `rocm`, `python`.
        builds: what is missing, by build of torch; empty if the library loads.
        uncertain: the builds of torch whose record is incomplete.
        toolkits: what is missing, by release of CUDA or ROCm, for a library that does not use torch.
        pythons: what is missing, by Python; None if the Python's symbols are not recorded.
        systems: what is missing, by manylinux policy.
        others: unknown needed libraries, which the user must have.
        unknown: symbols without a known definition, possibly in `others`.
    """

    needs: Needs
    uses: frozenset[str]
    builds: Mapping[Build, tuple[Missing, ...]]
    uncertain: frozenset[Build]
    toolkits: Mapping[str, tuple[Missing, ...]]
    pythons: Mapping[str, tuple[Missing, ...] | None]
    systems: Mapping[str, tuple[Missing, ...]]
    others: tuple[str, ...]
    unknown: tuple[str, ...]


class _Taken(NamedTuple):
    """The symbols that a library needs, by provider."""

    torch: tuple[str, ...]
    toolkit: tuple[str, ...]
    python: tuple[str, ...]
    unknown: tuple[str, ...]


def load_table(libraries: Sequence[Needs], recorded: Recorded) -> list[Loads]:
    """The load tables of libraries that are installed together and may use each other's symbols.

    Args:
        libraries: the needs of each library.
        recorded: the recorded symbols of releases.

    Raises:
        DriverError: BAD_VALUE if a file of the lock is damaged.
    """
    bundled = {library.soname for library in libraries} | {library.name.rpartition("/")[2] for library in libraries}
    defined = frozenset().union(*(library.defined for library in libraries))
    return [_loads(library, bundled, defined, recorded) for library in libraries]


def _loads(needs: Needs, bundled: set[str], defined: frozenset[str], recorded: Recorded) -> Loads:
    """The releases with which a library loads.

    Args:
        needs: its needs.
        bundled: the names of the libraries beside it.
        defined: the symbols that these libraries export.
        recorded: the recorded symbols of releases.
    """
    needed = [name for name in needs.libraries if name not in bundled]
    taken = _taken(needs, defined, recorded)
    toolkit_libraries = [name for name in needed if any(p.fullmatch(name) for p in recorded.toolkit_patterns)]
    torch_libraries = [name for name in needed if name in recorded.torch_libraries]
    known = {*toolkit_libraries, *torch_libraries, *recorded.system_libraries, _TVM_FFI}
    families = {family_of_library(name, recorded) for name in toolkit_libraries}
    families |= {recorded.torch_libraries[name] for name in torch_libraries}
    uses = {"torch"} if taken.torch or torch_libraries else set()
    uses |= (families - {CPU}) | ({"python"} if taken.python or needs.python else set())
    uses |= {"cuda"} if taken.toolkit and not families & {"cuda", "rocm"} else set()
    builds: dict[Build, tuple[Missing, ...]] = {}
    uncertain: set[Build] = set()
    abis = {abi for symbol in taken.torch if (abi := abi_of(symbol))}
    for torch, build in _builds(recorded, needs.cpu, with_rocm="rocm" in uses) if "torch" in uses else ():
        is_recorded = recorded.torch_abi(torch.version) in {"", build.abi}
        missing = [*_without_library(torch_libraries, toolkit_libraries, build.backend, recorded)]
        missing += _without_symbol(taken, build, needs.cpu, recorded, is_recorded=is_recorded)
        if torch.pythons and needs.python and needs.python not in torch.pythons:
            missing.append(Missing(f"Python {needs.python}", f"torch {torch.version} has no wheel for it"))
        builds[build] = tuple(dict.fromkeys(missing))
        if not is_recorded and (build.abi in abis or build.backend.startswith("rocm")):
            uncertain.add(build)
    toolkits = {}
    if "torch" not in uses:
        for name in recorded.toolkits:
            if family_of(name) in uses:
                missing = [*_without_library((), toolkit_libraries, name, recorded)]
                missing += [Missing(s) for s in taken.toolkit if s not in recorded.toolkit_symbols[name]]
                toolkits[name] = tuple(missing)
    return Loads(
        needs=needs,
        uses=frozenset(uses),
        builds=builds,
        uncertain=frozenset(uncertain),
        toolkits=toolkits,
        pythons={version: _without_python(needs, taken, version, recorded) for version in recorded.known_pythons},
        systems={policy.name: (*_without_version(needs, policy),) for policy in recorded.policies},
        others=tuple(name for name in needed if name not in known),
        unknown=taken.unknown,
    )


def _builds(recorded: Recorded, cpu: str, *, with_rocm: bool) -> Iterator[tuple[Torch, Build]]:
    """The builds of torch for a CPU."""
    matrix = recorded.releases.matrix
    for torch in matrix.torch:
        own = (*torch.backends, *torch.on_request) if cpu == matrix.cpu or not cpu else torch.cross.get(cpu, ())
        for abi in torch.abis:
            for backend in own:
                if with_rocm or family_of(backend) != "rocm":
                    yield torch, Build(torch.version, abi, backend)


def _taken(needs: Needs, defined: frozenset[str], recorded: Recorded) -> _Taken:
    """The symbols that a library needs, by provider, without optional ones."""
    torch, toolkit, python, unknown = [], [], [], []
    known = frozenset().union(*recorded.toolkit_symbols.values())
    for wanted in needs.symbols:
        if wanted.weak or wanted.name in defined or _is_of_system(wanted, needs.cpu, recorded):
            continue
        if is_python(wanted.name):
            python.append(wanted.name)
        elif wanted.name in known or _is_of_toolkit(wanted, recorded):
            toolkit.append(wanted.name)
        elif recorded.is_of_torch(wanted.name):
            torch.append(wanted.name)
        else:
            unknown.append(wanted.name)
    return _Taken(tuple(torch), tuple(toolkit), tuple(python), tuple(unknown))


def _is_of_system(wanted: Wanted, cpu: str, recorded: Recorded) -> bool:
    """Whether a system library defines a symbol: it has a version, or its name is in glibc or gcc's libraries."""
    if _is_of_toolkit(wanted, recorded):
        return False
    return bool(wanted.version) or recorded.is_of_system(wanted.name, cpu)


def _is_of_toolkit(wanted: Wanted, recorded: Recorded) -> bool:
    return any(pattern.fullmatch(wanted.library) for pattern in recorded.toolkit_patterns)


def family_of_library(name: str, recorded: Recorded) -> str:
    """The backend of a toolkit's library: `cuda` for `libcudart.so.13`."""
    base = name.partition(".so")[0]
    for toolkit, libraries in recorded.toolkits.items():
        if any(library.partition(".so")[0] == base for library in libraries):
            return family_of(toolkit)
    return "rocm" if base.startswith(("libhip", "libroc", "libamd")) else "cuda"


def _without_library(
    of_torch: Iterable[str], of_toolkit: Iterable[str], backend: str, recorded: Recorded
) -> Iterator[Missing]:
    """The needed libraries that a build for a backend does not have."""
    family = family_of(backend)
    for name in of_torch:
        if recorded.torch_libraries[name] not in {CPU, family}:
            yield Missing(name, f"torch for {backend} has none")
    libraries = recorded.toolkits.get(backend, {})
    for name in of_toolkit:
        base = name.partition(".so")[0]
        if name in libraries:
            continue
        others = [library for library in libraries if library.partition(".so")[0] == base]
        if others:
            yield Missing(name, f"{backend} has {others[0]}")
        elif family != family_of_library(name, recorded):
            yield Missing(name, f"torch for {backend} loads none")


def _without_symbol(
    taken: _Taken, build: Build, cpu: str, recorded: Recorded, *, is_recorded: bool
) -> Iterator[Missing]:
    """The symbols that a build of torch does not define.

    Args:
        taken: the symbols that the library needs.
        build: the build of torch.
        cpu: the CPU of the library.
        recorded: the recorded symbols of releases.
        is_recorded: whether the build's own C++ ABI is recorded; otherwise symbols that depend on it are ignored.
    """
    family = family_of(build.backend)
    for symbol in taken.torch:
        abi = abi_of(symbol)
        if abi and abi != build.abi and is_torch(symbol):
            yield Missing(symbol, f"this torch has the ABI {build.abi}")
            continue
        if (abi and not is_recorded) or (family == "rocm" and "hip" in symbol.lower()):
            continue
        if not recorded.torch_defines(symbol, build.torch, cpu, family):
            yield Missing(symbol)
    if family == CPU:
        yield from (Missing(symbol) for symbol in taken.toolkit)
    elif build.backend in recorded.toolkit_symbols:
        own = recorded.toolkit_symbols[build.backend]
        yield from (Missing(symbol) for symbol in taken.toolkit if symbol not in own)


def _without_python(needs: Needs, taken: _Taken, version: str, recorded: Recorded) -> tuple[Missing, ...] | None:
    """What a library does not find in a Python; None if the Python's symbols are not recorded."""
    if needs.python:
        return () if needs.python == version else (Missing(f"Python {needs.python}", "the name of its file"),)
    if needs.name.endswith(".abi3.so") and version.endswith("t"):
        return (Missing(f"Python {version}", "free-threaded Pythons have another ABI"),)
    return _without_python_symbol(taken.python, version, recorded) if taken.python else ()


def _without_python_symbol(symbols: Sequence[str], version: str, recorded: Recorded) -> tuple[Missing, ...] | None:
    """The symbols that a Python does not define; None if its symbols are not recorded."""
    stable = recorded.stable_python
    if version.endswith("t"):
        return None
    if all(symbol in stable for symbol in symbols):
        late = [s for s in symbols if version_numbers(stable[s]) > version_numbers(version)]
        return tuple(Missing(symbol, f"since Python {stable[symbol]}") for symbol in late)
    if version not in recorded.pythons:
        return None
    return tuple(Missing(symbol) for symbol in symbols if symbol not in recorded.pythons[version])


def _without_version(needs: Needs, policy: Policy) -> Iterator[Missing]:
    """The versions of symbols that the systems of a policy lack."""
    own = policy.versions.get(needs.cpu)
    if own is None:
        yield Missing(policy.name, f"it has no systems for {needs.cpu or 'this CPU'}")
        return
    for family, version in needs.versions().items():
        if family in own and version_numbers(version) > version_numbers(own[family]):
            yield Missing(f"{family}_{version}", f"it has {family}_{own[family]}")
