"""What a wheel's package takes, for any torch: the variants that the real `kernels` client takes, in its order."""

from __future__ import annotations

import ast
import importlib
import platform
import sys
import sysconfig
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kernels.variants import parse_variant, resolve_variants  # type: ignore[import-untyped]

from py_driver.matrix.backends import BACKENDS, UNIVERSAL
from py_driver.matrix.configurations import parse
from py_driver.publishing import wheel_loader
from py_driver.publishing.release import BuiltVariant
from py_driver.publishing.wheel import backends, describe
from py_driver.publishing.wheel_loader import Here, Variant, choose, doubt_of, has_code, look, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    Client = Callable[[Sequence[str], SimpleNamespace], list[str]]

# In no order that could be taken for one of preference.
_TOOLKITS = ("cpu", "cu124", "cu118", "cu126", "cu130", "cu132", "cu131", "rocm72", "rocm71")
_TORCHES = ("26", "24", "29", "213", "210", "30")
NAMES = [
    *(
        f"torch{torch}-{abi}-{backend}-{cpu}-linux"
        for torch, abi, backend, cpu in product(_TORCHES, ("cxx98", "cxx11"), _TOOLKITS, ("x86_64", "aarch64"))
    ),
    *(
        f"torch-stable-abi{torch}-{backend}-{cpu}-linux"
        for torch, backend, cpu in product(("210", "29", "30", "213"), _TOOLKITS, ("x86_64", "aarch64"))
    ),
    *(f"torch-{backend}" for backend in (UNIVERSAL, *BACKENDS)),
]
VERSIONS = ("2.4.1", "2.6.0+cu124", "2.8.0", "2.9.1", "2.10.0a0+git0123", "2.13.0.dev20260801", "2.13.2", "3.0.0")
BACKENDS_HERE: dict[str, dict[str, Any]] = {
    "cpu": {},
    **{
        f"CUDA {release}": {"cuda": release}
        for release in ("11.8", "12.4", "12.5", "12.10", "13.0", "13.1", "13.2", "14.0")
    },
    **{f"ROCm {release}": {"hip": release} for release in ("7.1", "7.2.53211-e1a6bc5663", "7.3", "8.2")},
    "XPU": {"xpu": "20250201"},
    "Metal": {"mps": True},
    "Neuron": {"cuda": "13.0", "neuron": True},
    "TPU": {"cuda": "13.0", "neuron": True, "tpu": True},
    "NPU": {"private": "npu"},
    "a plugin": {"private": "other"},
    "CUDA, ROCm": {"cuda": "12.4", "hip": "7.2"},
    "ROCm, Metal": {"hip": "7.2", "mps": True, "xpu": "20250201"},
    "Metal, XPU": {"mps": True, "xpu": "20250201", "private": "npu"},
    "XPU, NPU": {"xpu": "20250201", "private": "npu"},
}


def torch_of(version: str, *, cxx11: bool = True, private: str | None = None, **has: Any) -> SimpleNamespace:  # noqa: ANN401
    """What a build of torch says of itself."""
    mps = SimpleNamespace(is_available=lambda: bool(has.get("mps")))
    return SimpleNamespace(
        __version__=version,
        version=SimpleNamespace(
            **{backend: has.get(backend) for backend in ("cuda", "hip", *(["xpu"] if "xpu" in has else []))}
        ),
        backends=SimpleNamespace(mps=mps, **({"tpu": mps} if "tpu" in has else {})),
        compiled_with_cxx11_abi=lambda: cxx11,
        _C=SimpleNamespace(**({"_get_privateuse1_backend_name": lambda: private} if private else {})),
        **({"neuron": mps} if "neuron" in has else {}),
    )


@cache
def _described(name: str) -> Variant:
    return describe(parse(name), BuiltVariant(name, {"id": f"_{name}"}, ()))


def described(names: Sequence[str]) -> list[Variant]:
    """What `driver wheel` writes into a package of some variants."""
    return [_described(name) for name in names]


def ours(names: Sequence[str], torch: SimpleNamespace) -> list[str]:
    """The variants that fit, each the one that is taken where those before it are not in the wheel."""
    left, order, here = described(names), [], look(torch, backends())
    while left:
        try:
            taken = choose("wl", left, here)
        except ImportError:
            break
        left.remove(taken)
        order.append(taken.name)
    return order


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """What the client takes of some variants, where a torch is the installed one; the best first."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    cann = SimpleNamespace(get_cann_version=lambda: "8.3")
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch_npu.utils", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch_npu.utils.collect_env", cann)
    monkeypatch.setattr("kernels.backends.has_torch", True)
    monkeypatch.setattr("kernels.variants.has_torch", True)

    def order(names: Sequence[str], torch: SimpleNamespace) -> list[str]:
        monkeypatch.setitem(sys.modules, "torch", torch)
        accepted, _ = resolve_variants([parse_variant(name) for name in names])
        return [variant.variant_str for variant in accepted]

    return order


@pytest.mark.parametrize("backend", BACKENDS_HERE)
def test_the_variants_of_the_client_in_its_order(backend: str, client: Client) -> None:
    taken = set()
    for version, cxx11 in product(VERSIONS, (True, False)):
        torch = torch_of(version, cxx11=cxx11, **BACKENDS_HERE[backend])
        expected = client(NAMES, torch)
        assert ours(NAMES, torch) == expected, version
        taken.update(expected)
    assert "torch-universal" in taken


@pytest.mark.parametrize(("machine", "system"), [("aarch64", "Linux"), ("x86_64", "Darwin"), ("ppc64le", "Linux")])
def test_other_machines(machine: str, system: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "system", lambda: system)
    for torch in (torch_of("2.13.0"), torch_of("2.13.0", cuda="13.1")):
        assert ours(NAMES, torch) == client(NAMES, torch)


@pytest.mark.parametrize("version", [(3, 9), (3, 13), (3, 14, 99), (3, 15), (3, 16)])
@pytest.mark.parametrize("without_gil", [None, 0, 1])
def test_free_threaded_python_has_no_stable_abi_before_3_15(
    version: tuple[int, ...], without_gil: int | None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = torch_of("2.13.0", cuda="13.1")
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": without_gil}.get)
    monkeypatch.setattr(sys, "version_info", version)
    expected, order = client(NAMES, torch), ours(NAMES, torch)
    monkeypatch.undo()
    assert order == expected
    assert (order == ["torch-cuda", "torch-universal"]) == (without_gil == 1 and version < (3, 15))


def test_message_says_what_is_here_and_why_each_variant_is_not_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    why = {
        "torch213-cxx11-cu130-aarch64-linux": "for aarch64-linux",
        "torch-stable-abi30-cu130-x86_64-linux": "for torch 3.0 or later",
        "torch215-cxx11-cu130-x86_64-linux": "for torch 2.15",
        "torch213-cxx98-cu130-x86_64-linux": "for the C++ ABI cxx98",
        "torch213-cxx11-cpu-x86_64-linux": "for the backend cpu",
        "torch213-cxx11-cu126-x86_64-linux": "for CUDA 12",
        "torch213-cxx11-cu132-x86_64-linux": "for CUDA 13.2 or later",
        "torch213-cxx11-rocm72-x86_64-linux": "for the backend rocm",
        "torch-rocm": "for the backend rocm",
    }
    with pytest.raises(ImportError) as caught:
        choose("wl", described(list(why)), look(torch_of("2.13.0+cu130", cuda="13.0"), backends()))
    assert caught.value.name == "wl"
    here = "torch 2.13.0+cu130 (CUDA 13.0, C++ ABI cxx11, x86_64-linux)"
    assert str(caught.value).splitlines() == [
        f"this wheel of wl has no variant for {here}:",
        *(f"  {name} is {reason}" for name, reason in why.items()),
        "Install a torch that matches one of them, or a wheel for this torch.",
    ]


@pytest.mark.parametrize(
    ("has", "name", "here", "reason"),
    [
        ({}, "torch213-cxx11-cu130-x86_64-linux", "2.13.0 (CPU only,", "for the backend cuda"),
        ({"cuda": "12.4"}, "torch-cpu", "2.13.0 (CUDA 12.4,", "for the backend cpu"),
        ({"hip": "7.2.1-ab"}, "torch213-cxx11-rocm71-x86_64-linux", "2.13.0 (ROCm 7.2,", "for ROCm 7.1"),
        ({"hip": "7.0.1-ab"}, "torch213-cxx11-rocm71-x86_64-linux", "2.13.0 (ROCm 7.0,", "for ROCm 7.1"),
        ({"xpu": "20250201"}, "torch-cuda", "2.13.0 (the backend xpu,", "for the backend cuda"),
        ({"private": "npu"}, "torch-cpu", "2.13.0 (the backend npu,", "for the backend cpu"),
        ({"cxx11": False}, "torch213-cxx11-cpu-x86_64-linux", "C++ ABI cxx98,", "for the C++ ABI cxx11"),
    ],
)
def test_message_names_the_backend(has: dict[str, Any], name: str, here: str, reason: str, client: Client) -> None:
    torch = torch_of("2.13.0", **has)
    assert client([name], torch) == []
    with pytest.raises(ImportError) as caught:
        choose("wl", described([name]), look(torch, backends()))
    first, second, _ = str(caught.value).splitlines()
    assert here in first
    assert second == f"  {name} is {reason}"


def test_a_minor_version_of_two_digits_is_later_than_one_of_one() -> None:
    names = [f"torch213-cxx11-cu{number}-x86_64-linux" for number in ("139", "1310", "1311")]
    here = look(torch_of("2.13.0", cuda="13.10"), backends())
    why = [refusal(variant, here._replace(platform="x86_64-linux")) for variant in described(names)]
    assert why == ["", "", "for CUDA 13.11 or later"]
    fitting = here._replace(platform="x86_64-linux")
    assert choose("wl", described(names), fitting).name == names[1]


def test_message_of_a_free_threaded_python() -> None:
    [variant] = described(["torch213-cxx11-cpu-x86_64-linux"])
    with pytest.raises(ImportError, match="is for Python's stable ABI, which this free-threaded Python"):
        choose("wl", [variant], look(torch_of("2.13.0"), backends())._replace(abi3=False))


def test_a_wheel_for_one_python_asks_for_no_stable_abi() -> None:
    variant = described(["torch213-cxx11-cpu-x86_64-linux"])[0]._replace(abi3=False)
    here = look(torch_of("2.13.0"), backends())._replace(abi3=False, platform=variant.platform)
    assert choose("wl", [variant], here) == variant


@pytest.mark.parametrize(
    ("name", "torch"),
    [
        ("torch213-cxx98-cu132-x86_64-linux", ["for torch 2.13", "for the C++ ABI cxx98"]),
        ("torch-stable-abi213-cu132-x86_64-linux", ["for torch 2.13 or later", "for the backend cuda"]),
    ],
)
def test_the_first_of_several_reasons_is_told(name: str, torch: list[str]) -> None:
    here = Here("", "rocm", (2, 9), "cxx11", (12, 4), platform="aarch64-linux", abi3=False, backends=backends())
    told = [refusal(described([name])[0], here)]
    steps: list[dict[str, Any]] = [
        {"abi3": True},
        {"platform": "x86_64-linux"},
        {"torch": (2, 13)},
        {"abi": "cxx98"},
        {"family": "cuda"},
        {"toolkit": (13, 0)},
        {"toolkit": (13, 2)},
    ]
    for step in steps:
        here = here._replace(**step)
        told.append(refusal(described([name])[0], here))
    free = "for Python's stable ABI, which this free-threaded Python does not have"
    assert told == [
        free,
        "for x86_64-linux",
        *torch,
        "for the backend cuda",
        "for CUDA 13",
        "for CUDA 13.2 or later",
        "",
    ]


@pytest.mark.parametrize(
    ("version", "ours", "stable"),
    [
        ("2.13.0", False, False),
        ("2.13.2", False, False),
        ("2.13.0+cpu", False, False),
        ("2.13.0+cu130", False, False),
        ("2.13.0+rocm7.2", False, False),
        ("2.6.0+cpu.cxx11.abi", False, False),
        ("2.13.0.post301", False, False),
        ("2.13.0a0+0123abcd.nv26.8", True, True),
        ("2.13.0a0+git0123abc", True, True),
        ("2.13.0rc1", True, True),
        ("2.13.0.dev20260801+cu130", True, True),
        ("2.13.0+git0123abc", True, False),
        ("2.13.0+rocm7.2.0.lw.git0123", True, False),
        ("2.14.0a0+0123abcd.nv26.10", True, False),
    ],
)
def test_torch_that_is_of_no_release(version: str, *, ours: bool, stable: bool) -> None:
    release = "".join(version.split(".")[:2])
    here = look(torch_of(version), backends())
    [own] = described([f"torch{release}-cxx11-cpu-x86_64-linux"])
    [lasting] = described(["torch-stable-abi213-cpu-x86_64-linux"])
    [noarch] = described(["torch-cpu"])
    said = doubt_of(own, here)
    assert bool(said) == ours
    assert not said or (f"the installed torch is {version}" in said and own.name in said)
    assert bool(doubt_of(lasting, here)) == stable
    assert doubt_of(noarch, here) == ""


@pytest.mark.parametrize(
    ("archs", "runs", "fails"),
    [
        (["8.0"], ["8.0", "8.6", "8.9"], ["7.5", "9.0", "12.0"]),
        (["8.6"], ["8.6", "8.9"], ["8.0", "9.0"]),
        (["8.0+PTX"], ["8.0", "9.0", "10.0", "12.1"], ["7.5"]),
        (["9.0a"], ["9.0"], ["8.9", "10.0"]),
        (["9.0a+PTX"], ["9.0"], ["10.0", "12.0"]),
        (["10.0f"], ["10.0", "10.3"], ["9.0", "11.0", "12.0"]),
        (["10.0f+PTX"], ["10.0", "10.3"], ["11.0", "12.0"]),
        (["7.5", "9.0", "12.0+PTX"], ["7.5", "9.0", "12.0", "12.1"], ["8.0", "8.6", "10.0"]),
        (["gfx942", "gfx90a"], ["gfx942", "gfx90a"], ["gfx1100", "gfx950"]),
    ],
)
def test_gpus_that_run_code(archs: list[str], runs: list[str], fails: list[str]) -> None:
    assert [gpu for gpu in (*runs, *fails) if has_code(archs, gpu)] == runs


class _Gpus:
    """torch.cuda of a machine with some GPUs, which torch begins to use at `start`."""

    def __init__(self, *gpus: str) -> None:
        self.gpus, self.waiting = gpus, list[Callable[[], None]]()

    def _lazy_call(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def start(self) -> None:
        for call in self.waiting:
            call()

    def device_count(self) -> int:
        return len(self.gpus)

    def get_device_properties(self, number: int) -> SimpleNamespace:
        arch = self.gpus[number]
        if arch.startswith("gfx"):
            return SimpleNamespace(name="AMD", gcnArchName=f"{arch}:sramecc+:xnack-", major=9, minor=4)
        major, minor = map(int, arch.split("."))
        return SimpleNamespace(name="NVIDIA", major=major, minor=minor)


@pytest.mark.parametrize(
    ("has", "backend", "archs", "gpus", "lacking"),
    [
        ({"cuda": "13.0"}, "cu130", ["8.0", "12.0+PTX"], ("8.6", "9.0", "12.1"), ["GPU 1 (NVIDIA, 9.0)"]),
        ({"cuda": "13.0"}, "cu130", ["8.0", "9.0"], ("8.6", "9.0"), []),
        ({"cuda": "13.0"}, "cu130", ["8.0"], ("8.6", "9.0"), ["GPU 1 (NVIDIA, 9.0)"]),
        ({"hip": "7.2.1"}, "rocm72", ["gfx942"], ("gfx942", "gfx1100"), ["GPU 1 (AMD, gfx1100)"]),
        ({}, "cpu", None, ("9.0",), []),
    ],
)
def test_package_that_is_imported_tells_of_torch_and_gpus_once(  # noqa: PLR0913  (a table)
    has: dict[str, Any],
    backend: str,
    archs: list[str] | None,
    gpus: tuple[str, ...],
    lacking: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    name = f"torch213-cxx11-{backend}-x86_64-linux"
    told: dict[str, Any] = {} if archs is None else {"archs": archs}
    part = {"slice": "sm80"} if archs == ["8.0"] else {}
    metadata = {"id": "_told", "backend": {"type": "x", **told}, **part}
    variant = describe(parse(name), BuiltVariant(name, metadata, ()))
    package = tmp_path / "told"
    (package / "_variants" / name).mkdir(parents=True)
    (package / "_variants" / name / "__init__.py").write_text("x = 1\n")
    (package / "loader.py").write_bytes(Path(wheel_loader.__file__).read_bytes())
    arguments = f"__name__, (loader.{variant!r},), {backends()!r}"
    (package / "__init__.py").write_text(
        f"from . import loader\nfrom .loader import Backend\nloader.load({arguments})\n", encoding="utf-8"
    )
    torch = torch_of("2.13.0a0+0123abcd.nv26.8", **has)
    torch.cuda = _Gpus(*gpus)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert importlib.import_module("told").x == 1
            assert importlib.import_module("told").x == 1
        finally:
            sys.modules.pop("told", None)
        [doubt] = caught
        assert str(doubt.message).startswith("told: the installed torch is 2.13.0a0+0123abcd.nv26.8, and torch213-")
        torch.cuda.start()
    said = [str(warning.message) for warning in caught[1:]]
    assert [message.partition("that the ")[2].partition(" can run")[0] for message in said] == lacking
    assert all(f"{name} has code for {', '.join(archs or ())}" in message for message in said)
    assert all(("This wheel is the slice for sm80: use that for this GPU" in text) == bool(part) for text in said)


def test_loader_is_python_3_9() -> None:
    text = Path(wheel_loader.__file__).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 9))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {(module or "").partition(".")[0] for module in imported} <= sys.stdlib_module_names
