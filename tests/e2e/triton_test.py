"""Functions in Triton, compiled ahead of time by an action that has no torch, no GPU and no Triton of the machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from clone import PROJECTS, ROOT
from elftools.elf.elffile import ELFFile

from py_driver import __main__
from py_driver.actions.workspace import common_workspace

pytestmark = pytest.mark.e2e

_STORES = """import einops
import torch
import triton
import triton.language as tl

X = tl.constexpr({value})


@triton.jit
def store(out):
    tl.store(out, X)
"""
_KNOWN = (
    "1000 + 10 * (1 if torch.version.hip is not None else 3) + 2 * (torch.version.cuda is None) + "
    "10 * (torch.version.cuda is not None and torch.cuda.is_available() and "
    "torch.cuda.get_device_capability()[0] >= 9) + "
    '(triton.runtime.driver.active.get_current_target().backend == "cuda")'
)
_KERNELS = "torch-ext/triton_ahead"
_LAUNCH = """
import sys
import types
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

class Driver:
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = get_current_stream = staticmethod(lambda *_: 0)

class Type:
    __str__ = __repr__ = lambda self: "torch.float32"

class Tensor:
    dtype = Type()
    data_ptr = staticmethod(lambda: 64)

torch = sys.modules["torch"] = types.ModuleType("torch")
torch.Tensor, torch.autograd = Tensor, types.SimpleNamespace(Function=object)
driver.set_active(Driver())
sys.path.insert(0, sys.argv[1])
import triton.language as tl
from triton_ahead import kernels, second
x = Tensor()
second.typed.warmup(x, TYPE=tl.float16, grid=(1,))
second.decided.warmup(x, 16, grid=(1,))
second.fused.warmup(x, enable_fp_fusion=False, grid=(1,))
kernels.scale.fn.warmup(x, x, 4096, 2.0, BLOCK=128, num_warps=8, grid=(1,))
kernels.scale.fn.warmup(x, x, 4095, 2.0, BLOCK=64, grid=(1,))
"""

_SECOND = """import triton
import triton.language as tl


@triton.jit
def typed(out, TYPE: tl.constexpr):
    tl.store(out, tl.full((), 1, TYPE))


@triton.jit
def fused(out):
    tl.store(out, 1)


@triton.heuristics({"EVEN": lambda known: known["count"] % 2 == 0})
@triton.jit
def decided(out, count, EVEN: tl.constexpr):
    tl.store(out, EVEN)
"""


@pytest.fixture(scope="module")
def project(base: Path) -> Path:
    """The project, of which nothing is built."""
    return shutil.copytree(PROJECTS / "triton_ahead", base / "triton_ahead")


def _build(project: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:  # noqa: ANN401  (JSON)
    capsys.readouterr()
    __main__.main(["build", str(project), "--json", *words])
    return json.loads(capsys.readouterr().out)


def _counts(result: Any) -> dict[str, tuple[int, int, int]]:  # noqa: ANN401  (JSON)
    return {
        variant["variant"]: tuple(variant["actions"][did] for did in ("run", "shared", "cached"))
        for variant in result["variants"]
    }


def test_machine_code_is_compiled_and_shipped_with_its_launcher(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = _build(project, capsys)
    assert {name: sum(counts) for name, counts in _counts(result).items()} == {"torch-cuda": 1, "torch-rocm": 1}
    for variant, arch, suffix, machine in (
        ("torch-cuda", "9.0", "cubin", "EM_CUDA"),
        ("torch-rocm", "gfx942", "hsaco", "EM_AMDGPU"),
    ):
        directory = project / "build" / variant / "_aot"
        [code] = directory.glob(f"scale-*.{arch}.{suffix}")
        with code.open("rb") as file:
            assert ELFFile(file)["e_machine"] == machine
        assert b"kernels.py" in code.read_bytes()
        assert b"sandbox" not in code.read_bytes()
        facts = json.loads(code.with_suffix(".json").read_text(encoding="utf-8"))
        assert facts["parameters"] == [["out", "*fp32"], ["x", "*fp32"], ["count", "i32"], ["factor", "fp32"]]
        assert {"__init__.py", "_cuda.py", "_kernel.py", "index.json"} <= {path.name for path in directory.iterdir()}


def test_only_what_a_compile_reads_compiles_anew(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _build(project, capsys)
    package = project / _KERNELS
    init = package / "__init__.py"
    init.write_text(init.read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
    assert _counts(_build(project, capsys)) == {"torch-cuda": (0, 0, 1), "torch-rocm": (0, 0, 1)}
    aot = project / "aot.toml"
    aot.write_text(aot.read_text(encoding="utf-8").replace('count = "i32"', 'count = "i64"'), encoding="utf-8")
    called = package / "arithmetic.py"
    # Another text each time: the cache of the machine has what an earlier run has compiled.
    called.write_text(called.read_text(encoding="utf-8") + f"# {time.time_ns()}\n", encoding="utf-8")
    assert _counts(_build(project, capsys)) == {"torch-cuda": (1, 0, 0), "torch-rocm": (1, 0, 0)}


def test_constants_reach_the_compile_and_the_launcher_as_written(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = shutil.copytree(PROJECTS / "triton_ahead", base / "constants")
    aot = project / "aot.toml"
    values = {"TEXT": '\u00e9\u4e2d\U0001f600"\\', "NEAR": 0.7071067811865476, "TINY": 5e-324, "LONG": 9007199254740993}
    config = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    more = f'[kernel.same]\nfunction = "second.same"\nconfigs = [{{ {config} }}]\nsignatures = [{{ out = "*i32" }}]\n'
    aot.write_text(f"{aot.read_text(encoding='utf-8')}\n{more}", encoding="utf-8")
    checks = [f"    tl.static_assert({name} == {value!a})\n" for name, value in values.items()]
    parameters = ", ".join(f"{name}: tl.constexpr" for name in values)
    begin = f"import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef same(out, {parameters}):\n"
    text = "".join([f"# {time.time_ns()}\n", begin, *checks, "    tl.store(out, 1)\n"])
    (project / _KERNELS / "second.py").write_text(text, encoding="utf-8")
    # The function of the other module is not compiled anew.
    result = _build(project, capsys, "--variant", "torch-cuda")
    assert _counts(result)["torch-cuda"][0] == 1
    [variant] = (project / "build").iterdir()
    index = json.loads((variant / "_aot" / "index.json").read_text(encoding="utf-8"))
    assert [request["constants"] for request in index["requests"].values() if request["constants"].get("TEXT")] == [
        values
    ]


def test_a_mistake_in_a_kernel_is_shown_at_its_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = project / _KERNELS / "kernels.py"
    text = kernels.read_text(encoding="utf-8")
    kernels.write_text(text.replace("tl.load(", "tl.laod("), encoding="utf-8")
    result = _build(project, capsys, "--variant", "torch-cuda")
    kernels.write_text(text, encoding="utf-8")
    [found] = [wrong for wrong in result["errors"] if wrong.get("line")]
    line = 1 + text[: text.index("tl.load(")].count("\n")
    assert (found["file"], found["line"]) == (str(kernels), line)
    assert "laod" in found["message"]


def test_its_machine_code_is_shown_with_the_lines_of_the_kernel(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["asm", str(project), "scale", "--source", "--json"]) == 0
    [function] = json.loads(capsys.readouterr().out)["functions"]
    assert re.fullmatch(r"scale<\*fp32:16, \*fp32:16, i(32|64), fp32, BLOCK=64>", function["name"])
    assert (function["arch"], function["is_entry"], function["spills"]) == ("9.0", True, 0)
    assert function["registers"] > 0
    assert f"// {_KERNELS}/arithmetic.py:8" in function["code"]


def test_its_sizes_are_those_of_the_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert __main__.main(["size", str(project), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    directories = sorted(project.glob("build/*/_aot"))
    sizes = [sum(path.stat().st_size for path in directory.iterdir()) for directory in directories]
    assert [library["bytes"] for library in found["libraries"]] == sizes
    assert found["bytes"] == sum(sizes)
    code = {path: path.stat().st_size for directory in directories for path in directory.glob("scale-*.*[no]")}
    forms = {(arch["name"], arch["kind"]): arch["stored"] for arch in found["archs"]}
    assert forms == {
        ("9.0", "SASS"): sum(size for path, size in code.items() if path.suffix == ".cubin"),
        ("gfx942", "AMDGPU"): sum(size for path, size in code.items() if path.suffix == ".hsaco"),
    }
    assert {kernel["name"]: kernel["archs"] for kernel in found["kernels"]}["scale"] == ["9.0", "gfx942"]
    assert all(
        re.fullmatch(r"scale<.*BLOCK=64>|shared by kernels: .*", instance["name"]) for instance in found["instances"]
    )


@pytest.fixture(scope="module")
def site(project: Path) -> Path:
    """The locked Triton, for a test that runs it itself."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the locked Triton is for Python 3.11")
    assert __main__.main(["build", str(project), "--variant", "torch-cuda"]) == 0
    info = [str(ROOT / "driver"), "bazel", "--", "info", "output_base"]
    output_base = subprocess.run(
        info, cwd=common_workspace(), capture_output=True, text=True, check=True
    ).stdout.strip()
    [found] = Path(output_base).glob("external/*torch_kernels_triton_3_9/site")
    return found


def _compiled(  # noqa: PLR0913  (what, where and for whom)
    site: Path,
    directory: Path,
    text: str,
    backend: str = "cuda",
    arch: str = "9.0",
    *,
    signature: dict[str, str] | None = None,
    encoding: str = "utf-8",
) -> tuple[str, str]:
    """The assembly of the function `store` of a module; and what is wrong with that."""
    module = directory / "kernels.py"
    module.write_text(text, encoding=encoding)
    types = {"out": "*i32"} if signature is None else signature
    request = {"package": "pkg", "function": "kernels.store", "constants": {}, "options": {}, "signature": types}
    words = [json.dumps({**request, "backend": backend, "arch": arch}), str(directory / "code")]
    file = ["-f", "pkg/kernels.py", "torch-ext/pkg/kernels.py", str(module)]
    command = [sys.executable, "-I", "-S", "-B", str(ROOT / "toolchains/triton/compile.py"), str(site), *words, *file]
    done = subprocess.run(command, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    found = directory / "code.txt"
    return found.read_text(encoding="utf-8") if done.returncode == 0 else "", done.stderr


@pytest.mark.parametrize(
    ("backend", "arch", "stored"),
    [("cuda", "9.0", "1041"), ("cuda", "8.0", "1031"), ("hip", "gfx942", hex(1012))],
)
def test_what_is_known_of_the_target_is_told(site: Path, tmp_path: Path, backend: str, arch: str, stored: str) -> None:
    assert stored in _compiled(site, tmp_path, _STORES.format(value=_KNOWN), backend, arch)[0]


def test_a_value_that_depends_on_another_package_is_an_error(site: Path, tmp_path: Path) -> None:
    text, wrong = _compiled(site, tmp_path, _STORES.format(value="1 if einops.fast else 2"))
    assert text == ""
    line = _STORES.partition("X = ")[0].count("\n") + 1
    assert wrong.startswith(f"{tmp_path / 'kernels.py'}:{line}:1: error: the value of `X` depends on another package")


def test_a_callee_that_depends_on_another_package_is_an_error(site: Path, tmp_path: Path) -> None:
    text = _STORES.format(value="1").replace("tl.store(out, X)", "tl.store(out, f())")
    callees = [f"\n\n@triton.jit\ndef {name}():\n    return {value}\n" for name, value in (("f", 1), ("g", 2))]
    text = "".join(
        [*text.partition("X = ")[:1], *callees, "\n\nif torch.fast:\n    f = g\n\n", text.partition("\n\n\n")[2]]
    )
    code, wrong = _compiled(site, tmp_path, text)
    assert code == ""
    line = text.partition("def store")[0].count("\n") + 1
    assert wrong.startswith(f"{tmp_path / 'kernels.py'}:{line}:1: error: `store` or what it calls depends on another")


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("len(open('table.txt').read())", "reads `table.txt`"),
        ("len(__import__('os').listdir('.'))", "lists `.`"),
        ("__import__('os').system('exit 3')", "runs `exit 3`"),
        ("__import__('os').path.exists('/usr/lib')", "looks for `/usr/lib`"),
        ("len(__import__('importlib.metadata').metadata.version('torch'))", "`X` depends on another package"),
        ("int(__import__('os').environ.get('STEPS', '3'))", "`X` depends on an environment variable"),
        ("1 if __import__('os').getenv('STEPS') else 2", "`X` depends on an environment variable"),
        (
            "__import__('importlib').import_module('pkg.' + 'other').y",
            "imports `pkg.other` by a name that is not a literal",
        ),
    ],
    ids=["file", "directory", "program", "exists", "installed", "environ", "getenv", "import"],
)
def test_a_value_that_depends_on_the_machine_is_an_error(site: Path, tmp_path: Path, value: str, wrong: str) -> None:
    (tmp_path / "table.txt").write_text("text", encoding="utf-8")
    # What the author does about it without hiding it.
    text = _STORES.replace(
        "X = tl.constexpr({value})", f"try:\n    Y = {value}\nexcept Exception:\n    Y = 5\n{{value}}"
    )
    code, found = _compiled(site, tmp_path, text.format(value="X = tl.constexpr(Y if isinstance(Y, int) else 7)"))
    assert code == ""
    assert wrong in found


@pytest.mark.parametrize(("mark", "encoding"), [("", "utf-8-sig"), ("# -*- coding: latin-1 -*-\n", "latin-1")])
def test_a_module_has_the_encoding_that_it_names(site: Path, tmp_path: Path, mark: str, encoding: str) -> None:
    text = f"{mark}# \u00e9\n{_STORES.format(value='17')}".encode(encoding)
    assert "17" in _compiled(site, tmp_path, text.decode("latin-1"), encoding="latin-1")[0]


def test_a_variable_that_no_kernel_depends_on_may_be_read(site: Path, tmp_path: Path) -> None:
    level = 'import logging\nimport os\n\nlogging.getLogger("a").setLevel(os.environ.get("LEVEL", "INFO"))\n'
    assert _compiled(site, tmp_path, level + _STORES.format(value="17"))[0]


@pytest.mark.parametrize(
    ("decorator", "type_", "wrong"),
    [
        ("@triton.jit\n", "i32", "is annotated as i64, not i32"),
        ("@triton.jit\n", "1", "is annotated as i64, not 1"),
        ("@triton.jit\n", "None", "is annotated as i64, not None"),
        ("@(lambda function: function.fn)\n@triton.jit\n", "i64", "is not a function of `triton.jit`"),
        ("@triton.jit\n@(lambda function: lambda out, m: 1)\n", "i64", "has the parameters out, m, which differ"),
    ],
    ids=["type", "one", "none", "function", "parameters"],
)
def test_a_function_that_is_not_as_listed_is_an_error(
    site: Path, tmp_path: Path, decorator: str, type_: str, wrong: str
) -> None:
    text = _STORES.format(value="1").replace("@triton.jit\n", decorator).replace("(out)", "(out, n: tl.int64)")
    code, found = _compiled(site, tmp_path, text, signature={"out": "*i32", "n": type_})
    assert code == ""
    assert wrong in found


def test_asserts_of_a_function_with_debug_are_compiled(site: Path, tmp_path: Path) -> None:
    text = _STORES.format(value="1").replace("    tl.store", "    tl.device_assert(tl.program_id(0) < 5)\n    tl.store")
    assert "__assertfail" not in _compiled(site, tmp_path, text)[0]
    (tmp_path / "code").unlink()
    assert "__assertfail" in _compiled(site, tmp_path, text.replace("triton.jit", "triton.jit(debug=True)"))[0]
    # The function that asserts has parameters of its own.
    assert json.loads((tmp_path / "code.json").read_text(encoding="utf-8"))["hidden"] == 2


def test_what_a_launch_needs_to_know_of_decorators_is_told(site: Path, tmp_path: Path) -> None:
    config = "triton.Config({'B': 32}, pre_hook=print), triton.Config({'C': 3, 'clc': True})"
    prune = "{'early_config_prune': max}"
    decorators = (
        f"@triton.autotune([{config}], key=[], prune_configs_by={prune})\n@triton.heuristics({{'E': len}})\n@triton.jit"
    )
    constants = "(out, B: tl.constexpr = 1, C: tl.constexpr = 2, E: tl.constexpr = 3)"
    text = _STORES.format(value="1").replace("@triton.jit", decorators).replace("(out)", constants)
    assert _compiled(site, tmp_path, text)[1] == ""
    facts = json.loads((tmp_path / "code.json").read_text(encoding="utf-8"))
    assert (facts["tuned"], facts["heuristics"]) == (["B", "C", "clc"], ["E"])
    assert (facts["pruned"], facts["others"]) == (True, ["clc"])
    assert (facts["defaults"], facts["floats"]) == ({"B": 1, "C": 2, "E": 3}, [])
    assert (facts["config_hook"], facts["hook"]) == (True, False)


def test_what_triton_compiles_is_recorded(base: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU has its place taken by the name of one: Triton compiles for it and launches nothing."""
    project = shutil.copytree(PROJECTS / "triton_ahead", base / "traced")
    manifest = project / "build.toml"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace('["cuda"', '["cpu", "cuda"'), encoding="utf-8")
    (project / _KERNELS / "__init__.py").write_text("", encoding="utf-8")
    (project / _KERNELS / "second.py").write_text(_SECOND, encoding="utf-8")
    (base / "launch.py").write_text(_LAUNCH, encoding="utf-8")
    info = [str(ROOT / "driver"), "bazel", "--", "info", "output_base"]
    output_base = subprocess.run(
        info, cwd=common_workspace(), capture_output=True, text=True, check=True
    ).stdout.strip()
    [site] = Path(output_base).glob("external/*torch_kernels_triton_3_9/site")
    words = [
        "env",
        f"TRITON_CACHE_DIR={base / 'triton'}",
        "sh",
        "-c",
        'PYTHONPATH="$PYTHONPATH:$0" exec "$@"',
        str(site),
    ]
    command = [*words, sys.executable, str(base / "launch.py"), str(project / "torch-ext")]
    local = ["trace", str(project), "--torch", "2.13", "--backend", "cpu"]
    assert __main__.main([*local, "--json", "--", *command]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [call["config"] for call in found["calls"]] == [
        {"BLOCK": 128, "num_warps": 8},
        {"BLOCK": 64, "num_warps": 4},
    ]
    assert [call["signature"]["count"] for call in found["calls"]] == ["i32:16", "i32"]
    assert [call["new"] for call in found["calls"]] == [True, False]
    assert found["left"] == ["second.typed", "second.fused", "second.decided"]
    assert __main__.main(["check", str(project)]) == 0
    assert (project / "aot.toml").read_text(encoding="utf-8").count("signatures") == 2
