"""aot.toml, beside build.toml: the functions in Triton that are compiled ahead of time, and their argument types.

It is a separate file, since upstream's parser rejects unknown keys and languages of build.toml, but accepts further
files in a project.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.errors import Code
from py_driver.manifest.keys import Key, Kind, Table
from py_driver.manifest.model import CURRENT
from py_driver.manifest.section import Findings, Section, kind
from py_driver.manifest.text import parse
from py_driver.matrix.backends.cuda import CAPABILITY
from py_driver.matrix.backends.rocm import GFX
from py_driver.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_driver.errors import Span
    from py_driver.manifest.locate import KeyPath
    from py_driver.manifest.model import Text, Texts

AHEAD = "aot.toml"
"""The name of the file."""

FAMILIES = ("cuda", "rocm")
"""The backends that Triton compiles for."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""The keys of a configuration that are not constants of the function, as in `triton.Config`."""

TYPE = re.compile(
    r"\*(?:i1|[iu](?:8|16|32|64)|fp(?:16|32|64)|bf16|fp8(?:e4nv|e4b8|e4b15|e5|e5b16))(?::16)?"
    r"|[iu](?:8|16|32|64)(?::16)?|[iu]1|fp(?:32|64)|1|None",
    re.ASCII,
)
"""The type of an argument: a pointer or a number as Triton spells it, followed by `:16` if it is divisible by 16; `1`;
`None`."""

_FUNCTION = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+"
_TOP = Table(
    path="",
    doc="The functions in Triton that are compiled ahead of time.",
    keys=(
        Key(
            name="triton",
            kind=Kind.VERSION,
            doc="The release of Triton that compiles; by default the newest one of the toolchains.",
            example='"3.9"',
        ),
        Key(
            name="capabilities",
            kind=Kind.TEXTS,
            pattern=CAPABILITY,
            noun="a CUDA capability",
            doc="The CUDA capabilities to compile for. From 9.0 on, code runs on that capability alone.",
            example='["8.0", "9.0"]',
        ),
        Key(
            name="rocm-archs",
            kind=Kind.TEXTS,
            pattern=GFX,
            noun="an AMD architecture",
            doc="The AMD architectures to compile for; none by default.",
            example='["gfx942"]',
        ),
        Key(
            name="strict",
            kind=Kind.BOOLEAN,
            doc="Whether a call without a compiled function is an error; otherwise Triton compiles it, with a warning.",
            example="true",
        ),
        Key(name="kernel", kind=Kind.TABLE, doc="The functions, by a name for messages.", required=0),
    ),
)
_KERNEL = Table(
    path="kernel.*",
    doc="A function and the calls that it is compiled for: each signature with each configuration.",
    keys=(
        Key(
            name="function",
            kind=Kind.TEXT,
            required=0,
            pattern=_FUNCTION,
            noun="a module and a function",
            doc="The module in the Python package, and the function in it.",
            example='"kernels.forward"',
        ),
        Key(
            name="signatures",
            kind=Kind.TABLES,
            required=0,
            doc="The types of the arguments, by name.",
            example='[{ out = "*fp16:16", x = "*fp16:16", count = "i32" }]',
        ),
        Key(
            name="configs",
            kind=Kind.TABLES,
            doc="Values of constants, and `num_warps`, `num_stages`, `num_ctas` and `maxnreg`, as of `triton.Config`.",
            example="[{ BLOCK = 1024, num_warps = 4 }]",
        ),
        Key(
            name="tuned",
            kind=Kind.TEXT,
            doc="A directory with files of `driver tune --apply`, whose configurations are compiled too.",
            example='"torch-ext/swiglu/configs"',
        ),
    ),
)
TABLES = (_TOP, _KERNEL)
"""The tables of the file, for the reference page."""


class Values(NamedTuple):
    """Names with values and their positions.

    Attributes:
        values: the values, by name.
        spans: the position of each value.
        span: the position of all.
    """

    values: Mapping[str, Any]
    spans: Mapping[str, Span]
    span: Span


class Compiled(NamedTuple):
    """A `[kernel.NAME]` of aot.toml.

    Attributes:
        title: its header.
        function: the module and the function.
        signatures: types, by argument.
        configs: constants and options.
        tuned: a directory with further configurations, relative to the project, which need not exist.
    """

    title: str
    function: Text
    signatures: tuple[Values, ...]
    configs: tuple[Values, ...]
    tuned: Text | None = None


class Ahead(NamedTuple):
    """An aot.toml.

    Attributes:
        release: the release of Triton, e.g. `3.9`; None for the newest.
        capabilities: the CUDA capabilities; None for the default.
        rocm_archs: the AMD architectures; None for the default.
        strict: whether a call without a compiled function is an error.
        kernels: the functions to compile.
    """

    release: Text | None
    capabilities: Texts | None
    rocm_archs: Texts | None
    strict: bool
    kernels: tuple[Compiled, ...]


def read_ahead(content: bytes, file: str) -> tuple[Ahead, Findings]:
    """Read an aot.toml.

    Args:
        content: its bytes.
        file: its path as the user knows it.

    Returns:
        Its content, and its errors so far: UNKNOWN_KEY, MISSING_KEY, WRONG_TYPE, BAD_VALUE.

    Raises:
        DriverError: TOML_SYNTAX, TOML_LIMIT.
    """
    table, locations, source = parse(content, file)
    findings = Findings(locations, source.span(0, 1))
    top = Section(findings, (), table, _TOP, CURRENT)
    release = top.text("triton")
    kernels = tuple(_kernels(top, table, findings))
    top.finish()
    ahead = Ahead(
        release=release,
        capabilities=top.texts("capabilities"),
        rocm_archs=top.texts("rocm-archs"),
        strict=bool(top.boolean("strict")),
        kernels=kernels,
    )
    return ahead, findings


def _kernels(top: Section, table: Mapping[str, Any], findings: Findings) -> Iterator[Compiled]:
    """The content of the `[kernel.NAME]` tables."""
    found = table.get("kernel")
    if not isinstance(found, dict) or not found:
        advice = "add [kernel.NAME] with `function` and `signatures`, or record them with `driver trace`"
        findings.add(Code.MISSING_KEY, "there is no [kernel.NAME] table", findings.value(("kernel",)), advice=advice)
        return
    for name, values in found.items():
        path = ("kernel", name)
        if not isinstance(values, dict):
            message = f"`{name}` in [kernel] must be a table, not {kind(values)}"
            findings.add(Code.WRONG_TYPE, message, findings.value(path), advice=f"write [kernel.{name}]")
            continue
        section = Section(findings, path, values, _KERNEL, top.edition)
        function = section.text("function")
        signatures = tuple(_tables(section, "signatures", values, findings))
        configs = tuple(_tables(section, "configs", values, findings)) or (_nothing(section),)
        tuned = section.text("tuned")
        section.finish()
        for signature in signatures:
            _check_types(signature, section, findings)
        for config in configs:
            _check_config(config, section, findings)
        if "signatures" not in values:
            advice = 'add `signatures`: the types of the arguments, e.g. [{ out = "*fp16:16", count = "i32" }]'
            findings.add(Code.MISSING_KEY, f"{section.title} has no `signatures`", section.span, advice=advice)
        if function and signatures:
            yield Compiled(section.title, function, signatures, configs, tuned)


def _nothing(section: Section) -> Values:
    return Values({}, {}, section.span)


def _tables(section: Section, key: str, values: Mapping[str, Any], findings: Findings) -> Iterator[Values]:
    """The tables of a list."""
    found = values.get(key, [])
    path: KeyPath = (*section.path, key)
    if not isinstance(found, list) or (key in values and not found):
        wrong = "an empty list" if found == [] else kind(found)
        message = f"{section.where(key)} must be a list of tables that is not empty, not {wrong}"
        findings.add(Code.WRONG_TYPE, message, findings.value(path))
        return
    for index, entry in enumerate(found):
        span = findings.value((*path, index))
        if not isinstance(entry, dict):
            message = f"{section.where(key)} must be a list of tables; this is {kind(entry)}"
            findings.add(Code.WRONG_TYPE, message, span)
            continue
        yield Values(entry, {name: findings.value((*path, index, name)) for name in entry}, span)


def _check_types(signature: Values, section: Section, findings: Findings) -> None:
    """Collect an error for each invalid type."""
    for name, value in signature.values.items():
        if not isinstance(value, str):
            message = f"the type of `{name}` in {section.title} must be a string, not {kind(value)}"
            findings.add(Code.WRONG_TYPE, message, signature.spans[name])
        elif not TYPE.fullmatch(value):
            message = f"`{value}` is not a type of Triton for the argument `{name}`"
            advice = (
                'write a pointer like "*fp16", a number like "i32", "1" or "None"; behind one divisible by 16 ":16"'
            )
            findings.add(Code.BAD_VALUE, message, signature.spans[name], advice=advice)


def _check_config(config: Values, section: Section, findings: Findings) -> None:
    """Collect an error for each invalid value of a configuration."""
    for name, value in config.values.items():
        wanted = int if name in OPTIONS else (bool, int, float, str)
        if not isinstance(value, wanted) or (name in OPTIONS and (isinstance(value, bool) or value < 1)):
            what = "a positive integer" if name in OPTIONS else "a boolean, a number or a string"
            wrong = str(value) if type(value) is int else kind(value)
            message = f"`{name}` of `configs` in {section.title} must be {what}, not {wrong}"
            findings.add(Code.WRONG_TYPE, message, config.spans[name])
        elif isinstance(value, float) and not math.isfinite(value):
            message = f"`{name}` of `configs` in {section.title} must be a finite number, not {value}"
            advice = "write the value into the module, as a global `tl.constexpr`"
            findings.add(Code.BAD_VALUE, message, config.spans[name], advice=advice)


def check_names(compiled: Compiled, parameters: Mapping[str, bool], findings: Findings) -> None:
    """Collect an error for each argument that a function does not have, and for each that is missing.

    Args:
        compiled: the function's table in aot.toml.
        parameters: the function's parameters, each with whether it has a default or may be omitted.
        findings: gets UNKNOWN_KEY and MISSING_KEY.
    """
    unknown = set()
    for is_config, tables in ((False, compiled.signatures), (True, compiled.configs)):
        known = (*parameters, *(OPTIONS if is_config else ()))
        for values in tables:
            for name in values.values:
                if name not in known:
                    message = f"`{compiled.function.value}` has no argument `{name}`"
                    label = did_you_mean(name, known)
                    findings.add(Code.UNKNOWN_KEY, message, values.spans[name], label=label)
                    unknown.add(nearest(name, known))
    for signature in compiled.signatures:
        missing = [
            name
            for name, is_optional in parameters.items()
            if not is_optional
            and name not in unknown | signature.values.keys()
            and any(name not in config.values for config in compiled.configs)
        ]
        if missing:
            message = f"{compiled.title} has no type or value for `{'`, `'.join(missing)}`"
            advice = "add a type to `signatures`, or a value of a constexpr to `configs`"
            findings.add(Code.MISSING_KEY, message, signature.span, advice=advice)
