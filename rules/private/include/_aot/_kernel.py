"""A kernel that was compiled ahead of time: which machine code fits the arguments of a call."""

from __future__ import annotations

import functools
import importlib
import json
import os
import warnings
from typing import TYPE_CHECKING, Any

import torch

from ._cuda import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""The options of a launch and what Triton takes for CUDA where a call does not say (CUDAOptions of Triton 3.9)."""

_TYPES = {
    "bool": "i1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Triton's names of torch's types (triton/_utils.py)."""

_VARIABLE = "RULES_TORCH_KERNELS_TRITON"
_BOOLEANS = ("i1", "u1")


def _range(type_: str) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    bits = int(type_[1:])
    return (0, (1 << bits) - 1) if type_[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


_RANGES = [_range(f"{sign}{bits}") for sign in "iu" for bits in (8, 16, 32, 64)]


class _Absent:
    """What a constexpr has that a call does not name."""

    def __repr__(self) -> str:
        return "..."


_ABSENT = _Absent()


class Kernel:
    """A function of aot.toml; `kernel[grid](...)` launches it.

    Args:
        path: the function in the package, e.g. `kernels.forward`.
        index: of all that was compiled.
        directory: that has the machine code.
        package: the name of the Python package.
    """

    def __init__(self, path: str, index: Mapping[str, Any], directory: Path, package: str) -> None:
        self._path = path
        self._index = index
        self._directory = directory
        self._package = package
        self._parameters = index["functions"][path]["parameters"]
        self._requests = {name: request for name, request in index["requests"].items() if request["function"] == path}
        self._is_warned = False
        self._mode = os.environ.get(_VARIABLE, "")
        self._launch = self._make()

    def __getitem__(self, grid: object) -> functools.partial[None]:
        """The kernel with its grid: one to three numbers, or a function of the arguments that returns them."""
        return functools.partial(self._launch, grid)

    @functools.cached_property
    def jit(self) -> Any:  # noqa: ANN401  (Triton's)
        """Triton's own function, for `torch.library.wrap_triton` and whatever else asks for one."""
        module, _, name = self._path.rpartition(".")
        return getattr(importlib.import_module(f"{self._package}.{module}"), name)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """What Triton's own function has besides: `warmup`, `arg_names`, `configs`."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self.jit, name)
        except ImportError as problem:
            raise AttributeError(f"{name!r} of {self._path} is Triton's, which is not here: {problem}") from problem

    def _types(self, name: str) -> set[str]:
        """The types of an argument in all requests."""
        return {request["signature"].get(name, "None") for request in self._requests.values()}

    def _kind(self, name: str, *, is_constant: bool) -> str:
        """What an argument is: `constant`, `pointer`, `optional` (pointer), `integer`, `float`, or `any` of them."""
        types = self._types(name)
        if is_constant or types <= {"None"}:
            return "constant"
        pointers = {type_ for type_ in types if type_.startswith("*")}
        if pointers:
            return ("optional" if "None" in types else "pointer") if types <= {*pointers, "None"} else "any"
        floats = {type_ for type_ in types if type_.startswith("fp")}
        if floats or "None" in types:
            return "float" if types <= {*floats, "None"} else "any"
        return "integer"

    def _ranges(self, name: str) -> list[tuple[int, int]]:
        """The ranges of the integers that an argument may be."""
        types = sorted({type_.partition(":")[0] for type_ in self._types(name)})
        return [_range(type_) for type_ in types if type_[0] in "iu" and type_ not in _BOOLEANS]

    def _make(self) -> Any:  # noqa: ANN401
        """The function that launches, written for these parameters: it has few microseconds.

        What it has besides the parameters has the names `_aot_*`, which no parameter has.
        """
        words, lines, keys, values = [], [], ["_aot_device"], []
        defaults = {}
        names = [name for name, _, _ in self._parameters]
        for index, (name, is_constant, default) in enumerate(self._parameters):
            kind = self._kind(name, is_constant=is_constant)
            value = f"_aot_{index}" if kind in ("pointer", "optional", "any") else name
            # The default of a constant is not of the call: what tunes the kernel, or a heuristic, may choose another.
            defaults[f"_aot_default_{index}"] = default[0] if default and not is_constant else _ABSENT
            words.append(f"{name}=_aot_default_{index}")
            if kind == "pointer":
                lines.append(f"{value} = {name}.data_ptr()")
                keys += [f"{name}.dtype", f"{name}.is_cuda", f"not {value} & 15"]
            elif kind == "optional":
                lines.append(f"{value} = 0 if {name} is None else {name}.data_ptr()")
                keys += [f"None if {name} is None else ({name}.dtype, {name}.is_cuda)", f"not {value} & 15"]
            elif kind == "integer":
                keys += [f"{name}.__class__", f"2 if {name} == 1 else not {name} & 15"]
                keys += [f"{low} <= {name} <= {high}" for low, high in self._ranges(name)]
            elif kind == "float":
                keys.append(f"{name}.__class__")
            elif kind == "constant":
                # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
                keys += [f"{name}.__class__", f"{name}.hex() if {name}.__class__ is float else {name}"]
            else:
                lines.append(f"{value} = {name}.data_ptr() if hasattr({name}, 'data_ptr') else {name}")
                keys.append(f"_aot_special({name})")
            values.append(value)
        options = [name for name in _OPTIONS if name not in names]
        keys += options
        arguments = "{" + ", ".join(f"{name!r}: {name}" for name in names) + "}"
        chosen = "{" + ", ".join(f"{name!r}: {name}" for name in options) + "}"
        text = f"""
def launch(_aot_grid, /, {", ".join([*words, *(f"{name}=None" for name in options)])}, **_aot_others):
    _aot_device = _aot_current_device()
    try:
        {"; ".join(lines) or "pass"}
        _aot_key = ({", ".join(keys)},)
        _aot_found = _aot_known.get(_aot_key)
    except (AttributeError, TypeError):
        return _aot_fall_back(_aot_grid, {arguments}, {chosen} | _aot_others, "an argument of another kind")
    if _aot_found is None:
        _aot_found = _aot_known[_aot_key] = _aot_find(_aot_device, {arguments}, {chosen})
    if _aot_others or _aot_found.__class__ is str:
        return _aot_fall_back(_aot_grid, {arguments}, {chosen} | _aot_others, _aot_found)
    _aot_start, _aot_constants = _aot_found
    if _aot_grid.__class__ is not tuple:
        _aot_grid = tuple(_aot_grid({arguments} | _aot_constants)) if callable(_aot_grid) else tuple(_aot_grid)
    _aot_start(_aot_grid, _aot_current_stream(_aot_device), {", ".join(values)})
"""
        scope = {
            **defaults,
            "_aot_current_device": torch._C._cuda_getDevice,  # noqa: SLF001  (what Triton calls too)
            "_aot_current_stream": torch._C._cuda_getCurrentRawStream,  # noqa: SLF001
            "_aot_fall_back": self._fall_back,
            "_aot_find": self._find,
            "_aot_known": {},
            "_aot_special": self._special,
        }
        exec(text, scope)  # noqa: S102  (names of parameters)
        return scope["launch"]

    @staticmethod
    def _special(value: Any) -> object:  # noqa: ANN401
        """All that decides which code fits an argument that may be of several kinds."""
        if type(value) is int:
            return 2 if value == 1 else not value & 15, *(low <= value <= high for low, high in _RANGES)
        if hasattr(value, "data_ptr"):
            return value.dtype, value.is_cuda, not value.data_ptr() & 15
        return value.__class__

    def _find(self, device: int, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """What launches a call's code, loaded on its device, and the constants of the code; or why there is none."""
        if self._mode == "jit":
            return f"{_VARIABLE} is jit"
        arch = self._arch(device)
        if not arch:
            return "no code for this GPU"
        about = self._facts(next(iter(self._requests)), arch)
        options = {name: _given(arguments.get(name, options.get(name))) for name in _OPTIONS}
        is_open = (
            about["tuned"] is not None
            and all(value is None for value in options.values())
            and all(arguments[name] is _ABSENT for name in about["tuned"] if name in arguments)
        )
        if reason := self._reserved(about, {**options, **arguments}, is_open=is_open):
            return reason
        tuned = (*about["tuned"], *_OPTIONS) if is_open else ()
        fitting = {
            name: float(value) if name in about["floats"] and type(value) is int else value
            for name, value in arguments.items()
        }
        ranked = [
            (rank, name)
            for name, request in self._requests.items()
            for rank in [self._rank(request, fitting, options, tuned, about["defaults"])]
            if rank is not None
        ]
        if not ranked:
            return f"no code for ({', '.join(_shown(name, value) for name, value in arguments.items())})"
        name = max(ranked, key=lambda pair: pair[0])[1]
        code = (self._directory / f"{name}.{arch}.cubin").read_bytes()
        start = load(device, code, self._facts(name, arch), [parameter[0] for parameter in self._parameters])
        return start if isinstance(start, str) else (start, self._constants(self._requests[name], about["defaults"]))

    @staticmethod
    def _reserved(about: Mapping[str, Any], passed: Mapping[str, Any], *, is_open: bool) -> str:
        """Why only Triton can launch a call; empty if compiled code can.

        Args:
            about: the facts of the function.
            passed: the arguments and options of the call.
            is_open: whether the call leaves the configuration to the autotuner.
        """
        for name in about["heuristics"]:
            if passed.get(name) in (None, _ABSENT):
                return f"a heuristic chooses `{name}`, in Triton alone; pass a value"
        if about["hook"] or (is_open and about["config_hook"]):
            return "a hook is called before each launch, by Triton"
        if is_open and about["pruned"]:
            return "a function excludes configurations, in Triton alone; pass a configuration"
        if is_open and about["others"]:
            return f"the configurations have `{about['others'][0]}`, which aot.toml does not support"
        return ""

    def _facts(self, name: str, arch: str) -> Any:  # noqa: ANN401  (JSON)
        """What the compile says of some code."""
        return json.loads((self._directory / f"{name}.{arch}.json").read_text(encoding="utf-8"))

    def _constants(self, request: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        """The constants of a request, also those that are defaults.

        Args:
            request: one of the index.
            known: the defaults that the compile has found.
        """
        defaults = {name: default[0] for name, is_constant, default in self._parameters if is_constant and default}
        return {**known, **defaults, **request["constants"]}

    def _arch(self, device: int) -> str:
        """What was compiled that runs on a device; empty if nothing does."""
        if self._index["backend"] != "cuda" or torch.version.cuda is None:
            return ""
        major, minor = torch.cuda.get_device_capability(device)
        known: list[str] = self._index["archs"]
        if f"{major}.{minor}" in known or major >= 9:  # noqa: PLR2004  (from there on Triton uses features of one alone)
            return f"{major}.{minor}" if f"{major}.{minor}" in known else ""
        return max((arch for arch in known if arch.startswith(f"{major}.") and int(arch[2:]) <= minor), default="")

    def _rank(
        self,
        request: Mapping[str, Any],
        arguments: Mapping[str, Any],
        options: Mapping[str, Any],
        tuned: Sequence[str],
        known: Mapping[str, Any],
    ) -> int | None:
        """How many specialisations of a request fit; None if the request does not.

        Args:
            request: one of the index.
            arguments: of the call.
            options: of the call.
            tuned: constants and options that the call leaves to whoever tuned the kernel: any value fits.
            known: the defaults of constants that the compile has found.
        """
        for name, default in _OPTIONS.items():
            wanted = default if options[name] is None else options[name]
            if name not in tuned and request["options"].get(name, default) != wanted:
                return None
        rank = 0
        constants = self._constants(request, known)
        for name, is_constant, default in self._parameters:
            value = arguments[name]
            if is_constant:
                if value is _ABSENT and name not in tuned:
                    # A default that is no plain value is in the code of requests that do not say a value.
                    value = default[0] if default else known.get(name, _ABSENT)
                    if value is _ABSENT and name in request["constants"]:
                        return None
                fixed = constants.get(name)
                # By their texts, since 0.0 and -0.0 are equal.
                if value is not _ABSENT and (type(value) is not type(fixed) or repr(value) != repr(fixed)):
                    return None
                continue
            found = _fits(value, request["signature"][name])
            if found is None:
                return None
            rank += found
        return rank

    def _fall_back(
        self, grid: object, arguments: Mapping[str, Any], options: Mapping[str, Any], reason: object
    ) -> object:
        """Launch by Triton."""
        others = ", ".join(name for name in options if name not in _OPTIONS)
        why = reason if isinstance(reason, str) else f"options that aot.toml does not support: {others}"
        about = f"{self._path}: {why}"
        if self._mode == "strict" or (self._index["strict"] and self._mode != "jit"):
            raise RuntimeError(f"{about}; add it to aot.toml, or leave it to Triton by {_VARIABLE}=jit")
        try:
            function = self.jit
        except ImportError as problem:
            raise RuntimeError(f"{about}; and Triton cannot compile it here: {problem}") from problem
        if not self._is_warned and self._mode != "jit":
            self._is_warned = True
            warnings.warn(f"{about}: Triton compiles it now", RuntimeWarning, stacklevel=3)
        chosen = {name: value for name, value in options.items() if value is not None or name not in _OPTIONS}
        named = {name: value for name, value in arguments.items() if value is not _ABSENT}
        # By position what mostly is: functions that prune configurations find those arguments by name.
        placed = []
        for name, is_constant, _ in self._parameters:
            if is_constant or name not in named:
                break
            placed.append(named.pop(name))
        while any(name in named for config in getattr(function, "configs", ()) for name in config.kwargs):
            function = function.fn  # the call has a configuration, which Triton's autotuner refuses
        return function[grid](*placed, **named, **chosen)


def _given(value: Any) -> Any:  # noqa: ANN401
    """An option of a call; None if the call leaves it open."""
    return None if value is _ABSENT else value


def _fits(value: Any, type_: str) -> int | None:  # noqa: ANN401, PLR0911  (a case for each kind of argument)
    """How much of a type is special and fits an argument: 0 to 1; None if it does not fit."""
    if value is None or type_ == "None":
        return 1 if value is None and type_ == "None" else None
    plain, _, special = type_.partition(":")
    if plain.startswith("*"):
        # The driver would take an address of the host for one of the GPU; Triton says what is wrong.
        if not getattr(value, "is_cuda", False) or plain[1:] != _TYPES.get(
            str(getattr(value, "dtype", "")).removeprefix("torch.")
        ):
            return None
        return _aligned(value.data_ptr(), special)
    if isinstance(value, bool | float):
        return 0 if plain in (_BOOLEANS if isinstance(value, bool) else ("fp32", "fp64")) else None
    if type(value) is not int or plain in (*_BOOLEANS, "fp32", "fp64"):
        return None
    if type_ == "1":
        return 1 if value == 1 else None
    low, high = _range(plain)
    return _aligned(value, special) if low <= value <= high else None


def _aligned(number: int, special: str) -> int | None:
    """1 if a type is for numbers divisible by 16 and this is one, 0 if it is for all."""
    if not special:
        return 0
    return 1 if not number % int(special) else None


def _shown(name: str, value: Any) -> str:  # noqa: ANN401
    """An argument as aot.toml spells it."""
    if value is None or isinstance(value, bool | str | float | _Absent):
        return f"{name} = {value}"
    if hasattr(value, "data_ptr"):
        type_ = str(value.dtype).removeprefix("torch.")
        place = "" if getattr(value, "is_cuda", False) else " on no GPU"
        return f"{name}: *{_TYPES.get(type_, type_)}{'' if value.data_ptr() % 16 else ':16'}{place}"
    return f"{name} = {value}"
