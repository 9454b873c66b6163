"""The compilation database of a project: its variants, and its file."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from py_driver.building.selection import choose
from py_driver.editor.compile_commands import COMPILE_COMMANDS, OUTPUT, Job, entries
from py_driver.editor.header_trees import absent, header_trees, unpacked
from py_driver.errors import Code, error
from py_driver.extensions.headers import PYTHON
from py_driver.matrix.backends import version_of
from py_driver.matrix.configurations import spell
from py_driver.matrix.installation import module_root
from py_driver.matrix.matrix import CPYTHON_PART
from py_driver.matrix.select import ANY
from py_driver.matrix.toolkits import numbers
from py_driver.plan.includes import is_opaque, scan
from py_driver.plan.section_search import OPENMP
from py_driver.system.files import is_file, reading, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.editor.header_trees import HeaderTree
    from py_driver.matrix.lock import Lock
    from py_driver.matrix.matrix import Matrix
    from py_driver.matrix.releases import Releases
    from py_driver.matrix.select import Words
    from py_driver.output import Output
    from py_driver.plan.groups import Group
    from py_driver.plan.plan import Plan, Variant

_ORDER = ("cuda", "cpu", "rocm")
"""The backends, the most informative first: a variant for CUDA compiles the binding with all its branches."""


class Shown(NamedTuple):
    """The contents of a database.

    Attributes:
        variant: the identifier of the first variant; empty if nothing is compiled.
        sources: the sources with an entry, sorted.
        left: the sources without an entry, sorted.
    """

    variant: str
    sources: tuple[str, ...]
    left: tuple[str, ...]


def most_telling(variants: Sequence[Variant], matrix: Matrix) -> Variant:
    """The variant that a database shows first: for the newest torch and the newest tested CUDA.

    Args:
        variants: at least one.
        matrix: the releases.
    """
    tested = {toolkit.backend for toolkit in matrix.toolkits if toolkit.tested} | {"cpu"}

    def order(variant: Variant) -> tuple[object, ...]:
        configuration = variant.configuration
        return (
            -_ORDER.index(configuration.family),
            numbers(variant.needs.torch or "0"),
            configuration.backend in tested,
            numbers(version_of(configuration.backend) or "0"),
            configuration.abi or "",
        )

    return max(variants, key=order)


def shown_variants(plan: Plan, patterns: Sequence[str], words: Words, matrix: Matrix) -> list[Variant]:
    """The variants that a database shows: one, and for sources of other backends a variant of the same torch each.

    The variants of a setup.py's modules for the same configuration count as one.

    Args:
        plan: the plan of the project.
        patterns: globs of identifiers; empty for the most informative default variant.
        words: see `choose`.
        matrix: the releases.

    Raises:
        DriverError: NO_SUCH_VARIANT.
    """
    # The names of modules' variants have a suffix, which no pattern includes.
    plain = plan._replace(variants=tuple(variant._replace(suffix="") for variant in plan.variants))
    names = {variant.name for variant in choose(plain, patterns, words)}
    compiled = [variant for variant in plan.variants if variant.groups and spell(variant.configuration) in names]
    if not compiled:
        return []
    first = most_telling(compiled, matrix)
    shown = [first.configuration]
    for family in _ORDER:
        others = [variant for variant in plan.variants if variant.groups and variant.configuration.family == family]
        near = [variant for variant in others if variant.needs.torch == first.needs.torch] or others
        alike = [variant for variant in near if variant.needs.abi == first.needs.abi] or near
        here = [variant for variant in alike if variant.configuration.cpu == first.configuration.cpu] or alike
        if family != first.configuration.family and here:
            shown.append(most_telling(here, matrix).configuration)
    return [
        variant
        for configuration in shown
        for variant in plan.variants
        if variant.configuration == configuration and variant.groups
    ]


def write_database(  # noqa: PLR0913  (the project, the variants, and the output)
    directory: Path,
    plans: Sequence[Plan],
    releases: Releases,
    output: Output,
    patterns: Sequence[str] = (),
    words: Words = ANY,
) -> Shown:
    """Write the compilation database of a project, and unpack its headers.

    Args:
        directory: the directory of the project.
        plans: the plans of the project; one, unless setup.py creates other sources for each variant.
        releases: the releases to build for.
        output: where progress is shown.
        patterns: globs of identifiers; empty for the variant of `shown_variants`.
        words: see `choose`.

    Raises:
        DriverError: NO_SUCH_VARIANT; FOREIGN_FILE if the database there is not the driver's; what `unpacked` raises.
    """
    path = directory / COMPILE_COMMANDS
    if os.path.lexists(path) and recorded_variant(path) is None:
        advice = "move it away, or keep it and do without `driver ide`"
        raise error(Code.FOREIGN_FILE, f"{path} was not written by `driver ide`", help=advice)
    jobs: list[Job] = []
    first = ""
    for plan in plans:
        variants = shown_variants(plan, patterns, words, releases.matrix)
        first = first or next((spell(variant.configuration) for variant in variants), "")
        jobs += _jobs(plan, variants, releases.lock, output)

    @cache
    def included(file: str) -> tuple[str, ...] | None:
        text = plans[0].path_of(directory, file).read_text(encoding="utf-8", errors="replace")
        return None if is_opaque(text) else tuple(include.path for include in scan(text))

    found = entries(jobs, directory.resolve(), releases.matrix, included)
    every = {source for plan in plans for group in plan.groups for source in group.sources}
    sources = every & {entry["file"] for entry in found}
    content = (json.dumps(found, indent=1) + "\n").encode()
    if found and not (is_file(path) and path.read_bytes() == content):
        write(path, content)
    return Shown(first, tuple(sorted(sources)), tuple(sorted(every - sources)))


def recorded_variant(path: Path) -> str | None:
    """The variant in a database of the driver; None for any other database.

    Raises:
        DriverError: PERMISSION if the file cannot be read.
    """
    if not is_file(path):
        return None
    with reading(path):
        text = path.read_bytes()
    try:
        outputs = [str(entry["output"]) for entry in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return None
    parts = [output.split("/", 2) for output in outputs]
    if not parts or any(part[0] != OUTPUT or len(part) < 3 for part in parts):  # noqa: PLR2004  (prefix, variant, source)
        return None
    return parts[0][1]


def needs_network(plan: Plan, releases: Releases) -> bool:
    """Whether the database of a project, without patterns, needs archives that are not in the store.

    Args:
        plan: the plan of the project.
        releases: the releases to build for.
    """
    variants = shown_variants(plan, (), ANY, releases.matrix)
    return any(absent(_trees(variant, group, releases.lock).values()) for variant, group in _parts(plan, variants))


def _parts(plan: Plan, variants: Sequence[Variant]) -> list[tuple[Variant, Group]]:
    """The groups of sources of variants."""
    return [(variant, group) for variant in variants for group in plan.groups if group.name in variant.groups]


def _trees(variant: Variant, group: Group, lock: Lock) -> dict[str, HeaderTree]:
    """The headers that the sources of a group include."""
    python = variant.python.key if variant.python and CPYTHON_PART in group.depends else ""
    openmp = (OPENMP,) if group.openmp else ()
    return header_trees(lock, variant.needs, (*group.depends, *openmp), python)


def _jobs(plan: Plan, variants: Sequence[Variant], lock: Lock, output: Output) -> list[Job]:
    """The jobs for variants, with the headers unpacked."""
    rules = module_root() / "rules" / "private" / "include"
    wanted = [(variant, group, _trees(variant, group, lock)) for variant, group in _parts(plan, variants)]
    trees_by_name = unpacked({tree.name: tree for _, _, trees in wanted for tree in trees.values()}, output)
    for name in {trees[PYTHON].name for _, _, trees in wanted if PYTHON in trees}:
        # As in toolchains/python/repository.bzl: stand-ins replace headers that are for one Python.
        limited = module_root() / "toolchains" / "python" / "limited"
        trees_by_name[name] = trees_by_name[name]._replace(includes=(limited, *trees_by_name[name].includes))
    return [
        Job(
            group=group,
            variant=variant,
            trees={name: trees_by_name[tree.name] for name, tree in trees.items()},
            rules=rules,
            glibc=lock.parts["cc"]["glibc"],
            pybind_abi=lock.parts["torch"].get(variant.needs.torch or "", {}).get("pybind_abi", ""),
        )
        for variant, group, trees in wanted
    ]
