"""The launcher of kernels that were compiled ahead of time: what reaches the driver, and which code fits a call.

The driver's library has its place taken by C functions of ctypes, which read what they get as the driver would.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import struct
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "rules" / "private" / "include" / "_aot"
PACKAGE = "kernel_of_a_test"
TYPES = {"x": "*fp16", "n": "i32", "big": "i64", "scale": "fp32"}


class Dtype:
    """A type of torch's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


HALF, FLOAT = Dtype("float16"), Dtype("float32")


class Tensor:
    """A tensor at an address."""

    def __init__(self, address: int, dtype: Dtype = HALF, *, is_cuda: bool = True) -> None:
        self.dtype = dtype
        self.is_cuda = is_cuda
        self.address = address

    def __repr__(self) -> str:
        return f"{self.dtype.name}@{self.address}{'' if self.is_cuda else ' of the host'}"

    def data_ptr(self) -> int:
        return self.address


def _put(reference: object, value: object) -> int:
    """Write to what `byref` refers to, and answer as a driver without a fault."""
    cast("Any", reference)._obj.value = value  # noqa: SLF001
    return 0


class Driver:
    """Functions of libcuda.so.1, real C functions that are called with real pointers."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.loaded: list[str] = []
        self.parameters = "QQ"
        self.answers: list[int] = []
        launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self.cuLaunchKernelEx = launch(self._launch)

    def _launch(self, config: int, function: int, parameters: int, _extra: int) -> int:
        words = struct.unpack_from("@IIIIIIIPPI", ctypes.string_at(config, 64))
        pointers = (ctypes.c_void_p * len(self.parameters)).from_address(parameters)
        sizes = [struct.calcsize(code) for code in self.parameters]
        texts = [ctypes.string_at(address, size) for address, size in zip(pointers, sizes, strict=True)]
        values = [struct.unpack(code, text)[0] for code, text in zip(self.parameters, texts, strict=True)]
        self.launches.append((function, words[:3], words[3:6], *words[6:8], *values))
        return self.answers.pop() if self.answers else 0

    def cuModuleLoadData(self, module: object, code: bytes) -> int:  # noqa: N802
        self.loaded.append(code.decode())
        return _put(module, 7)

    def cuModuleGetFunction(self, function: object, _module: object, _name: bytes) -> int:  # noqa: N802
        return _put(function, 99)

    def cuCtxGetCurrent(self, context: object) -> int:  # noqa: N802
        return _put(context, 1)

    def cuGetErrorString(self, _code: int, text: object) -> int:  # noqa: N802
        return _put(text, b"a fault")

    def cuFuncSetCacheConfig(self, *_arguments: object) -> int:  # noqa: N802
        return 0

    def cuFuncSetAttribute(self, _function: object, attribute: int, value: int) -> int:  # noqa: N802
        self.loaded.append(f"attribute {attribute} = {value}")
        return 0


def _request(
    constants: dict[str, Any] | None = None, options: dict[str, int] | None = None, **types: str
) -> dict[str, Any]:
    return {
        "function": "kernels.f",
        "signature": {**{name: f"{type_}" for name, type_ in TYPES.items()}, **types},
        "constants": {"BLOCK": 64} if constants is None else constants,
        "options": {"num_warps": 4} if options is None else options,
    }


@pytest.fixture
def driver() -> Driver:
    return Driver()


REQUESTS = {
    "plain": _request(),
    "aligned": _request(x="*fp16:16", n="i32:16"),
    "one": _request(n="1"),
    "relu": _request({"BLOCK": 64, "ACT": "relu"}),
    "wide": _request({"BLOCK": 128}, {"num_warps": 8, "num_stages": 2}),
}
PARAMETERS = [[name, name in ("BLOCK", "ACT"), [""] * (name == "ACT")] for name in (*TYPES, "BLOCK", "ACT")]
PLAIN: dict[str, Any] = {
    **dict.fromkeys(("config_hook", "hook", "pruned"), False),
    **dict.fromkeys(("floats", "heuristics", "others"), ()),
    "defaults": {},
    "tuned": None,
}


class Launcher:
    """Writes the package of the launcher with some code in it, for a GPU of capability 8.9, and imports it."""

    def __init__(self, directory: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._driver = driver
        self._monkeypatch = monkeypatch
        self.name = f"{PACKAGE}._aot"

    def write(self, requests: dict[str, Any], parameters: list[Any], **about: object) -> ModuleType:
        """The package, with a function `kernels.f` for requests; `about` is what the compile says of the function."""
        index: dict[str, Any] = {
            "archs": ["8.0", "8.6", "9.0"],
            "backend": "cuda",
            "functions": {"kernels.f": {"parameters": parameters}},
            "requests": requests,
            "strict": False,
            "triton": "3.9.0",
        }
        aot = self._directory / "_aot"
        aot.mkdir()
        for file in SOURCE.glob("*.py"):
            (aot / file.name).write_bytes(file.read_bytes())
        (aot / "index.json").write_text(json.dumps(index))
        for name, request in requests.items():
            signature = request["signature"].items()
            passed = [[key, type_.partition(":")[0]] for key, type_ in signature if type_ not in ("1", "None")]
            facts: dict[str, Any] = {"ctas": 1, "cooperative": False, "pdl": False, "scratch": 0, "shared": 65536}
            facts |= {"name": "f", "hidden": 2, "parameters": passed, "threads": 128, **PLAIN, **about}
            for arch in index["archs"]:
                (aot / f"{name}.{arch}.json").write_text(json.dumps(facts))
                (aot / f"{name}.{arch}.cubin").write_text(f"{name} {arch}")
        (self._directory / "kernels.py").write_text("import no_triton_here\n")
        found = importlib.import_module(self.name)
        self._monkeypatch.setattr(sys.modules[f"{self.name}._cuda"], "_library", lambda: self._driver)
        return found


@pytest.fixture
def launcher(tmp_path: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    torch = ModuleType("torch")
    torch._C = SimpleNamespace(_cuda_getDevice=lambda: 0, _cuda_getCurrentRawStream=lambda device: 1000 + device)  # type: ignore[attr-defined]  # noqa: SLF001
    torch.version = SimpleNamespace(cuda="13.0")  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(get_device_capability=lambda _device: (8, 9))  # type: ignore[attr-defined]
    package = ModuleType(PACKAGE)
    package.__path__ = [str(tmp_path)]
    before = {*sys.modules}
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, PACKAGE, package)
    monkeypatch.delenv("RULES_TORCH_KERNELS_TRITON", raising=False)
    yield Launcher(tmp_path, driver, monkeypatch)
    for name in {*sys.modules} - before:
        if name.startswith(PACKAGE):
            del sys.modules[name]


@pytest.fixture
def launched(launcher: Launcher, driver: Driver) -> ModuleType:
    """The package of the launcher with code of a function that is tuned."""
    driver.parameters = "QiqfQQ"
    return launcher.write(REQUESTS, PARAMETERS, tuned=["BLOCK"])


def test_the_driver_gets_grid_stream_and_arguments(launched: ModuleType, driver: Driver) -> None:
    launched.kernels.f[(3, 2)](Tensor(0x1008), 7, 1 << 40, 0.5, BLOCK=64, num_warps=4)
    assert driver.loaded == ["plain 8.6", "attribute 8 = 65536"]
    assert driver.launches == [(99, (3, 2, 1), (128, 1, 1), 65536, 1000, 0x1008, 7, 1 << 40, 0.5, 0, 0)]


def test_the_grid_is_a_function_of_the_arguments(launched: ModuleType, driver: Driver) -> None:
    launched.kernels.f[lambda known: (known["n"] // known["BLOCK"],)](Tensor(0x1000), 640, 0, scale=1.0, BLOCK=64)
    assert driver.launches[0][1] == (10, 1, 1)


def test_an_empty_grid_launches_nothing(launched: ModuleType, driver: Driver) -> None:
    launched.kernels.f[(0,)](Tensor(0x1000), 0, 0, 1.0, BLOCK=64)
    assert driver.launches == []


@pytest.mark.parametrize(
    ("address", "count", "config", "name"),
    [
        (0x1000, 32, {"BLOCK": 64}, "aligned"),
        (0x1008, 32, {"BLOCK": 64}, "plain"),
        (0x1000, 33, {"BLOCK": 64}, "plain"),
        (0x1000, 1, {"BLOCK": 64}, "one"),
        (0x1000, 32, {"BLOCK": 64, "ACT": "relu"}, "relu"),
        (0x1000, 32, {"BLOCK": 128, "num_warps": 8, "num_stages": 2}, "wide"),
        (0x1000, 32, {}, "aligned"),
    ],
)
def test_the_most_special_code_that_fits_is_launched(  # noqa: PLR0913  (a table of calls)
    launched: ModuleType, driver: Driver, address: int, count: int, config: dict[str, Any], name: str
) -> None:
    if name == "one":
        driver.parameters = "QqfQQ"
    launched.kernels.f[(1,)](Tensor(address), count, 5, 1.0, **config)
    assert driver.loaded[0] == f"{name} 8.6"
    assert len(driver.launches) == 1


def test_code_is_loaded_once(launched: ModuleType, driver: Driver) -> None:
    for count in (32, 64, 96):
        launched.kernels.f[(1,)](Tensor(0x1000), count, 5, 1.0, BLOCK=64)
    assert [launch[6] for launch in driver.launches] == [32, 64, 96]
    assert driver.loaded.count("aligned 8.6") == 1


@pytest.mark.parametrize(
    ("values", "config", "reason"),
    [
        ((Tensor(0, FLOAT), 1, 1, 1.0), {"BLOCK": 64}, "no code for (x: *fp32:16, n = 1, big = 1, scale = 1.0"),
        ((Tensor(0, is_cuda=False), 1, 1, 1.0), {"BLOCK": 64}, "no code for (x: *fp16:16 on no GPU, n = 1"),
        ((Tensor(0), 1 << 31, 1, 1.0), {"BLOCK": 64}, "no code for (x: *fp16:16, n = 2147483648"),
        ((Tensor(0), True, 1, 1.0), {"BLOCK": 64}, "no code for (x: *fp16:16, n = True"),
        ((Tensor(0), 1, 1, 1), {"BLOCK": 64}, "no code for"),
        ((Tensor(0), 1, 1, 1.0), {"BLOCK": 32}, "no code for"),
        ((Tensor(0), 1, 1, 1.0), {"BLOCK": 64, "num_warps": 8}, "no code for"),
        ((Tensor(0), 1, 1, 1.0), {"BLOCK": 64, "launch_pdl": True}, "options that aot.toml does not"),
        ((5, 1, 1, 1.0), {"BLOCK": 64}, "an argument of another kind"),
    ],
)
def test_what_nothing_was_compiled_for_is_left_to_triton(
    launched: ModuleType, driver: Driver, values: tuple[Any, ...], config: dict[str, Any], reason: str
) -> None:
    with pytest.raises(
        RuntimeError, match="and Triton cannot compile it here: No module named 'no_triton_here'"
    ) as why:
        launched.kernels.f[(1,)](*values, **config)
    assert str(why.value).startswith(f"kernels.f: {reason}")
    assert driver.launches == []


def test_a_tensor_of_the_host_is_never_launched_after_one_of_the_gpu(launched: ModuleType, driver: Driver) -> None:
    launched.kernels.f[(1,)](Tensor(0x1000), 32, 1, 1.0, BLOCK=64)
    with pytest.raises(RuntimeError, match="on no GPU"):
        launched.kernels.f[(1,)](Tensor(0x1000, is_cuda=False), 32, 1, 1.0, BLOCK=64)
    assert len(driver.launches) == 1


def test_triton_is_told_of_once_and_gets_the_call(launched: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "calls = []\nclass f:\n    arg_names = [1]\n    def __class_getitem__(cls, grid):\n"
        "        return lambda *args, **named: calls.append((grid, args, named))\n"
    )
    x = Tensor(0, FLOAT)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            launched.kernels.f[(4,)](x, 3, 1, 1.0, BLOCK=64, num_warps=2)
    assert [str(warning.message).rpartition(": ")[2] for warning in caught] == ["Triton compiles it now"]
    assert launched.kernels.calls == [((4,), (x, 3, 1, 1.0), {"BLOCK": 64, "num_warps": 2})] * 2


def test_strict_refuses_what_nothing_was_compiled_for(launched: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_TORCH_KERNELS_TRITON", "strict")
    with pytest.raises(RuntimeError, match=r"add it to aot\.toml"):
        launched.kernels.f[(1,)](Tensor(0, FLOAT), 1, 1, 1.0, BLOCK=64)


def test_an_error_of_the_driver_has_its_words(launched: ModuleType, driver: Driver) -> None:
    driver.answers = [700]
    with pytest.raises(RuntimeError, match="launching f: CUDA error 700: a fault"):
        launched.kernels.f[(1,)](Tensor(0), 1, 1, 1.0, BLOCK=64)


def test_a_thread_without_a_context_gets_one(launched: ModuleType, driver: Driver) -> None:
    driver.parameters = "QqfQQ"
    driver.answers = [201]
    launched.kernels.f[(1,)](Tensor(0), 1, 1, 1.0, BLOCK=64)
    assert len(driver.launches) == 2


def _plain(**types: str) -> dict[str, Any]:
    return {"function": "kernels.f", "signature": types, "constants": {}, "options": {}}


def _with_constants(constants: dict[str, Any], **types: str) -> dict[str, Any]:
    return {**_plain(**types), "constants": constants}


def test_a_grid_of_a_tuned_function_gets_the_constants_of_the_code(launched: ModuleType, driver: Driver) -> None:
    launched.kernels.f[lambda known: (known["n"] // known["BLOCK"],)](Tensor(0x1000), 640, 0, 1.0)
    assert driver.loaded[0] == "aligned 8.6"
    assert driver.launches[0][1] == (10, 1, 1)


def test_names_of_parameters_may_be_any(launcher: Launcher, driver: Driver) -> None:
    names = ["grid", "key", "start", "device", "known", "find", "stream", "others", "arguments", "value0", "index"]
    driver.parameters = f"{'i' * len(names)}QQ"
    parameters = [[name, False, []] for name in names]
    f = launcher.write({"a": _plain(**dict.fromkeys(names, "i32"))}, parameters).kernels.f
    for first in (100, 200):
        f[(1,)](**{name: first + place for place, name in enumerate(names)})
    values = [list(launch[5:-2]) for launch in driver.launches]
    assert values == [[first + index for index in range(len(names))] for first in (100, 200)]


def test_an_option_may_be_a_parameter_too(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "iQQ"
    requests = {
        f"w{count}": {**_with_constants({"num_warps": count}, n="i32"), "options": {"num_warps": count}}
        for count in (4, 8)
    }
    f = launcher.write(requests, [["n", False, []], ["num_warps", True, []]]).kernels.f
    f[(1,)](5, num_warps=8)
    assert driver.loaded[0] == "w8 8.6"


@pytest.mark.parametrize(
    ("about", "config", "reason"),
    [
        ({"heuristics": ["EVEN"]}, {}, "a heuristic chooses `EVEN`"),
        ({"heuristics": ["num_warps"]}, {"EVEN": True}, "a heuristic chooses `num_warps`"),
        ({"heuristics": ["EVEN"], "tuned": ["EVEN"]}, {}, "a heuristic chooses `EVEN`"),
        ({"tuned": ["EVEN"], "config_hook": True}, {}, "a hook is called"),
        ({"hook": True}, {"EVEN": True}, "a hook is called"),
        ({"tuned": ["EVEN"], "pruned": True}, {}, "a function excludes configurations"),
        ({"tuned": ["EVEN"], "others": ["clc"]}, {}, "the configurations have `clc`"),
        ({}, {}, "no code for"),
    ],
)
@pytest.mark.parametrize("default", [[], [False], [True]], ids=["no default", "False", "True"])
def test_what_triton_chooses_or_does_at_a_launch_is_left_to_it(  # noqa: PLR0913  (a table)
    launcher: Launcher,
    driver: Driver,
    about: dict[str, Any],
    config: dict[str, Any],
    reason: str,
    default: list[bool],
) -> None:
    requests = {str(even): _with_constants({"EVEN": even}, n="i32") for even in (True, False)}
    f = launcher.write(requests, [["n", False, []], ["EVEN", True, default]], **about).kernels.f
    if default and reason == "no code for":
        driver.parameters = "iQQ"
        f[(1,)](5)
        assert driver.loaded[0] == f"{default[0]} 8.6"
        return
    with pytest.raises(RuntimeError, match=reason):
        f[(1,)](5, **config)
    assert driver.launches == []


def test_a_configuration_that_is_passed_has_no_hook(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "iQQ"
    requests = {"code": _with_constants({"EVEN": True}, n="i32")}
    f = launcher.write(requests, [["n", False, []], ["EVEN", True, []]], tuned=["EVEN"], config_hook=True).kernels.f
    f[(1,)](5, EVEN=True)
    assert len(driver.launches) == 1


def test_a_function_whose_options_alone_are_tuned_takes_the_first_listed(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "iQQ"
    requests = {"w8": {**_plain(n="i32"), "options": {"num_warps": 8}}}
    f = launcher.write(requests, [["n", False, []]], tuned=[]).kernels.f
    f[(1,)](5)
    assert driver.loaded[0] == "w8 8.6"


def test_a_default_that_only_the_module_knows_is_in_code_without_a_value(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "iQQ"
    requests = {"two": _with_constants({"MODE": 2}, n="i32"), "default": _plain(n="i32")}
    f = launcher.write(requests, [["n", False, []], ["MODE", True, []]]).kernels.f
    f[(1,)](5)
    assert driver.loaded[0] == "default 8.6"
    with pytest.raises(RuntimeError, match="no code"):
        f[(1,)](5, MODE=3)


def test_a_default_that_the_compile_has_found_fits_code_with_its_value(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "iQQ"
    requests = {"two": _with_constants({"MODE": 2}, n="i32"), "three": _with_constants({"MODE": 3}, n="i32")}
    f = launcher.write(requests, [["n", False, []], ["MODE", True, []]], defaults={"MODE": 3}).kernels.f
    f[lambda meta: (meta["MODE"],)](5)
    assert driver.loaded[0] == "three 8.6"
    assert driver.launches[0][1] == (3, 1, 1)


def test_an_integer_is_a_float_if_the_annotation_is_one(launcher: Launcher, driver: Driver) -> None:
    driver.parameters = "fQQ"
    f = launcher.write({"code": _plain(n="fp32")}, [["n", False, []]], floats=["n"]).kernels.f
    f[(1,)](2)
    f[(1,)](0.5)
    assert [launch[5] for launch in driver.launches] == [2.0, 0.5]


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (True, 1), (2, 2.0)], ids=repr)
def test_equal_constants_of_other_types_are_others(
    launcher: Launcher, driver: Driver, first: float, second: float
) -> None:
    driver.parameters = "iQQ"
    f = launcher.write({"code": _with_constants({"C": first}, n="i32")}, [["n", False, []], ["C", True, []]]).kernels.f
    f[(1,)](5, C=first)
    with pytest.raises(RuntimeError, match="no code"):
        f[(1,)](5, C=second)
    assert len(driver.launches) == 1


@pytest.mark.parametrize(
    ("types", "fitting", "other"),
    [
        (["i64"], 1 << 40, 1 << 63),
        (["u64"], 1 << 63, -5),
        (["u32"], 5, -5),
        (["i8"], 5, 300),
        (["i16:16"], 16, 1 << 15),
        (["fp32", "i32:16"], 32, 33),
        (["fp32", "i32:16"], 0.5, 33),
        (["*fp16:16", "i32"], 5, 1 << 40),
        (["None", "i32:16"], 16, 17),
        (["None", "fp32"], None, 1),
        (["u1", "i32"], True, 1 << 40),
    ],
    ids=repr,
)
def test_a_call_never_gets_the_code_of_one_before_that_does_not_fit(
    launcher: Launcher, driver: Driver, types: list[str], fitting: object, other: object
) -> None:
    requests = {f"code{index}": _plain(n=type_) for index, type_ in enumerate(types)}
    f = launcher.write(requests, [["n", False, []]]).kernels.f
    codes = {"i64": "q", "u64": "Q", "u32": "I", "i8": "b", "i16:16": "h", "u1": "B"}
    code = {float: "f", type(None): ""}.get(type(fitting), codes.get(types[0], "i"))
    driver.parameters = f"{code}QQ"
    f[(1,)](fitting)
    assert driver.launches[0][5:-2] == (() if fitting is None else (fitting,))
    with pytest.raises(RuntimeError, match="no code"):
        f[(1,)](other)
    assert len(driver.launches) == 1


def test_a_constant_of_another_sign_gets_its_own_code(launcher: Launcher, driver: Driver) -> None:
    requests = {f"code{low}": _request({"LOW": low}, {"num_warps": 4}) for low in (0.0, -0.0)}
    for request in requests.values():
        request["signature"] = {}
    f = launcher.write(requests, [["LOW", True, []]]).kernels.f
    driver.parameters = "QQ"
    for low in (0.0, -0.0, 0.0):
        f[(1,)](LOW=low)
    assert driver.loaded[::2] == ["code0.0 8.6", "code-0.0 8.6"]
    with pytest.raises(RuntimeError, match="no code"):
        f[(1,)](LOW=0)


def test_a_tensor_or_a_number_is_passed_as_what_it_is(launcher: Launcher, driver: Driver) -> None:
    f = launcher.write({"a": _plain(n="*fp16:16"), "b": _plain(n="i32")}, [["n", False, []]]).kernels.f
    driver.parameters = "QQQ"
    f[(1,)](Tensor(0x1000))
    driver.parameters = "iQQ"
    f[(1,)](7)
    assert [launch[5] for launch in driver.launches] == [0x1000, 7]


def test_an_argument_with_a_default_that_only_the_module_knows_may_be_left_out(
    launcher: Launcher, tmp_path: Path
) -> None:
    f = launcher.write({"a": _plain(n="i32", scale="fp32")}, [["n", False, []], ["scale", False, []]]).kernels.f
    (tmp_path / "kernels.py").write_text(
        "calls = []\nclass f:\n    def __class_getitem__(cls, grid):\n        return lambda *args: calls.append(args)\n"
    )
    with pytest.warns(RuntimeWarning, match="Triton compiles it now"):
        f[(1,)](5)
    assert importlib.import_module(f"{PACKAGE}.kernels").calls == [(5,)]


def test_a_kernel_is_imported_from_its_module_too(launched: ModuleType, launcher: Launcher) -> None:
    module = importlib.import_module(f"{launcher.name}.kernels")
    assert module is launched.kernels
    assert module.f is launched.kernels.f
    with pytest.raises(ImportError):
        importlib.import_module(f"{launcher.name}.kernel")


def test_all_else_of_a_function_is_that_of_triton(launched: ModuleType, tmp_path: Path) -> None:
    assert not hasattr(launched.kernels.f, "arg_names")
    (tmp_path / "kernels.py").write_text("class f:\n    arg_names = ['x']\n")
    assert launched.kernels.f.arg_names == ["x"]
