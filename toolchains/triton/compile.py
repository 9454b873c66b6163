"""Compile a Triton function for one architecture, ahead of time: an action runs this with a hermetic Python.

    python3 -I -S -B compile.py SITE REQUEST OUT [-f NAME SHOWN FILE]...

SITE is the directory with the package `triton`. REQUEST is JSON: `package`, e.g. `swiglu`, and `function` in it, e.g.
`kernels.forward`; `signature`, the type of each argument as rules/private/triton.bzl describes it; `constants` and
`options` of Triton; `backend` and `arch`. Each FILE is a module of the kernel's Python package with its NAME in the
package, e.g. `swiglu/kernels.py`; debuggers and profilers see it as SHOWN. The outputs are OUT, the machine code,
OUT.json, the facts that a launcher needs, and OUT.txt, the PTX or AMD's assembly.

The module is imported without torch, and without the `__init__.py` of its package: see stand_ins.py.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import shutil
import sys
import traceback
from importlib.metadata import Distribution
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  (no links: an action's own file)
from stand_ins import StandIns
from surroundings import Variables, Watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_ALIGNED = ":16"
"""The suffix of a type whose argument is divisible by 16."""

_FIXED = {"1": 1, "None": None}
"""The argument values that Triton compiles in, by their spelling in a signature."""

_WAVE64 = "gfx9"
"""Prefixes of the AMD architectures with 64 lanes (triton.backends.amd.driver)."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""The address in Python's representation of an object."""

_PTX_ENTRY = re.compile(r"\.entry\s+[\w$]+\s*\(([^)]*)\)")
"""The parameters of a kernel in PTX: besides the function's, Triton adds pointers to its own memory."""

_TEXTS = {"cuda": ("cubin", "ptx"), "hip": ("hsaco", "amdgcn")}
"""Triton's names of the machine code and its text, by backend."""


_FLOATS = ("fp32", "fp64")
"""Annotations of arguments for which Triton accepts an integer."""

_LISTED = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""The options of a configuration that a request may have."""

_VALUES = ("1", "0")
"""Values of environment variables with which a module is read, to detect dependencies on them."""

_WATCH = Watch()


class DependsError(Exception):
    """The compiled code would depend on something outside of the kernel's modules.

    Args:
        message: the dependency.
        name: its name in the source; empty for the module.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class _Files(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the kernel's own modules from the files of the action, under paths that are the same everywhere."""

    def __init__(self, files: Mapping[str, tuple[str, Path]], stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        modules = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
        self._files = {module: files[name] for name, module in modules.items()}
        self._packages = {module for name, module in modules.items() if name.endswith("/__init__.py")}
        self._packages |= {
            ".".join(module.split(".")[:end]) for module in self._files for end in range(1, module.count(".") + 1)
        }
        self._present = {name: name in self._files for name in (*self._files, *self._packages)}

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The location of a module; None if it does not belong to the kernel."""
        if fullname in self._files:
            origin, is_package = self._files[fullname][0], fullname in self._packages
            return importlib.machinery.ModuleSpec(fullname, self, origin=origin, is_package=is_package)
        if fullname in self._packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """A stand-in for a package without `__init__`."""
        return None if spec.name in self._files else self._stand_ins.package(spec.name, self._present)

    def get_source(self, fullname: str) -> str:
        """The text of a module; a package is empty."""
        return decode_source(self._files[fullname][1].read_bytes()) if fullname in self._files else ""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module under the path that is shown of its file."""
        name = module.__name__
        if name not in self._files:
            return
        module.__file__ = self._files[name][0]
        self._stand_ins.run(self.get_source(name), module.__file__, module, self._present)


def _types(function: Any, request: Mapping[str, Any]) -> tuple[dict[str, str], dict[tuple[int], Any], dict[Any, Any]]:  # noqa: ANN401
    """The signature, the constants and the attributes of the arguments, in Triton's form."""
    types: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[Any, Any] = {}
    for index, parameter in enumerate(function.params):
        name = parameter.name
        text = request["signature"].get(name)
        if text is None or text in _FIXED:
            types[name] = "constexpr"
            constants[index,] = _FIXED[text] if text else request["constants"].get(name, parameter.default)
            continue
        types[name] = text.removesuffix(_ALIGNED)
        if text.endswith(_ALIGNED):
            attributes[index,] = [["tt.divisibility", 16]]
    return types, constants, attributes


def _function(name: str) -> tuple[Any, dict[str, Any]]:
    """The JIT function of a name without its decorators, and the facts about them that a launcher needs.

    Raises:
        DependsError: the name is not a JIT function.
    """
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    about: dict[str, Any] = {"config_hook": False, "heuristics": [], "hook": False, "pruned": False, "tuned": None}
    while not hasattr(found, "params"):
        if hasattr(found, "configs"):
            names = {name for config in found.configs for name in config.kwargs}
            names |= {"ir_override" for config in found.configs if getattr(config, "ir_override", None)}
            about["tuned"] = sorted({*names, *(about["tuned"] or [])})
            about["config_hook"] |= any(config.pre_hook for config in found.configs)
            about["pruned"] |= bool(getattr(found, "early_config_prune", None))
        elif isinstance(getattr(found, "values", None), dict):
            about["heuristics"] += found.values
        if not hasattr(found, "fn"):
            message = f"`{attribute}` is not a function of `triton.jit`: its decorator returns {type(found).__name__}"
            raise DependsError(message, attribute)
        found = found.fn
    others = {*(about["tuned"] or [])} - {parameter.name for parameter in found.params} - {*_LISTED}
    about["others"] = sorted(others)
    about["hook"] = bool(getattr(found, "pre_run_hooks", None))
    return found, about


def _read(
    request: Mapping[str, Any],
    modules: Mapping[str, tuple[str, Path]],
    *,
    answer: bool,
    variable: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The requested function, with stand-ins of one truth value for unknown parts of other packages.

    Args:
        request: REQUEST, see the top.
        modules: the path that is shown and the file of each module, by its name.
        answer: the truth value.
        variable: the value of all environment variables that the modules read; None if they are unset.

    Raises:
        DependsError: see `_function`; the modules read files, or run programs, while they are imported.
    """
    stand_ins = StandIns(request["backend"], request["arch"], request["package"], answer=answer)
    finders = [_Files(modules, stand_ins), stand_ins]
    before = {*sys.modules}
    environ, os.environ = os.environ, Variables(os.environ, finders[0], variable)  # type: ignore[assignment]
    sys.meta_path.insert(0, finders[0])
    sys.meta_path.append(finders[1])
    from_name, Distribution.from_name = Distribution.from_name, stand_ins.distribution  # type: ignore[method-assign]
    try:
        with _WATCH.watching([str(file) for pair in modules.values() for file in pair]) as touched:
            found = _function(request["function"])
        touched += stand_ins.dynamic
        if touched:
            message = f"a module of the kernel {touched[0]} while it is imported, and the result is no part of its text"
            raise DependsError(f"{message}; write what it needs into a module, or pass it as a constexpr")
        return found
    finally:
        os.environ = environ  # noqa: B003  (what it was)
        Distribution.from_name = from_name  # type: ignore[method-assign]
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in {*sys.modules} - before:
            if name.partition(".")[0] != "triton":
                del sys.modules[name]


def _seen(function: Any) -> dict[str, str]:  # noqa: ANN401  (Triton's)
    """Triton's inputs besides the arguments: the text of the function and of its callees, and values."""
    key = function.cache_key
    values = {name: value for (name, _), (value, _) in function.used_global_vals.items()}
    values |= {known.name: known.default for known in function.params if known.has_default}
    return {**{name: _ADDRESS.sub("", repr(value)) for name, value in values.items()}, "": key}


def _certain(request: Mapping[str, Any], modules: Mapping[str, tuple[str, Path]]) -> tuple[Any, dict[str, Any]]:
    """The requested function, which does not depend on other packages, and the facts that a launcher needs.

    Raises:
        DependsError: it depends on them; see `_read`.
    """
    function, about = _read(request, modules, answer=False)
    own = _seen(function)
    try:
        other = _seen(_read(request, modules, answer=True)[0])
    except DependsError:
        raise
    except Exception as problem:
        message = f"whether the module can be read depends on another package, which is absent now: {problem}"
        raise DependsError(message) from problem
    _same(request, own, other, "another package, which is absent when it is compiled")
    for value in _VALUES:
        # A value that the module rejects proves nothing.
        with contextlib.suppress(Exception):
            other = _seen(_read(request, modules, answer=False, variable=value)[0])
        _same(request, own, other, "an environment variable, which has no value when it is compiled")
    return function, about


def _same(request: Mapping[str, Any], own: Mapping[str, str], other: Mapping[str, str], why: str) -> None:
    """Refuse a function that depends on something unknown.

    Raises:
        DependsError: it does.
    """
    if names := [name for name in {**own, **other} if own.get(name) != other.get(name)]:
        short = request["function"].rpartition(".")[2]
        what = f"the value of `{names[0]}`" if names[0] else f"`{short}` or what it calls"
        raise DependsError(f"{what} depends on {why}; pass it as a constexpr", names[0] or short)


def _check(function: Any, request: Mapping[str, Any]) -> None:  # noqa: ANN401  (Triton's)
    """Refuse a function whose parameters differ from its text, or whose annotations differ from the requested types.

    Raises:
        DependsError: it is.
    """
    short = request["function"].rpartition(".")[2]
    plain = [parameter.name for parameter in function.params if not parameter.is_constexpr]
    constants = {parameter.name for parameter in function.params} - {*plain}
    if {*plain} != {*request["signature"]} or not constants.issuperset(request["constants"]):
        message = (
            f"`{short}` has the parameters {', '.join(p.name for p in function.params)}, which differ from its text"
        )
        raise DependsError(f"{message}: is it defined twice, or do decorators change it?", short)
    for parameter in function.params:
        type_ = request["signature"].get(parameter.name, "").removesuffix(_ALIGNED)
        # Triton specialises no annotated argument on the values 1 and None.
        if parameter.annotation_type and type_ and type_ != parameter.annotation_type:
            message = f"`{parameter.name}` of `{short}` is annotated as {parameter.annotation_type}, not {type_}"
            raise DependsError(f"{message}; aot.toml and the annotation must agree", short)


def _defaults(function: Any) -> dict[str, bool | int | float | str]:  # noqa: ANN401  (Triton's)
    """The defaults of constants that are plain values, also those that the text does not show."""
    found = {known.name: known.default for known in function.params if known.is_constexpr and known.has_default}
    values = {name: getattr(default, "value", default) for name, default in found.items()}
    return {name: value for name, value in values.items() if type(value) in (bool, int, float, str)}


def _parameters(ptx: str) -> int:
    """The number of a kernel's parameters; its callees' are not counted."""
    entry = _PTX_ENTRY.search(ptx)
    return entry[1].count(".param") if entry else 0


class _Target:
    """Triton's driver for the target: it names the target and launches nothing."""

    def __init__(self, target: object) -> None:
        self.get_current_target = lambda: target


def _compile(request: Mapping[str, Any], modules: Mapping[str, tuple[str, Path]], out: Path) -> None:
    """Compile the request."""
    import triton  # noqa: PLC0415  (the path to it is an argument)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415

    arch, backend = request["arch"], request["backend"]
    if backend == "cuda":
        target = GPUTarget("cuda", int(arch.removesuffix("a").replace(".", "")), 32)
    else:
        target = GPUTarget("hip", arch, 64 if arch.startswith(_WAVE64) else 32)
    driver.set_active(_Target(target))
    function, launched = _certain(request, modules)
    _check(function, request)
    types, constants, attributes = _types(function, request)
    source = ASTSource(function, types, constants, attributes)
    options = {**request["options"], "debug": bool(function.debug)}
    compiled = triton.compile(source, target=target, options=options)
    about = compiled.metadata
    code, text = _TEXTS[backend]
    out.write_bytes(compiled.asm[code])
    Path(f"{out}.txt").write_text(compiled.asm[text], encoding="utf-8")
    parameters = [[name, type_] for name, type_ in types.items() if type_ != "constexpr"]
    facts = {
        **launched,
        "cooperative": about.launch_cooperative_grid,
        "ctas": about.num_ctas,
        "defaults": _defaults(function),
        "floats": [known.name for known in function.params if known.annotation_type in _FLOATS],
        "hidden": _parameters(compiled.asm[text]) - len(parameters) if backend == "cuda" else 0,
        "name": about.name,
        "parameters": parameters,
        "pdl": getattr(about, "launch_pdl", False),
        "scratch": getattr(about, "global_scratch_size", 0),
        "shared": about.shared,
        "threads": about.num_warps * target.warp_size,
    }
    Path(f"{out}.json").write_text(json.dumps(facts, sort_keys=True) + "\n", encoding="utf-8")


def _written(name: str, files: Mapping[str, Path]) -> str:
    """The last definition of a name as a compiler's prefix of a message; empty if there is no definition."""
    for path in files.values():
        nodes = [
            node
            for node in ast.walk(ast.parse(path.read_bytes()))
            if (isinstance(node, ast.FunctionDef) and node.name == name)
            or (isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets))
        ]
        if nodes:
            last = max(nodes, key=lambda node: node.lineno)
            return f"{path}:{last.lineno}:{last.col_offset + 1}: "
    return ""


def _shown(problem: BaseException, files: Mapping[str, Path]) -> str:
    """The error as a compiler prints it, with Triton's or Python's position if that is in a file of the kernel."""
    if isinstance(problem, DependsError):
        return f"{_written(problem.name, files)}error: {problem}\n"
    cause: BaseException | None = problem
    place = ""
    message = f"{type(problem).__name__}: {problem}"
    while cause is not None:
        node, source = getattr(cause, "node", None), getattr(cause, "src", None)
        if node is not None and source:
            # Triton counts lines from the beginning of the function.
            own = ((path, decode_source(path.read_bytes()).partition(source)) for path in files.values())
            found = next(((path, before) for path, (before, same, _) in own if same), None)
            if found:
                place = f"{found[0]}:{found[1].count(chr(10)) + node.lineno}:{node.col_offset + 1}: "
            message = str(getattr(cause, "error_message", None) or cause)
        elif place:
            message = f"{type(cause).__name__}: {cause}"
        cause = cause.__cause__
    if not place:
        frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename in files]
        place = f"{files[frames[-1].filename]}:{frames[-1].lineno}:1: " if frames else ""
    return f"{place}error: {message}\n"


def main(arguments: Sequence[str]) -> int:
    """Compile; errors of the function go to stderr."""
    site, request, out, *rest = arguments
    names = dict(zip(rest[1::4], rest[2::4], strict=True))
    files = {shown: Path(path) for shown, path in zip(rest[2::4], rest[3::4], strict=True)}
    scratch = Path(f"{out}.scratch").absolute()
    scratch.mkdir()
    # Triton 3.9 requires the option; its default is also that of a user's JIT.
    os.environ |= {
        **dict.fromkeys(("HOME", "TMPDIR", "TRITON_CACHE_DIR"), str(scratch)),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    sys.path.insert(0, str(Path(site).absolute()))
    modules = {name: (shown, files[shown]) for name, shown in names.items()}
    try:
        wanted = json.loads(request)
        _compile({**wanted, "function": f"{wanted['package']}.{wanted['function']}"}, modules, Path(out))
    except Exception as problem:  # noqa: BLE001  (of the author's code, or Triton's of it)
        sys.stderr.write(_shown(problem, files))
        return 1
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
