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
    from collections.abc import Mapping
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
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


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

    def _kinds(self) -> dict[str, str]:
        """What each argument is: `constant`, `pointer`, `optional` (pointer), `integer` or `float`."""
        found = {}
        for name, is_constant, _ in self._parameters:
            types = {request["signature"].get(name, "constant") for request in self._requests.values()}
            if is_constant:
                found[name] = "constant"
            elif any(type_.startswith("*") for type_ in types):
                found[name] = "optional" if "None" in types else "pointer"
            elif any(type_.startswith("fp") for type_ in types):
                found[name] = "float"
            else:
                found[name] = "constant" if types == {"None"} else "integer"
        return found

    def _make(self) -> Any:  # noqa: ANN401
        """The function that launches, written for these parameters: it has few microseconds."""
        kinds = self._kinds()
        names = list(kinds)
        words, lines, keys, values = [], [], ["device"], []
        defaults = {}
        for name, _, default in self._parameters:
            if default or kinds[name] == "constant":
                defaults[f"default_{name}"] = default[0] if default else _ABSENT
                words.append(f"{name}=default_{name}")
            else:
                words.append(f"{name}=default_" if words and "=" in words[-1] else name)
        for index, (name, kind) in enumerate(kinds.items()):
            value = f"value{index}" if kind in ("pointer", "optional") else name
            if kind == "pointer":
                lines.append(f"{value} = {name}.data_ptr()")
                keys += [f"{name}.dtype", f"{name}.is_cuda", f"not {value} & 15"]
            elif kind == "optional":
                lines.append(f"{value} = 0 if {name} is None else {name}.data_ptr()")
                keys += [f"None if {name} is None else ({name}.dtype, {name}.is_cuda)", f"not {value} & 15"]
            elif kind == "integer":
                keys += [
                    f"{name}.__class__",
                    f"2 if {name} == 1 else not {name} & 15",
                    f"{_LEAST} <= {name} <= {_MOST}",
                ]
            else:
                keys.append(f"{name}.__class__" if kind == "float" else name)
            values.append(value)
        options = list(_OPTIONS)
        keys += options
        arguments = "{" + ", ".join(f"{name!r}: {name}" for name in names) + "}"
        chosen = "{" + ", ".join(f"{name!r}: {name}" for name in options) + "}"
        text = f"""
def launch(grid, {", ".join([*words, *(f"{name}=None" for name in options)])}, **others):
    device = current_device()
    try:
        {"; ".join(lines) or "pass"}
        key = ({", ".join(keys)},)
        start = known.get(key)
    except (AttributeError, TypeError):
        return fall_back(grid, {arguments}, {chosen} | others, "an argument of another kind")
    if start is None:
        start = known[key] = find(device, {arguments}, {chosen})
    if others or start.__class__ is str:
        return fall_back(grid, {arguments}, {chosen} | others, start)
    if grid.__class__ is not tuple:
        grid = tuple(grid({arguments})) if callable(grid) else tuple(grid)
    start(grid, current_stream(device), {", ".join(values)})
"""
        scope = {
            **defaults,
            "default_": _ABSENT,
            "current_device": torch._C._cuda_getDevice,  # noqa: SLF001  (what Triton calls too)
            "current_stream": torch._C._cuda_getCurrentRawStream,  # noqa: SLF001
            "fall_back": self._fall_back,
            "find": self._find,
            "known": {},
        }
        exec(text, scope)  # noqa: S102  (names of parameters)
        return scope["launch"]

    def _find(self, device: int, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """What launches a call's machine code, on the device where it is loaded now; or why there is none."""
        if self._mode == "jit":
            return f"{_VARIABLE} is jit"
        arch = self._arch(device)
        if not arch:
            return "no code for this GPU"
        ranked = [
            (rank, name)
            for name, request in self._requests.items()
            for rank in [self._rank(request, arguments, options)]
            if rank is not None
        ]
        if not ranked:
            return f"no code for ({', '.join(_shown(name, value) for name, value in arguments.items())})"
        name = max(ranked, key=lambda pair: pair[0])[1]
        facts = json.loads((self._directory / f"{name}.{arch}.json").read_text(encoding="utf-8"))
        code = (self._directory / f"{name}.{arch}.cubin").read_bytes()
        return load(device, code, facts, [parameter[0] for parameter in self._parameters])

    def _arch(self, device: int) -> str:
        """What was compiled that runs on a device; empty if nothing does."""
        if self._index["backend"] != "cuda" or torch.version.cuda is None:
            return ""
        major, minor = torch.cuda.get_device_capability(device)
        known: list[str] = self._index["archs"]
        if f"{major}.{minor}" in known or major >= 9:  # noqa: PLR2004  (from there on Triton uses features of one alone)
            return f"{major}.{minor}" if f"{major}.{minor}" in known else ""
        return max((arch for arch in known if arch.startswith(f"{major}.") and int(arch[2:]) <= minor), default="")

    def _rank(self, request: Mapping[str, Any], arguments: Mapping[str, Any], options: Mapping[str, Any]) -> int | None:
        """How many specialisations of a request fit; None if the request does not."""
        for name, default in _OPTIONS.items():
            asked = request["options"].get(name, default)
            if asked != (default if options[name] is None else options[name]) and not self._is_open(arguments, options):
                return None
        rank = 0
        for name, is_constant, default in self._parameters:
            value = arguments[name]
            if is_constant:
                fixed = request["constants"].get(name, default[0] if default else None)
                if value is not _ABSENT and (value != fixed or type(value) is not type(fixed)):
                    return None
                continue
            found = _fits(value, request["signature"][name])
            if found is None:
                return None
            rank += found
        return rank

    def _is_open(self, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
        """Whether a call leaves its configuration to whoever tuned the kernel: the first one listed is taken."""
        is_absent = any(value is _ABSENT for value in arguments.values())
        return is_absent and all(value is None for value in options.values())

    def _fall_back(
        self, grid: object, arguments: Mapping[str, Any], options: Mapping[str, Any], reason: object
    ) -> object:
        """Launch by Triton."""
        why = reason if isinstance(reason, str) else f"the options {', '.join(options)}"
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
        while any(name in named for config in getattr(function, "configs", ()) for name in config.kwargs):
            function = function.fn  # the call has a configuration, which Triton's autotuner refuses
        return function[grid](**named, **chosen)


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
        return 0 if plain in (("u1", "i1") if isinstance(value, bool) else ("fp32", "fp64")) else None
    if type(value) is not int or plain in ("u1", "i1", "fp32", "fp64"):
        return None
    if type_ == "1":
        return 1 if value == 1 else None
    bits = int(plain[1:])
    low, high = (0, (1 << bits) - 1) if plain[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
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
