"""Functions in Triton that are compiled ahead of time: from aot.toml to what is compiled, and its mistakes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from sections import CUDA, GENERAL, TORCH, failure, make
from tree import write_files

from py_driver.actions.expected import Settings, expected_actions
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.jit_notes import jit_notes
from py_driver.plan.narrow import narrowed
from py_driver.plan.project import load
from py_driver.plan.triton_modules import Modules

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

TEXT = GENERAL + TORCH + CUDA
KERNELS = """import torch
import triton
import triton.language as tl
from .sub import helpers
from re_lu.other import more


@triton.jit
def forward(out, x, count, scale: float = 1.0, BLOCK: tl.constexpr = 64, ACT: "tl.constexpr" = None):
    pass
"""
AOT = """capabilities = ["8.0", "9.0"]

[kernel.forward]
function = "kernels.forward"
configs = [{ BLOCK = 1024, num_warps = 4 }]
signatures = [
    { out = "*fp16:16", x = "*fp16:16", count = "i32:16", scale = "fp32" },
    { out = "*fp16", x = "*fp16", count = "1", scale = "None" },
]
"""


def _plan(directory: Path, aot: str = AOT, kernels: str = KERNELS, text: str = TEXT) -> Plan:
    package = "torch-ext/re_lu"
    modules = {f"{package}/{name}.py": "" for name in ("other", "sub/helpers", "unused")}
    sub = {f"{package}/sub/__init__.py": "from . import helpers\n", f"{package}/kernels.py": kernels}
    write_files(directory, {"aot.toml": aot, **modules, **sub})
    return make(directory, text)


def test_each_signature_is_compiled_with_each_configuration(tmp_path: Path) -> None:
    twice = AOT.replace("num_warps = 4 }", "num_warps = 4 }, { BLOCK = 64, ACT = true, num_warps = 8, num_stages = 2 }")
    [target] = _plan(tmp_path, twice).triton
    assert (target.name, target.archs, target.release) == ("triton_cuda", ("8.0", "9.0"), "3.9")
    assert len(target.requests) == 4
    first, *_, last = target.requests.values()
    assert first == {
        "constants": {"BLOCK": 1024},
        "function": "kernels.forward",
        "options": {"num_warps": 4},
        "signature": {"out": "*fp16:16", "x": "*fp16:16", "count": "i32:16", "scale": "fp32"},
    }
    assert last["constants"] == {"BLOCK": 64, "ACT": True}
    assert last["options"] == {"num_warps": 8, "num_stages": 2}
    assert target.shown_functions["kernels.forward"]["parameters"] == [
        ["out", False, []],
        ["x", False, []],
        ["count", False, []],
        ["scale", False, [1.0]],
        ["BLOCK", True, [64]],
        ["ACT", True, [None]],
    ]


def test_a_compile_reads_the_module_and_what_it_imports_of_the_package(tmp_path: Path) -> None:
    [target] = _plan(tmp_path).triton
    assert target.sources == tuple(
        f"torch-ext/re_lu/{name}.py" for name in ("kernels", "other", "sub/__init__", "sub/helpers")
    )


def test_what_is_compiled_has_the_same_name_wherever_it_stands(tmp_path: Path) -> None:
    [target] = _plan(tmp_path).triton
    lines = AOT.splitlines()
    lines[-2], lines[-3] = lines[-3], lines[-2]
    [other] = _plan(tmp_path, "\n".join(lines)).triton
    assert [*target.requests] == [*other.requests][::-1]
    assert {name.partition("-")[0] for name in target.requests} == {"forward"}


def test_a_further_torch_release_needs_no_further_action(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    settings = Settings(
        split=True,
        whole=(),
        needed=True,
        gcc=False,
        compress="",
        standards={release.version: 20 for release in Releases().matrix.torch},
        toolchains={},
        rules="",
    )
    cuda = [variant for variant in plan.variants if variant.configuration.family == "cuda"]
    assert len({variant.configuration.torch for variant in cuda}) > 3
    files = {name: (tmp_path / name).read_bytes() for name in plan.files}
    found = {
        variant.name: {
            action._replace(variant="")
            for action in expected_actions(plan, [variant], files, settings)
            if action.mnemonic == "TritonCompile"
        }
        for variant in cuda
    }
    assert len(found[cuda[0].name]) == 2 * 2
    assert all(actions == found[cuda[0].name] for actions in found.values())


def test_what_was_tuned_is_compiled_too(tmp_path: Path) -> None:
    aot = AOT + 'tuned = "torch-ext/re_lu/configs"\n'
    assert len(_plan(tmp_path, aot).triton[0].requests) == 2
    chosen = {"64": {"BLOCK": 2048, "num_warps": 8}, "128": {"BLOCK": 1024, "num_warps": 4}}
    write_files(tmp_path, {"torch-ext/re_lu/configs/device_name=NVIDIA_H200.json": json.dumps(chosen)})
    requests = _plan(tmp_path, aot).triton[0].requests.values()
    assert [(request["constants"]["BLOCK"], request["options"]["num_warps"]) for request in requests] == [
        (1024, 4),
        (2048, 8),
    ] * 2
    write_files(tmp_path, {"torch-ext/re_lu/configs/N=4096.json": '{"BLOCK": 32, "num_warps": 1}'})
    alone = aot.replace("configs = [{ BLOCK = 1024, num_warps = 4 }]\n", "")
    requests = _plan(tmp_path, alone).triton[0].requests.values()
    assert {request["constants"]["BLOCK"] for request in requests} == {32, 1024, 2048}
    write_files(tmp_path, {"torch-ext/re_lu/configs/broken.json": "[1]"})
    with pytest.raises(DriverError, match="no file of `driver tune --apply`"):
        _plan(tmp_path, aot)


def test_only_variants_of_the_backend_have_it(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    assert {variant.configuration.family: variant.triton for variant in plan.variants} == {
        "cuda": "triton_cuda",
        "cpu": "",
    }
    text = render(plan, "")
    assert text.count("kernel_triton(") == 1
    assert text.count('triton = [":triton_cuda"]') == sum(bool(variant.triton) for variant in plan.variants)


@pytest.mark.parametrize(("archs", "kept"), [(["9.0"], ("9.0",)), (["8.6"], ("8.0",)), (["12.0"], ("8.0",))], ids=str)
def test_a_build_for_one_gpu_compiles_for_that_alone(tmp_path: Path, archs: list[str], kept: tuple[str, ...]) -> None:
    text = TEXT.replace("[torch]", "[torch-noarch]").partition("[torch-noarch]")[0] + "[torch-noarch]\n"
    [target] = narrowed(_plan(tmp_path, text=text), archs).triton
    assert target.archs == kept


def test_the_list_is_a_part_of_the_id(tmp_path: Path) -> None:
    def ids(plan: Plan) -> dict[str, str]:
        return {identity.backend: identity.config for identity in plan.identities}

    before = ids(_plan(tmp_path))
    after = ids(_plan(tmp_path, AOT.replace("1024", "2048")))
    assert (before["cpu"] == after["cpu"], before["cuda"] == after["cuda"]) == (True, False)


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "message"),
    [
        ('"8.0"', '"8.5"', Code.UNKNOWN_ARCH, 1, "Triton compiles for no `8.5`"),
        ('"9.0"', '"9.0a"', Code.UNKNOWN_ARCH, 1, "Triton compiles for no `9.0a`"),
        ("kernels.forward", "kernel.forward", Code.FILE_MISSING, 4, "there is no module `kernel` in torch-ext/re_lu"),
        ("kernels.forward", "kernels.foward", Code.BAD_VALUE, 4, "torch-ext/re_lu/kernels.py has no function `foward`"),
        ("kernels.forward", "forward", Code.BAD_VALUE, 4, "`forward` is not a module and a function"),
        ("*fp16:16", "*half:16", Code.BAD_VALUE, 7, "`*half:16` is not a type of Triton for the argument `out`"),
        (
            '"i32:16"',
            "32",
            Code.WRONG_TYPE,
            7,
            "the type of `count` in [kernel.forward] must be a string, not an integer",
        ),
        ('count = "1", ', "", Code.MISSING_KEY, 8, "[kernel.forward] has no type or value for `count`"),
        ("count =", "cuont =", Code.UNKNOWN_KEY, 7, "`kernels.forward` has no argument `cuont`"),
        ("num_warps", "num_warp", Code.UNKNOWN_KEY, 5, "`kernels.forward` has no argument `num_warp`"),
        (
            "num_warps = 4",
            'num_warps = "4"',
            Code.WRONG_TYPE,
            5,
            "`num_warps` of `configs` in [kernel.forward] must be",
        ),
        (
            "num_warps = 4",
            "num_warps = 0",
            Code.WRONG_TYPE,
            5,
            "`num_warps` of `configs` in [kernel.forward] must be a positive integer, not 0",
        ),
        (
            "[{ BLOCK = 1024, num_warps = 4 }]",
            "[]",
            Code.WRONG_TYPE,
            5,
            "`configs` in [kernel.forward] must be a list of tables that is not empty, not an empty list",
        ),
        (
            'out = "*fp16",',
            'out = "*fp16", ACT = "i32",',
            Code.BAD_VALUE,
            8,
            "`ACT` of `kernels.forward` is a constexpr",
        ),
        ("BLOCK = 1024", "count = 4", Code.BAD_VALUE, 5, "`count` of `kernels.forward` is no constexpr"),
        ("[kernel.forward]", "[kernels.forward]", Code.MISSING_KEY, 1, "there is no [kernel.NAME] table"),
        ("capabilities", 'triton = "3.99"\ncapabilities', Code.UNSUPPORTED, 1, "there is no Triton 3.99"),
        ("configs", "config", Code.UNKNOWN_KEY, 5, "unknown key `config` in [kernel.forward]"),
    ],
)
def test_a_mistake_is_told_with_its_place(  # noqa: PLR0913  (a table of mistakes)
    tmp_path: Path, old: str, new: str, code: Code, line: int, message: str
) -> None:
    assert old in AOT
    with pytest.raises(DriverError) as caught:
        _plan(tmp_path, AOT.replace(old, new, 1))
    first = caught.value.diagnostics[0]
    assert first.message.startswith(message)
    assert (first.code, first.span and first.span.line) == (code, line)
    assert first.span
    assert first.span.file.endswith("aot.toml")


def test_kernels_that_are_compiled_where_they_run_are_told_of(tmp_path: Path) -> None:
    more = "\n\n@triton.jit\ndef helper(x):\n    return x\n\n\n@triton.jit(debug=True)\ndef other(x):\n    helper(x)\n"
    write_files(tmp_path, {"torch-ext/re_lu/launch.py": "from ._aot import kernels\n"})
    _plan(tmp_path, kernels=KERNELS + more)
    [note] = jit_notes(load(tmp_path, Releases()))
    assert note.message.startswith("Triton compiles `other` at a user's first call")
    assert (note.span.line, note.span.text) == (KERNELS.count("\n") + 9, "def other(x):")
    (tmp_path / "aot.toml").unlink()
    [note] = jit_notes(load(tmp_path, Releases()))
    assert note.message.startswith("Triton compiles `forward`, `other` at")
    _plan(tmp_path)
    assert jit_notes(load(tmp_path, Releases())) == []


def test_the_name_of_the_generated_package_is_taken(tmp_path: Path) -> None:
    write_files(tmp_path, {"torch-ext/re_lu/_aot.py": ""})
    (tmp_path / "aot.toml").unlink(missing_ok=True)
    make(tmp_path, TEXT)
    write_files(tmp_path, {"aot.toml": AOT, "torch-ext/re_lu/kernels.py": KERNELS})
    assert failure(tmp_path, TEXT).diagnostics[0].code is Code.FOREIGN_FILE


@pytest.mark.parametrize(
    ("default", "type_"),
    [
        ("None", "None"),
        ("True", "u1"),
        ("1", "1"),
        ("2", "i32"),
        ("32", "i32:16"),
        ("0", "i32:16"),
        ("1 << 31", ""),
        ("2147483648", "i64:16"),
        ("9223372036854775809", "u64"),
        ("2.5", "fp32"),
        ("'a'", ""),
        ("SCALE", ""),
    ],
)
def test_an_argument_that_is_not_listed_has_the_type_of_its_default(tmp_path: Path, default: str, type_: str) -> None:
    kernels = KERNELS.replace("scale: float = 1.0", f"scale={default}")
    aot = AOT.replace(', scale = "fp32"', "").replace(', scale = "None"', "")
    if not type_:
        with pytest.raises(DriverError) as caught:
            _plan(tmp_path, aot, kernels)
        assert {found.message for found in caught.value.diagnostics} == {
            "[kernel.forward] has no type or value for `scale`"
        }
        return
    [target] = _plan(tmp_path, aot, kernels).triton
    assert {request["signature"]["scale"] for request in target.requests.values()} == {type_}


@pytest.mark.parametrize(
    ("annotation", "default", "type_", "passed"),
    [
        ("tl.int64", "1", "i64", 1),
        ("tl.int64", "16", "i64:16", 16),
        ('"i32"', "5", "i32", 5),
        ("tl.float32", "1", "fp32", 1.0),
        ("tl.float64", "2.5", "fp64", 2.5),
        ("float", "0", "fp32", 0.0),
        ("bool", "1", "u1", 1),
        ("tl.int32", "True", "", True),
        ("tl.float16", "1.0", "", 1.0),
        ("tl.pointer_type(tl.float32)", "None", "", None),
        ("Thing", "1", "1", 1),
    ],
)
def test_a_default_has_the_type_of_the_annotation(
    tmp_path: Path, annotation: str, default: str, type_: str, passed: object
) -> None:
    kernels = KERNELS.replace("scale: float = 1.0", f"scale: {annotation} = {default}")
    _plan(tmp_path, kernels=kernels)
    project = load(tmp_path, Releases())
    modules = Modules(project.manifest, project.python, project.directory)
    [scale] = [known for known in modules.parameters_of("kernels.forward") if known.name == "scale"]
    assert scale.default_type("3.9") == type_
    assert (scale.default, type(scale.default[0])) == ((passed,), type(passed))


def test_a_function_that_is_defined_with_other_parameters_too_is_an_error(tmp_path: Path) -> None:
    kernels = KERNELS.replace("@triton.jit\ndef", "if triton.is_new:\n  @triton.jit\n  def")
    other = "\nelse:\n  @triton.jit\n  def forward(out, BLOCK: tl.constexpr = 64):\n    pass\n"
    with pytest.raises(DriverError) as caught:
        _plan(tmp_path, kernels=kernels + other)
    message = caught.value.diagnostics[0].message
    assert re.fullmatch(r"torch-ext/re_lu/kernels.py defines `forward` with other parameters in line \d+", message)


def test_a_stub_for_a_missing_triton_is_not_the_function(tmp_path: Path) -> None:
    [target] = _plan(tmp_path, kernels=f"{KERNELS}\n\nif not triton:\n    def forward(*args):\n        pass\n").triton
    assert len(target.requests) == 2


@pytest.mark.parametrize(
    "other",
    [
        "\n\ndef outer():\n    @triton.jit\n    def forward(y):\n        pass\n",
        "\n\nclass Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, y):\n        pass\n",
    ],
    ids=["nested", "method"],
)
def test_a_function_is_that_of_the_module_and_no_inner_one(tmp_path: Path, other: str) -> None:
    [target] = _plan(tmp_path, kernels=KERNELS + other).triton
    assert len(target.requests) == 2


def test_a_function_under_a_condition_is_of_the_module(tmp_path: Path) -> None:
    kernels = KERNELS.replace("@triton.jit\ndef", "if triton:\n  @triton.jit\n  def").replace(
        "\n    pass", "\n    pass"
    )
    kernels += "\n\nclass A:\n    def forward(self):\n        pass\n"
    [target] = _plan(tmp_path, kernels=kernels).triton
    assert len(target.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        'importlib.import_module(".unused", __package__)',
        'import_module("re_lu.unused")',
    ],
)
def test_a_module_that_is_imported_by_a_plain_name_is_read(tmp_path: Path, text: str) -> None:
    [target] = _plan(tmp_path, kernels=f"{KERNELS}\nh = {text}\n").triton
    assert "torch-ext/re_lu/unused.py" in target.sources


def test_each_function_reads_its_own_modules_alone(tmp_path: Path) -> None:
    kernels = '[kernel.other]\nfunction = "second.run"\nsignatures = [{ x = "i32" }]\n'
    write_files(tmp_path, {"torch-ext/re_lu/second.py": "from . import unused\n\n\ndef run(x):\n    pass\n"})
    plan = _plan(tmp_path, f"{AOT}\n{kernels}")
    [target] = plan.triton
    assert target.reads["second.run"] == ("torch-ext/re_lu/second.py", "torch-ext/re_lu/unused.py")
    assert not {*target.reads["kernels.forward"]} & {*target.reads["second.run"]}
    assert {*target.sources} == {file for files in target.reads.values() for file in files}
    assert "reads = {" in render(plan, "")
    assert "reads = {" not in render(_plan(tmp_path), "")


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from .helpers import helper", "helper"),
        ("from .helpers import helper as h", "h"),
        ("from . import helpers as m", "m.helper"),
    ],
)
def test_a_function_that_a_kernel_of_another_file_calls_is_none_of_its_own(
    tmp_path: Path, imports: str, call: str
) -> None:
    helper = "import triton\n\n\n@triton.jit\ndef helper(x):\n    return x\n"
    kernel = f"import triton\n{imports}\n\n\n@triton.jit\ndef forward(x):\n    {call}(x)\n"
    write_files(tmp_path, {"torch-ext/re_lu/helpers.py": helper, "torch-ext/re_lu/main.py": kernel})
    make(tmp_path, TEXT)
    [note] = jit_notes(load(tmp_path, Releases()))
    assert "`forward` at" in note.message


@pytest.mark.parametrize(
    ("text", "is_used"),
    [
        ("", False),
        ("from . import kernels\n", False),
        ("try:\n    from ._aot import kernel\nexcept ImportError:\n    from . import kernels\n", False),
        ("from ._aot import kernels\n", True),
        ("from ._aot import kernels as k\n", True),
        ("from ._aot import (\n    other,\n    kernels,\n)\n", True),
        ("from ._aot.kernels import forward\n", True),
        ("import re_lu._aot.kernels\n", True),
    ],
)
def test_a_module_that_no_file_takes_from_the_launcher_is_noted(
    tmp_path: Path,
    text: str,
    is_used: bool,  # noqa: FBT001
) -> None:
    write_files(tmp_path, {"torch-ext/re_lu/launch.py": text})
    _plan(tmp_path)
    notes = [note.message for note in jit_notes(load(tmp_path, Releases())) if "through `_aot`" in note.message]
    assert bool(notes) is not is_used
