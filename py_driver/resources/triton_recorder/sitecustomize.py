"""Records what Triton compiles in a process: `driver trace` puts this directory first on PYTHONPATH.

Python imports a module of this name when it starts. Another one of the name, further on the path, is imported as well.
Each function that Triton compiles, or finds in its cache, becomes a line of JSON in the file that
RULES_TORCH_KERNELS_TRACE names, and so does each configuration that an autotuner has chosen, and each call of a
function with heuristics.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_LAST = "triton.runtime.autotuner"
"""The module after which all that is watched is there."""

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

_KNOBS = ("instrumentation_mode", "fpsan_homomorphic_casts")
"""Options that Triton sets itself, from environment variables."""


def _write(record: dict[str, Any]) -> None:
    """Append a line; one write, so that processes do not mix theirs."""
    try:
        line = json.dumps(record) + "\n"
    except (TypeError, ValueError):  # a constant that is no plain value
        line = json.dumps({"file": record["file"], "function": record["function"], "unknown": True}) + "\n"
    handle = os.open(os.environ["RULES_TORCH_KERNELS_TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def _place(function: Any) -> dict[str, str]:  # noqa: ANN401  (Triton's)
    """The file and the name of a JIT function."""
    code = function.fn.__code__
    return {"file": os.path.abspath(code.co_filename), "function": function.fn.__qualname__}  # noqa: PTH100


def _compiled(*, fn: Any, compile: Any, **_others: object) -> None:  # noqa: A002, ANN401  (what Triton calls them)
    """Triton's hook after a compile."""
    found = json.loads(compile["specialization_data"])
    constants = {key[0]: value for key, value in zip(found["constant_keys"], found["constant_vals"]) if len(key) == 1}  # noqa: B905  (of one length)
    attributes = {key[0]: value for key, value in zip(found["attrs_keys"], found["attrs_vals"]) if len(key) == 1}  # noqa: B905  (likewise)
    names = list(found["signature"])
    place = _place(fn.jit_function)
    if any(type(value).__name__ == "dtype" for value in compile["constants"].values()):
        # Its name, which the data has, is a text like any other.
        _write({**place, "unknown": True})
        return
    if _has_other_options(fn.jit_function, found["options"]):
        _write({**place, "unknown": True})
        return
    _write(
        {
            **place,
            "signature": found["signature"],
            "constants": {names[index]: value for index, value in constants.items()},
            "aligned": [names[index] for index, value in attributes.items() if ["tt.divisibility", 16] in value],
            "options": {name: found["options"].get(name) for name in _OPTIONS},
        }
    )


def _has_other_options(function: Any, options: dict[str, Any]) -> bool:  # noqa: ANN401  (Triton's)
    """Whether a compile has an option that aot.toml does not support, such as `enable_fp_fusion`."""
    from triton import knobs  # noqa: PLC0415  (it is loaded by now)
    from triton.compiler.compiler import make_backend  # noqa: PLC0415
    from triton.runtime import driver  # noqa: PLC0415

    passed = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    passed["debug"] = bool(function.debug or knobs.runtime.debug)
    usual = make_backend(driver.active.get_current_target()).parse_options(passed).__dict__
    usual = json.loads(json.dumps(usual))
    return any(options[name] != usual[name] for name in usual.keys() & options.keys() - {*_KNOBS})


def _watch(module: ModuleType) -> None:
    """Have Triton tell of what it compiles and chooses."""
    from triton import knobs  # noqa: PLC0415  (it is loaded by now)

    before = knobs.runtime.jit_post_compile_hook

    def compiled(**words: Any) -> object:  # noqa: ANN401
        _compiled(**words)
        return before(**words) if before else None

    knobs.runtime.jit_post_compile_hook = compiled
    run = module.Autotuner.run

    def tuned(self: Any, *args: Any, **words: Any) -> Any:  # noqa: ANN401
        result = run(self, *args, **words)
        function = self.fn
        while not hasattr(function, "params"):
            function = function.fn
        _write({**_place(function), "chosen": self.best_config.all_kwargs()})
        return result

    module.Autotuner.run = tuned
    decide = module.Heuristics.run

    def decided(self: Any, *args: Any, **words: Any) -> Any:  # noqa: ANN401
        function = self.fn
        while not hasattr(function, "params"):
            function = function.fn
        if not self.values.keys() <= words.keys():
            _write({**_place(function), "decided": sorted(self.values)})
        return decide(self, *args, **words)

    module.Heuristics.run = decided


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the module after which Triton can be watched."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, whose loader watches as soon as it has run the module."""
        if fullname != _LAST:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _go_on() -> None:
    """Import the module of this name that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    paths = [path for path in sys.path if os.path.abspath(path or ".") != here]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec(__name__, paths)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("RULES_TORCH_KERNELS_TRACE"):
    sys.meta_path.insert(0, _Finder())
_go_on()
