"""`driver abi-check --torch all`: prints the releases with which libraries load, and missing symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, DriverError, ExitCode
from py_driver.inspecting.disassembler import demangled
from py_driver.inspecting.library_files import package_of
from py_driver.inspecting.load_table import CPU, Build, load_table
from py_driver.inspecting.recorded_symbols import Recorded, family_of
from py_driver.matrix.backends import version_of
from py_driver.output import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from py_driver.errors import Diagnostic
    from py_driver.inspecting.library_files import Package, Stated
    from py_driver.inspecting.load_table import Loads, Missing
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_YES, _NO, _UNKNOWN, _NONE = "yes", "no", "?", "-"
_SHOWN: Final = 2
_LONGEST: Final = 70


def show_load_tables(paths: Sequence[Path], releases: Releases, output: Output, *, as_json: bool) -> int:
    """Print the releases with which libraries load; returns the exit code.

    Args:
        paths: libraries, wheels, directories.
        releases: the releases whose symbols are recorded.
        output: where to print.
        as_json: whether to print JSON.

    Raises:
        DriverError: see `package_of`, and NOT_COMPLIANT for each library that loads with no build of torch.
    """
    recorded = Recorded(releases)
    wrong: list[Diagnostic] = []
    packages: list[tuple[Package, list[Loads]]] = []
    for path in paths:
        try:
            package = package_of(path)
        except DriverError as failure:
            wrong += failure.diagnostics
            continue
        packages.append((package, load_table(package.libraries, recorded)))
    if as_json:
        output.json({"packages": [_as_json(package, tables, recorded) for package, tables in packages]})
    else:
        for number, (package, tables) in enumerate(packages):
            if number:
                output.data("")
            _show(package, tables, recorded, output)
    if wrong:
        raise DriverError(wrong)
    lost = [
        loads.needs.name
        for _, tables in packages
        for loads in tables
        if "torch" in loads.uses and not any(not missing for missing in loads.builds.values())
    ]
    return Code.NOT_COMPLIANT.exit_code if lost else ExitCode.OK


def _show(package: Package, tables: Sequence[Loads], recorded: Recorded, output: Output) -> None:
    """Print the tables of a package."""
    output.data(f"{package.path.name}: {'1 library' if len(tables) == 1 else f'{len(tables)} libraries'}")
    if package.stated:
        output.data(f"  states: {_stated(package.stated)}")
    names = short_names(loads.needs.name for loads in tables)
    rows = [
        [names[loads.needs.name], *_row(loads, recorded)]
        for loads in tables
        if loads.uses or len(tables) == 1 or loads.others
    ]
    if rows:
        output.data("")
        output.table(("library", "torch", "CUDA, ROCm", "Python", "glibc", "system", "also needs"), rows)
    using = [loads for loads in tables if loads.builds]
    if using:
        output.data("")
        _show_builds(using, output)
    rows = [*_missing(tables, names)]
    if rows:
        output.data("")
        output.table(("library", "with", "missing", "first of them"), rows, right=(2,))
    for note in notes(package, tables, recorded):
        output.data(f"note: {note}")


def _stated(stated: Stated) -> str:
    """The requirements in metadata, in one line."""
    parts = [] if stated.torch is None else [f"torch{stated.torch}" if str(stated.torch) else "any torch"]
    parts += [f"Python {stated.python}"] if stated.python else []
    return ", ".join([*parts, *stated.tags[:1]]) or "nothing of torch or Python"


def _row(loads: Loads, recorded: Recorded) -> list[str]:
    """The row of a library in the first table, without its name."""
    matrix = recorded.releases.matrix
    torches = [torch.version for torch in matrix.torch]
    toolkits = [name for name in recorded.toolkits if family_of(name) in loads.uses]
    good = {build for build, missing in loads.builds.items() if not missing and build not in loads.uncertain}
    served = {build.backend for build in good} if loads.builds else {k for k, v in loads.toolkits.items() if not v}
    pythons = loads.pythons
    return [
        spans([build.torch for build in good], torches) if "torch" in loads.uses else "any",
        spans([version_of(name) or "" for name in served], [version_of(name) or "" for name in toolkits])
        if toolkits
        else "any",
        "any"
        if all(missing == () for missing in pythons.values())
        else spans([version for version, missing in pythons.items() if missing == ()], [*pythons]),
        loads.needs.versions().get("GLIBC", _NONE),
        next((name for name, missing in loads.systems.items() if not missing), "newer than all"),
        ", ".join(loads.others) or _NONE,
    ]


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """The shortest unique end of each path: the file name, or with directories before it.

    Args:
        paths: paths with `/`.
    """
    known = [path.split("/") for path in dict.fromkeys(paths)]
    found = {}
    for parts in known:
        ends = ((count, parts[-count:]) for count in range(1, len(parts) + 1))
        own = (end for count, end in ends if sum(other[-count:] == end for other in known) == 1)
        found["/".join(parts)] = "/".join(next(own, parts))
    return found


def spans(values: Iterable[str], every: Sequence[str]) -> str:
    """Values as ranges of an ordered list: `2.4, 2.9 to 2.15`; `none` for no values.

    Args:
        values: elements of the list.
        every: the list, in order.
    """
    chosen, groups = set(values), list[list[str]]()
    for before, value in zip([None, *every], dict.fromkeys(every), strict=False):
        if value in chosen:
            if groups and before in chosen:
                groups[-1].append(value)
            else:
                groups.append([value])
    return ", ".join(f"{group[0]} to {group[-1]}" if len(group) > 1 else group[0] for group in groups) or "none"


def _show_builds(tables: Sequence[Loads], output: Output) -> None:
    """Print a table of the builds of torch: whether all libraries load with each, or how many do."""
    builds = [*dict.fromkeys(build for loads in tables for build in loads.builds)]
    backends = sorted(
        {build.backend for build in builds}, key=lambda name: (name != CPU, family_of(name), len(name), name)
    )
    rows = []
    for torch, abi in dict.fromkeys((build.torch, build.abi) for build in builds):
        cells = [_cell(tables, Build(torch, abi, backend)) for backend in backends]
        rows.append([torch, abi, *cells])
    output.table(("torch", "ABI", *backends), rows)


def _cell(tables: Sequence[Loads], build: Build) -> str:
    """Whether libraries load with a build of torch."""
    own = [loads for loads in tables if build in loads.builds]
    if not own:
        return _NONE
    good = [loads for loads in own if not loads.builds[build]]
    if len(good) < len(own):
        return f"{len(good)} of {len(own)}" if good else _NO
    return _UNKNOWN if any(build in loads.uncertain for loads in own) else _YES


def _missing(tables: Sequence[Loads], names: Mapping[str, str]) -> Iterator[list[str]]:
    """The rows of the table of missing symbols; releases that lack the same symbols share a row.

    A release of torch is represented by its build that lacks the fewest symbols; then follow backends that no release
    loads with.

    Args:
        tables: the load tables of the libraries.
        names: their names in the table.
    """
    for loads in tables:
        pairs = sorted(dict.fromkeys((build.torch, build.abi) for build in loads.builds), key=lambda pair: pair[1])
        every = [*(f"{torch} {abi}" for torch, abi in pairs), *(build.backend for build in loads.builds)]
        every = [*dict.fromkeys((*every, *loads.toolkits))]
        groups: dict[tuple[Missing, ...], list[str]] = {}
        for torch, abi in dict.fromkeys((build.torch, build.abi) for build in loads.builds):
            own = (lack for build, lack in loads.builds.items() if (build.torch, build.abi) == (torch, abi))
            groups.setdefault(min(own, key=len), []).append(f"{torch} {abi}")
        for backend in dict.fromkeys(build.backend for build in loads.builds):
            own = (lack for build, lack in loads.builds.items() if build.backend == backend)
            least = min(own, key=len)
            if least not in groups:
                groups[least] = [backend]
        for toolkit, lack in loads.toolkits.items():
            groups.setdefault(lack, []).append(toolkit)
        for lack, places in groups.items():
            if lack:
                first = "; ".join(map(_named, lack[:_SHOWN]))
                yield [names[loads.needs.name], spans(places, every), str(len(lack)), first]


def _named(missing: Missing) -> str:
    """A missing symbol, for people."""
    name = demangled(missing.name)
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
    return f"{name} ({missing.why})" if missing.why else name


def notes(package: Package, tables: Sequence[Loads], recorded: Recorded) -> Iterator[str]:
    """Notes about metadata that allows releases without success, and about symbols that nothing known defines.

    Args:
        package: the libraries and their metadata.
        tables: the load tables of the libraries.
        recorded: the symbols of the releases.
    """
    stated = package.stated
    using = [loads for loads in tables if loads.builds]
    if stated and using:
        allowed = [t for t in recorded.releases.matrix.torch if stated.torch is None or t.release in stated.torch]
        lost = [torch.version for torch in allowed if not any(_loads_with(loads, torch.version) for loads in using)]
        if lost:
            every = [torch.version for torch in recorded.releases.matrix.torch]
            yield f"its metadata allows torch {spans(lost, every)}, with which none of its libraries loads"
    tag = stated.tags[0] if stated and stated.tags else ""
    for policy in recorded.policies:
        if f"-{policy.name}_" in tag or (policy.alias and f"-{policy.alias}_" in tag):
            newer = [loads for loads in tables if loads.systems[policy.name]]
            for loads in newer:
                names = ", ".join(missing.name for missing in loads.systems[policy.name])
                yield f"its tag is {policy.name}, and {loads.needs.name} requires {names}"
    for loads in tables:
        if loads.unknown and not loads.others:
            first = demangled(loads.unknown[0])[:_LONGEST]
            yield f"{loads.needs.name}: nothing known defines {counted(len(loads.unknown), 'symbol')}, such as {first}"


def _loads_with(loads: Loads, torch: str) -> bool:
    """Whether a library loads with any build of a release of torch."""
    return any(not missing for build, missing in loads.builds.items() if build.torch == torch)


def _as_json(package: Package, tables: Sequence[Loads], recorded: Recorded) -> dict[str, Any]:
    """The tables of a package as a value for JSON."""
    stated = package.stated
    return {
        "path": str(package.path),
        "stated": stated
        and {
            "torch": None if stated.torch is None else str(stated.torch),
            "python": stated.python,
            "tags": list(stated.tags),
        },
        "notes": [*notes(package, tables, recorded)],
        "libraries": [_library(loads) for loads in tables],
    }


def _library(loads: Loads) -> dict[str, Any]:
    """A library as a value for JSON."""
    return {
        "file": loads.needs.name,
        "cpu": loads.needs.cpu,
        "uses": sorted(loads.uses),
        "versions": dict(loads.needs.versions()),
        "torch": [
            {
                **build._asdict(),
                "loads": (None if build in loads.uncertain else True) if not missing else False,
                "missing": [each._asdict() for each in missing],
            }
            for build, missing in loads.builds.items()
        ],
        "toolkits": _places(loads.toolkits),
        "pythons": _places(loads.pythons),
        "systems": _places(loads.systems),
        "also-needs": list(loads.others),
        "unknown": list(loads.unknown),
    }


def _places(places: Mapping[str, tuple[Missing, ...] | None]) -> list[dict[str, Any]]:
    """Releases with their missing symbols; `loads` is null if these are not recorded."""
    return [
        {
            "name": name,
            "loads": None if missing is None else not missing,
            "missing": [each._asdict() for each in missing or ()],
        }
        for name, missing in places.items()
    ]
