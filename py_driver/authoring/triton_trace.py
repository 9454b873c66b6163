"""Records Triton's compiles during a command, in the form of aot.toml."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.manifest.ahead import AHEAD, TYPE, read_ahead
from py_driver.manifest.model import values
from py_driver.plan.triton_modules import Modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from py_driver.plan.project import Project
    from py_driver.plan.triton_modules import Parameter

RECORDER: Final = Path(__file__).resolve().parents[1] / "resources" / "triton_recorder"
"""The directory with the module that Python imports at its start."""

_USUAL: Final = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""The default options of a launch (CUDAOptions of Triton 3.9)."""


_ENDLESS: Final = (math.inf, -math.inf)
"""Constants that aot.toml does not support."""


class Call(NamedTuple):
    """A function with the types, constants and options that it was compiled for.

    Attributes:
        function: its name in the package, e.g. `kernels.forward`.
        signature: types by argument, as pairs.
        config: constants and options by name, as pairs.
    """

    function: str
    signature: tuple[tuple[str, str], ...]
    config: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]], frozenset[tuple[str, Any]]]:
        """Equal for calls with the same compile, regardless of order and defaults."""
        return self.function, frozenset(self.signature), frozenset({**_USUAL, **dict(self.config)}.items())


class Trace(NamedTuple):
    """A recording.

    Attributes:
        calls: the unique calls that aot.toml can list, in order.
        left: functions of the project with unsupported arguments, such as tuples, or with heuristics.
        others: the number of compiles of other packages' functions.
        tuned: functions whose configuration an autotuner has chosen; `calls` has only the chosen one.
    """

    calls: tuple[Call, ...]
    left: tuple[str, ...]
    others: int
    tuned: tuple[str, ...]


def recording(environ: Mapping[str, str], log: Path) -> dict[str, str]:
    """The variables with which a command records Triton's compiles, and with which Triton compiles everything.

    Args:
        environ: its variables.
        log: the file to write to.
    """
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(RECORDER), environ.get("PYTHONPATH", "")])),
        "RULES_TORCH_KERNELS_TRACE": str(log),
        "RULES_TORCH_KERNELS_TRITON": "jit",
    }


def read_trace(log: Path, project: Project) -> Trace:
    """The recording of a command.

    Args:
        log: the file that it wrote, which is missing if Triton compiled nothing.
        project: the project; a function belongs to it if its file has the text of one of the project's modules, in any
            directory.
    """
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    records = [json.loads(line) for line in lines]
    modules = Modules(project.manifest, project.python, project.directory)
    texts = {modules.text(module): module for module in modules.names}
    own: dict[str, str] = {}
    for file in {record["file"] for record in records}:
        path = Path(file)
        own[file] = texts.get(path.read_bytes(), "") if path.is_file() else ""
    calls: dict[Call, None] = {}
    left: dict[str, None] = {}
    chosen: dict[str, list[Mapping[str, Any]]] = {}
    decided: dict[str, None] = {}
    others = 0
    for record in records:
        module = own[record["file"]]
        function = f"{module}.{record['function']}"
        parameters = modules.parameters_of(function) if module else ()
        if not parameters:
            others += not record.keys() & {"chosen", "decided"}
        elif "decided" in record:
            decided[function] = None
        elif "chosen" in record:
            chosen.setdefault(function, []).append(record["chosen"])
        elif not modules.is_ambiguous(function) and (call := _call(function, parameters, record)):
            calls[call] = None
        else:
            left[function] = None
    kept = tuple(call for call in calls if call.function not in decided and _is_chosen(call, chosen.get(call.function)))
    tuned = tuple(function for function in chosen if function not in decided)
    return Trace(calls=kept, left=tuple({**left, **decided}), others=others, tuned=tuned)


def _call(function: str, parameters: Iterable[Parameter], record: Mapping[str, Any]) -> Call | None:
    """A compile in the form of aot.toml; None if that is not supported."""
    if record.get("unknown"):
        return None
    signature: dict[str, str] = {}
    config: dict[str, Any] = {}
    for name, is_constant, default, *_ in parameters:
        type_ = record["signature"].get(name)
        value = record["constants"].get(name)
        value = value["constexpr"] if isinstance(value, dict) and value.keys() == {"constexpr"} else value
        if is_constant:
            if not isinstance(value, bool | int | float | str | None) or value in _ENDLESS:
                return None
            if value is None and default != (None,):
                return None  # TOML has no null
            if value is not None:
                config[name] = value
            continue
        fixed = "None" if value is None else "1" if type(value) is int and value == 1 else ""
        text = fixed if type_ == "constexpr" else type_
        text = "*i1" if text == "*u1" else text  # the name in Triton 3.9
        text = f"{text}:16" if name in record["aligned"] else text
        if not isinstance(text, str) or not TYPE.fullmatch(text):
            return None
        signature[name] = text
    options = record["options"]
    config["num_warps"] = options["num_warps"]
    config |= {name: options[name] for name, usual in _USUAL.items() if options.get(name) not in (usual, None)}
    return Call(function, tuple(signature.items()), tuple(config.items()))


def _is_chosen(call: Call, chosen: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether an autotuner has chosen the configuration of a call, or there was no autotuner."""
    config = {**_USUAL, **dict(call.config)}
    return chosen is None or any(
        all(config.get(name) == value for name, value in own.items() if value is not None and name in config)
        for own in chosen
    )


def listed(project: Project) -> list[Call]:
    """The calls in the aot.toml of a project.

    Raises:
        DriverError: the errors of reading it.
    """
    path = project.directory / AHEAD
    if not path.is_file():
        return []
    ahead, _ = read_ahead(path.read_bytes(), str(path))
    return [
        Call(compiled.function.value, tuple(signature.values.items()), tuple(config.values.items()))
        for compiled in ahead.kernels
        for signature in compiled.signatures
        for config in compiled.configs
    ]


def ahead_text(calls: Iterable[Call], project: Project) -> str:
    """The text of an aot.toml with calls, and with the other settings of the project's own file.

    Raises:
        DriverError: the errors of reading that file.
    """
    lines = [f"# What Triton compiles ahead of time. Written by `driver trace`; {AHEAD} can be edited as well.", ""]
    lines += _head(project)
    tuned = _tuned(project)
    names: dict[str, int] = {}
    for function, configs, signatures in _tables(calls):
        name = function.rpartition(".")[2]
        names[name] = names.get(name, 0) + 1
        lines += [
            f"[kernel.{name if names[name] == 1 else f'{name}-{names[name]}'}]",
            f"function = {_toml(function)}",
            *_list("configs", configs),
            *_list("signatures", signatures),
            *([f"tuned = {_toml(tuned[function])}"] if function in tuned else []),
            "",
        ]
    return "\n".join(lines)


def _tuned(project: Project) -> dict[str, str]:
    """The directories with further configurations that the project's own file names, by function."""
    path = project.directory / AHEAD
    if not path.is_file():
        return {}
    ahead, _ = read_ahead(path.read_bytes(), str(path))
    return {compiled.function.value: compiled.tuned.value for compiled in ahead.kernels if compiled.tuned}


def _head(project: Project) -> Iterator[str]:
    """The top-level keys of the project's own file."""
    path = project.directory / AHEAD
    if not path.is_file():
        return
    ahead, _ = read_ahead(path.read_bytes(), str(path))
    found = {
        "triton": ahead.release.value if ahead.release else None,
        "capabilities": list(values(ahead.capabilities)) if ahead.capabilities is not None else None,
        "rocm-archs": list(values(ahead.rocm_archs)) if ahead.rocm_archs is not None else None,
        "strict": ahead.strict or None,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in found.items() if value is not None]
    yield from (*lines, "") if lines else ()


Pairs = tuple[tuple[str, Any], ...]


def _tables(calls: Iterable[Call]) -> Iterator[tuple[str, tuple[Pairs, ...], tuple[Pairs, ...]]]:
    """Functions with configurations and signatures, each of which is compiled with each."""
    found: dict[str, dict[Pairs, dict[Pairs, None]]] = {}
    for call in calls:
        found.setdefault(call.function, {}).setdefault(call.signature, {})[call.config] = None
    for function, signatures in found.items():
        same: dict[tuple[Pairs, ...], list[Pairs]] = {}
        for signature, configs in signatures.items():
            same.setdefault(tuple(configs), []).append(signature)
        for chosen, alike in same.items():
            yield function, chosen, tuple(alike)


def _list(key: str, tables: Iterable[Pairs]) -> list[str]:
    """A list of tables, one on each line."""
    shown = ["{ " + ", ".join(f"{name} = {_toml(value)}" for name, value in table) + " }" for table in tables]
    return [f"{key} = [", *(f"    {table}," for table in shown), "]"]


def _toml(value: object) -> str:
    """A plain value in TOML."""
    if isinstance(value, float) and not isinstance(value, bool):
        return repr(value)
    # TOML does not support JSON's escapes of letters beyond 16 bits, and requires an escape for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
