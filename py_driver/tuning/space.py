"""The tuning space of a kernel: `tuning/NAME.toml`, read and checked. Pure except for reading the file."""

from __future__ import annotations

import itertools
import keyword
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.errors import Code, DriverError, error
from py_driver.resources import resource
from py_driver.spelling import did_you_mean
from py_driver.system.files import reading
from py_driver.tuning.expression import LARGEST, Expression

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Configuration = tuple[int, ...]
"""A value for each parameter of a space, in order."""

Case = tuple[int, ...]
"""A problem: a value for each size, in the order of the space."""

PLACE: Final = "tuning"
"""The directory of a project with its spaces and records."""

FACTS: Final = ("capability", "smem", "sms")
"""The facts about the GPU in conditions: 90 for 9.0, the maximum bytes of shared memory of a block, multiprocessors."""

_KEYS: Final = ("section", "workload", "header", "configs", "space", "constraints", "default", "cases")
_CASE_KEYS: Final = ("key", "shapes")
_NAME: Final = re.compile(r"(?!kValue\d)(?!_[_A-Z])[A-Za-z_](?:(?!__)[A-Za-z0-9_])*")
_MOST: Final = 100_000
_INT: Final = 1 << 31


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """The configurations of a kernel, and the problems on which they are measured.

    Attributes:
        name: the name of the file, without its suffix.
        section: the section of build.toml whose sources get the values, as `-DTUNE_NAME=value`; empty if they are not
            compiled, as for Triton.
        workload: the workload of the benchmark, e.g. `Softmax.softmax`; its class gets each case as the attribute
            `case`, and the values as the attribute `config`.
        header: the file that `driver tune --apply` writes, relative to the project; empty if there is none.
        configs: the directory in which it writes JSON files instead, relative to the project; empty if there is none.
        parameters: the names of the parameters.
        values: the values of each parameter.
        constraints: conditions on a configuration and a case.
        default: the configuration of an untuned kernel.
        sizes: the names of a case's numbers.
        cases: the cases to measure.
        key: the size by which the header chooses.
    """

    name: str
    section: str
    workload: str
    header: str
    configs: str
    parameters: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    constraints: tuple[Expression, ...]
    default: Configuration
    sizes: tuple[str, ...]
    cases: tuple[Case, ...]
    key: str

    @property
    def configurations(self) -> Iterator[Configuration]:
        """All configurations, the default first."""
        yield self.default
        yield from (config for config in itertools.product(*self.values) if config != self.default)

    @property
    def count(self) -> int:
        """The number of configurations."""
        count = 1
        for values in self.values:
            count *= len(values)
        return count

    def violated(self, configuration: Configuration, case: Case, facts: Mapping[str, int]) -> str:
        """The first condition that a configuration violates on a case; empty if it fulfils all.

        Args:
            configuration: the configuration.
            case: the case.
            facts: the known facts about the GPU; a condition with unknown facts counts as fulfilled.

        Raises:
            DriverError: BAD_VALUE if a condition cannot be evaluated.
        """
        values = {**facts, **self.named(configuration), **dict(zip(self.sizes, case, strict=True))}
        for constraint in self.constraints:
            if not constraint.names <= values.keys():
                continue
            try:
                if not constraint.holds(values):
                    return constraint.text
            except ValueError as problem:
                advice = "write a condition that can be evaluated for every configuration and case"
                raise error(Code.BAD_VALUE, f"tuning/{self.name}.toml: {problem}", help=advice) from None
        return ""

    def named(self, configuration: Configuration) -> dict[str, int]:
        """A configuration as values by parameter."""
        return dict(zip(self.parameters, configuration, strict=True))

    def flags(self, configuration: Configuration) -> tuple[str, ...]:
        """The compiler's options for a configuration."""
        return tuple(f"-DTUNE_{name}={value}" for name, value in self.named(configuration).items())

    def shown(self, configuration: Configuration) -> str:
        """A configuration for output: `VARIANT=1 THREADS=256`."""
        return " ".join(f"{name}={value}" for name, value in self.named(configuration).items())

    def shown_case(self, case: Case) -> str:
        """A case for output: `rows=8192 cols=4096`."""
        return " ".join(f"{name}={value}" for name, value in zip(self.sizes, case, strict=True))


def spaces_of(directory: Path) -> dict[str, Path]:
    """The files of a project's spaces, by name."""
    return {path.stem: path for path in sorted((directory / PLACE).glob("*.toml"))}


def find_space(directory: Path, name: str) -> Space:
    """A space of a project.

    Args:
        directory: the project's directory.
        name: the name of the space; if empty, the only one.

    Raises:
        DriverError: FILE_MISSING if there is no space; USAGE if it is ambiguous; see `read_space`.
    """
    known = spaces_of(directory)
    if not known:
        message = f"no tuning space in {directory} (expected {PLACE}/*.toml)"
        raise error(Code.FILE_MISSING, message, help="write tuning/NAME.toml; docs/inspecting.md has an example")
    if not name and len(known) > 1:
        raise error(Code.USAGE, "there are several tuning spaces", help=f"name one of {', '.join(known)}")
    chosen = name or next(iter(known))
    if chosen not in known:
        hint = did_you_mean(chosen, known)
        raise error(Code.USAGE, f"there is no tuning/{chosen}.toml", help=hint or f"there are {', '.join(known)}")
    return read_space(known[chosen])


def read_space(path: Path) -> Space:
    """Read a space.

    Raises:
        DriverError: TOML_SYNTAX, UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE or BAD_VALUE if it is invalid; PERMISSION.
    """
    with reading(path):
        text = path.read_bytes()
    try:
        table = tomli.loads(text.decode())
    except (tomli.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise error(Code.TOML_SYNTAX, f"{path}: {problem}") from None
    return _Reader(path, table).space()


_OWN: Final = ("Call", "Config", "Result", "bool", "call", "choose", "false", "floor_div", "floor_mod", "true")
_MACROS: Final = ("EOF", "NULL", "assert", "errno", "linux", "stderr", "stdin", "stdout", "unix")


@cache
def _taken() -> frozenset[str]:
    """Names that cannot be used in the header."""
    return frozenset({*tomli.loads(resource("projects/names.toml"))["keywords"], *_OWN, *_MACROS})


class _Reader:
    """Reads a space from a table."""

    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self._path = path
        self._table = table

    def space(self) -> Space:
        self._names([self._path.stem])
        for key in self._table:
            if key not in _KEYS:
                raise self._wrong(Code.UNKNOWN_KEY, f"`{key}` is not known", did_you_mean(key, _KEYS))
        parameters = {name: self._integers(name, values) for name, values in self._mapping("space").items()}
        default = self._mapping("default")
        if default.keys() != parameters.keys():
            raise self._wrong(Code.MISSING_KEY, "[default] has other names than [space]")
        chosen = tuple(default[name] for name in parameters)
        if any(value not in parameters[name] for name, value in zip(parameters, chosen, strict=True)):
            raise self._wrong(Code.BAD_VALUE, "[default] has a value that is not in [space]")
        sizes, cases = self._cases()
        for entry in self._mapping("cases"):
            if entry not in _CASE_KEYS:
                raise self._wrong(
                    Code.UNKNOWN_KEY, f"`{entry}` in [cases] is not known", did_you_mean(entry, _CASE_KEYS)
                )
        key = self._mapping("cases").get("key", sizes[0])
        if key not in sizes:
            raise self._wrong(Code.BAD_VALUE, f"`key` in [cases] is no size of a case: {key}")
        if clash := (parameters.keys() & {*sizes, *FACTS}) | ({*sizes} & {*FACTS}):
            raise self._wrong(Code.BAD_VALUE, f"`{min(clash)}` names two things")
        space = Space(
            name=self._path.stem,
            section=self._text("section", ""),
            workload=self._text("workload"),
            header=self._text("header", ""),
            configs=self._text("configs", "").removesuffix("/"),
            parameters=tuple(parameters),
            values=tuple(parameters.values()),
            constraints=tuple(self._constraints({*parameters, *sizes, *FACTS})),
            default=chosen,
            sizes=sizes,
            cases=cases,
            key=key,
        )
        self._check_written(space)
        if space.count > _MOST:
            raise self._wrong(Code.BAD_VALUE, f"[space] has {space.count} configurations; at most {_MOST} are allowed")
        return space

    def _check_written(self, space: Space) -> None:
        """Check that the files to write suit the reader of the values: a compiler, or Python."""
        if space.header and not space.section:
            raise self._wrong(Code.MISSING_KEY, "`section` is missing: without one, no compiler reads a header")
        if space.configs and space.section:
            advice = "name a `header` for C++ code, or remove `section` if Python passes the values on"
            raise self._wrong(Code.BAD_VALUE, "`configs` is for kernels that no section of build.toml compiles", advice)

    def _constraints(self, known: set[str]) -> Iterator[Expression]:
        for name, text in self._mapping("constraints", {}).items():
            try:
                condition = Expression(text if isinstance(text, str) else repr(text))
            except ValueError as problem:
                raise self._wrong(Code.BAD_VALUE, f"`{name}` in [constraints]: {problem}") from None
            if unknown := sorted(condition.names - known):
                message = f"`{name}` in [constraints] has the unknown name `{unknown[0]}`"
                raise self._wrong(Code.BAD_VALUE, message, did_you_mean(unknown[0], sorted(known)))
            yield condition

    def _cases(self) -> tuple[tuple[str, ...], tuple[Case, ...]]:
        shapes = self._mapping("cases").get("shapes")
        if not isinstance(shapes, list) or not shapes or not all(isinstance(shape, dict) and shape for shape in shapes):
            raise self._wrong(Code.WRONG_TYPE, "`shapes` in [cases] must be tables, e.g. [{rows = 8192, cols = 4096}]")
        sizes = tuple(shapes[0])
        for shape in shapes:
            if shape.keys() != set(sizes) or not all(
                type(value) is int and abs(value) <= LARGEST for value in shape.values()
            ):
                raise self._wrong(Code.BAD_VALUE, f"each of `shapes` must have integers for {', '.join(sizes)}")
        self._names(sizes)
        return sizes, tuple(dict.fromkeys(tuple(shape[name] for name in sizes) for shape in shapes))

    def _mapping(self, key: str, default: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found = self._table.get(key, default)
        if found is None:
            raise self._wrong(Code.MISSING_KEY, f"[{key}] is missing")
        if not isinstance(found, dict) or not (found or default is not None):
            raise self._wrong(Code.WRONG_TYPE, f"[{key}] must be a table that is not empty")
        return dict(found)

    def _text(self, key: str, default: str | None = None) -> str:
        found = self._table.get(key, default)
        if found is None:
            raise self._wrong(Code.MISSING_KEY, f"`{key}` is missing")
        if not isinstance(found, str):
            raise self._wrong(Code.WRONG_TYPE, f"`{key}` must be text")
        return found

    def _integers(self, name: str, values: object) -> tuple[int, ...]:
        self._names([name])
        fits = isinstance(values, list) and all(type(value) is int and -_INT <= value < _INT for value in values)
        if not isinstance(values, list) or not values or not fits:
            raise self._wrong(Code.WRONG_TYPE, f"`{name}` in [space] must be a list of integers of 32 bits")
        return tuple(dict.fromkeys(values))

    def _names(self, names: Sequence[str]) -> None:
        for name in names:
            if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name in _taken():
                raise self._wrong(Code.BAD_NAME, f"`{name}` cannot be a name in the header")

    def _wrong(self, code: Code, message: str, advice: str = "") -> DriverError:
        return error(code, f"{self._path}: {message}", help=advice)
