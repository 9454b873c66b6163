"""An author's daily work: a project from a template, built, run, tested, timed, edited, installed; all on the CPU."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clone import CPU, Driver

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
TORCH = "--torch=2.13"
FOLLOW = """
import sys, time, torch
from rules_torch_kernels import live
sys.stdout = open(sys.argv[1], "w")
kernel = live.load("fast_silu")
first, x, last = kernel.fast_silu, torch.tensor([1.0]), None
print("started", flush=True)
while True:
    found = (round(kernel.fast_silu(x).item(), 3), round(first(x).item(), 3), kernel.fast_silu.__module__)
    if found != last:
        print(*found, flush=True)
        last = found
    time.sleep(0.01)
"""
LOAD = """
import pathlib, sys, torch
from rules_torch_kernels import BuildError, load
project, x = pathlib.Path(sys.argv[1]), torch.tensor([1.0])
source = project / "csrc" / "fast_silu.cpp"
text = source.read_text()
first = load(project)
assert load(project) is first
source.write_text(text.replace("from[i] * vec", "2 * from[i] * vec"))
second = load(project)
assert second.fast_silu(x).item() == 2 * first.fast_silu(x).item()
source.write_text(text.replace("from[i] * vec", "unheard * vec"))
try:
    load(project)
except BuildError as problem:
    assert "'unheard' was not declared in this scope" in str(problem)
else:
    raise AssertionError
assert second.fast_silu(x).item() == 2 * first.fast_silu(x).item()
source.write_text(text)
assert load(project).__name__ == first.__name__
print("loaded")
"""


@pytest.fixture(scope="module")
def python() -> str:
    return python_for([parse(CPU)], Releases(), Output())


@pytest.fixture(scope="module")
def made(clone: Driver, base: Path) -> Path:
    project = base / "fast-silu"
    clone.run("init", project, "--name=me/fast-silu")
    return project


@pytest.fixture
def project(made: Path, tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """A copy of the project that a test may change; its name is the same, so actions are shared."""
    place = base / tmp_path_factory.mktemp("author").name / "fast-silu"
    return Path(shutil.copytree(made, place, ignore=shutil.ignore_patterns(".dev", "__pycache__")))


def edit(project: Path, old: str, new: str, file: str = "csrc/fast_silu.cpp") -> None:
    path = project / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_new_project_passes_its_own_tests(clone: Driver, made: Path) -> None:
    done = clone.run("test", made, TORCH, "--", "-q")
    assert re.search(r"^98 passed, 1 skipped", done.stdout, re.MULTILINE)
    assert [path.name for path in made.iterdir() if path.name in {"build", "__pycache__", ".pytest_cache"}] == []
    assert (made / ".dev" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_an_installed_driver_begins_the_same_project(clone: Driver, installed: Driver, tmp_path: Path) -> None:
    made = []
    for name, driver in (("one", clone), ("other", installed)):
        home = {"HOME": str(tmp_path)}  # git knows the name of the author in neither
        driver.run("init", tmp_path / name, "--name=any-kernel", cwd=tmp_path, env=home)
        files = {path.relative_to(tmp_path / name): path for path in (tmp_path / name).rglob("*") if path.is_file()}
        del files[Path("compile_commands.json")]  # which names the project's directory and the headers of each cache
        made.append({path: file.read_bytes() for path, file in files.items()})
    assert made[0] == made[1]


def test_a_wrong_kernel_fails(clone: Driver, project: Path) -> None:
    edit(project, "vectors::sigmoid(from[i])", "vectors::sigmoid(from[i]) * 1.000001f")
    done = clone.run("test", project, TORCH, "--", "-q", "-x", code=1)
    assert "elements are wrong; the worst is" in done.stdout
    wrong = clone.run("bench", project, TORCH, "--json")
    assert {result["verified"] for result in json.loads(wrong.stdout)["results"]} == {True}  # as upstream compares
    edit(project, "1.000001f", "1.5f")
    failed = clone.run("bench", project, TORCH, code=6)
    assert "Float32.silu failed: the output differs from the reference by up to" in failed.stderr


@pytest.mark.slow
def test_a_cut_gradient_fails(clone: Driver, project: Path) -> None:
    package = project / "torch-ext" / "fast_silu" / "__init__.py"
    text = package.read_text(encoding="utf-8")
    cuts = {
        re.sub(r"^torch\.library\.register_autograd\(.*\n", "", text, flags=re.MULTILINE): "the op cuts it",
        text.replace("return ops.fast_silu(x)", "return ops.fast_silu(x.detach())"): "the op cuts the gradient",
        text.replace("* sigmoid * (1 + wide", "* sigmoid * (1 - wide"): "elements are wrong",
        text.replace("grad.float() *", "grad.detach().float() *"): "a second derivative is None",
    }
    assert len({*cuts, text}) == 5
    for cut, said in cuts.items():
        package.write_text(cut, encoding="utf-8")
        done = clone.run("test", project, TORCH, "--", "-q", "-k", "test_gradients and float32 and offset", code=1)
        assert re.search(rf"^E .*({said})", done.stdout, re.MULTILINE), done.stdout
        assert "1 failed" in done.stdout
    package.write_text(next(iter(cuts)), encoding="utf-8")
    assert "no backward is registered for `fast_silu`" in clone.run("check", project).stderr


def test_a_command_finds_the_kernel_as_users_do(clone: Driver, made: Path) -> None:
    program = (
        "import kernels, fast_silu, torch; k = kernels.get_kernel('me/fast-silu', version=1, backend='cpu'); "
        "print(k.__name__, k.fast_silu(torch.zeros(1)).item(), fast_silu.fast_silu(torch.zeros(1)).item())"
    )
    done = clone.run("run", made, TORCH, "--", "python", "-c", program)
    told = json.loads(clone.run("run", made, TORCH, "--json").stdout)
    assert done.stdout.split() == [told["id"], "0.0", "0.0"]
    assert (told["variant"], told["backend"], told["actions"]) == (CPU, "cpu", 0)
    assert Path(told["path"]) == made / ".dev" / told["id"] / CPU
    assert clone.run("run", made, TORCH, "--", "sh", "-c", "exit 7", code=7).stderr
    assert "`nowhere` is not a program on PATH" in clone.run("run", made, TORCH, "--", "nowhere", code=4).stderr


def test_what_looks_at_cuda_code_needs_a_gpu(clone: Driver, project: Path) -> None:
    said = clone.run("test", project, TORCH, "--under=memcheck", code=2).stderr
    assert "--under memcheck needs CUDA code and a GPU usable by torch" in said
    assert not (project / ".dev").exists()


def test_a_python_without_torch_is_named(clone: Driver, made: Path) -> None:
    said = clone.run("run", made, "--", "true", env={"RULES_TORCH_KERNELS_TORCH_PYTHON": "/bin/false"}, code=4).stderr
    assert "/bin/false has no torch" in said


def test_benchmarks_beside_another_revision(clone: Driver, project: Path, tmp_path: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    body, wait = "std::int64_t count, void*) {\n", "for (volatile int wait = 0; wait < 40000000; ++wait) {}\n"
    edit(project, body, body + wait)
    file = tmp_path / "now.json"
    clone.run("bench", project, TORCH, "--against=HEAD", f"--output={file}")
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert [result["workload"] for result in results] == ["Float32.silu", "Float16.silu", "BFloat16.silu"]
    for result in results:
        assert result["times"]["interval_us"][0] > result["base"]["interval_us"][1]
        assert result["bytes"] == 2 * (1 << 20) * (4 if "32" in result["workload"] else 2)
        assert result["timingResults"]["iterations"] == result["times"]["runs"] >= 12
    assert file.with_suffix(".svg").read_text(encoding="utf-8").startswith("<svg")
    edit(project, wait, "")
    table = clone.run("bench", project, TORCH, f"--against={file}").stdout.splitlines()
    assert float(table[1].split()[-1].removesuffix("x")) > 1
    assert "git has no commit `nowhere`" in clone.run("bench", project, TORCH, "--against=nowhere", code=2).stderr


def test_benchmarks_beside_peers(clone: Driver, project: Path, tmp_path: Path) -> None:
    peers = """
    def peers_silu(self):
        x, out = self.x, torch.empty_like(self.x)
        return {
            "in two steps": lambda: torch.mul(x, torch.sigmoid(x), out=out),
            "another\\nfunction": lambda: torch.nn.functional.gelu(x),
            "absent": lambda: torch.ops.nowhere.silu(x),
        }
"""
    edit(project, "\n    def verify_silu(self)", f"{peers}\n    def verify_silu(self)", "benchmarks/benchmark.py")
    file = tmp_path / "peers.json"
    done = clone.run("bench", project, TORCH, f"--output={file}")
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    for result in results:
        by_name = {peer["name"]: peer for peer in result["peers"]}
        assert by_name["in two steps"]["median_us"] > 0
        assert "the output differs from the reference" in by_name["another\nfunction"]["problem"]
        assert "nowhere" in by_name["absent"]["problem"]
        assert f"note: {result['workload']} is not compared with absent: AttributeError" in done.stderr
    rows = [line.split()[:3] for line in done.stdout.splitlines()]
    assert rows.count(["in", "two", "steps"]) == len(results) == 3
    assert file.with_suffix(".svg").read_text(encoding="utf-8").count(">in two steps<") == 3
    edit(project, "torch.ops.nowhere.silu(x)", "x.zero_()", "benchmarks/benchmark.py")
    said = clone.run("bench", project, TORCH, code=6).stderr
    assert "Float32.silu failed: RuntimeError: the peer absent changes the inputs" in said
    edit(project, "return {", "import nowhere\n        return {", "benchmarks/benchmark.py")
    said = clone.run("bench", project, TORCH).stderr
    assert "note: Float32.silu is not compared with peers_silu: ModuleNotFoundError: No module named 'nowhere'" in said
    edit(project, "import nowhere\n        return {", "return [", "benchmarks/benchmark.py")
    edit(project, '"absent": lambda: x.zero_(),\n        }', "]", "benchmarks/benchmark.py")
    text = (project / "benchmarks" / "benchmark.py").read_text(encoding="utf-8")
    text = text.replace('"in two steps": ', "").replace('"another\\nfunction": ', "")
    (project / "benchmarks" / "benchmark.py").write_text(text, encoding="utf-8")
    said = clone.run("bench", project, TORCH, code=6).stderr
    assert "Float32.silu failed: TypeError: peers_silu returns [" in said


@pytest.mark.slow
def test_peers_that_end_the_process_are_named_and_excluded(clone: Driver, project: Path, tmp_path: Path) -> None:
    peers = """
    def peers_silu(self):
        import os, signal
        x, calls = self.x, []

        def is_timed():
            calls.append(0)
            return os.abort() if len(calls) > 1 and x.dtype == torch.float16 else x * torch.sigmoid(x)

        return {
            "aborts": lambda: os.abort(),
            "is timed": is_timed,
            "in two steps": lambda: x * torch.sigmoid(x),
            "is killed": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        }
"""
    edit(project, "\n    def verify_silu(self)", f"{peers}\n    def verify_silu(self)", "benchmarks/benchmark.py")
    file = tmp_path / "peers.json"
    said = clone.run("bench", project, TORCH, f"--output={file}").stderr
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert [result["workload"] for result in results] == ["Float32.silu", "Float16.silu", "BFloat16.silu"]
    for result in results:
        assert result["times"]["median_us"] > 0
        problems = {peer["name"]: peer.get("problem", "") for peer in result["peers"]}
        timed = "the process ended with signal 6" if result["workload"] == "Float16.silu" else ""
        assert problems["is timed"].endswith("; timed were is timed, in two steps" if timed else "")
        assert {name: problem.partition(";")[0] for name, problem in problems.items()} == {
            "in two steps": timed,
            "is timed": timed,
            "aborts": "the process ended with signal 6",
            "is killed": "the process ended with signal 11",
        }
        assert f"note: {result['workload']} is not compared with aborts: the process ended with signal 6" in said
    edit(project, "import os, signal", "import os; os.abort()", "benchmarks/benchmark.py")
    said = clone.run("bench", project, TORCH).stderr
    assert "note: Float32.silu is not compared with peers_silu: the process ended with signal 6" in said


@pytest.mark.slow
def test_benchmarks_that_end_the_process(clone: Driver, project: Path) -> None:
    """As a fault on a GPU does, after which nothing runs there in the same process."""
    ends = {"Aborts": "os.abort()", "Leaves": "os._exit(0)", "Exits": "raise SystemExit(0)"}
    more = "".join(
        f"class {name}(Float32):\n    def benchmark_silu(self):\n        import os; {what}\n\n\n"
        for name, what in ends.items()
    )
    edit(project, "class Float16", f"{more}class Float16", "benchmarks/benchmark.py")
    text = (project / "benchmarks" / "benchmark.py").read_text(encoding="utf-8")
    place = text.index("class Aborts"), text.index("class BFloat16")
    other = text[: place[0]] + "    def flops_silu(self):\n        return float('nan')\n"
    (project / "benchmarks" / "benchmark_other.py").write_text(other, encoding="utf-8")
    done = clone.run("bench", project, TORCH, "--json", code=6)
    results = {result["workload"]: result for result in json.loads(done.stdout)["results"]}
    named = [f"benchmark.py:{attribute}.silu" for attribute in ("Float32",)] + [f"{end}.silu" for end in ends]
    assert [*results] == [*named, "Float16.silu", "BFloat16.silu", "benchmark_other.py:Float32.silu"]
    wrong = [result for result in results if "times" not in results[result]]
    assert wrong == [*named[1:], "benchmark_other.py:Float32.silu"]
    assert results[wrong[-1]]["problem"] == "ValueError: flops_silu returns nan, which is no number above 0"
    for one in wrong:
        assert f"{one} failed: " in done.stderr
    (project / "benchmarks" / "benchmark_other.py").write_text("import os\n\nimport nowhere\n", encoding="utf-8")
    said = clone.run("bench", project, TORCH, code=6).stderr
    assert "benchmark_other.py:3: ModuleNotFoundError: No module named 'nowhere'" in said


@pytest.fixture
def follower(clone: Driver, project: Path, tmp_path: Path) -> Iterator[Any]:
    """`driver run --watch` with a command that follows; gives a way to wait for a line of what it prints."""
    script, said_to = tmp_path / "follow.py", tmp_path / "said"
    script.write_text(FOLLOW, encoding="utf-8")
    process = clone.start("run", project, TORCH, "--watch", "--", "python", script, said_to)
    place = 0

    def wait(pattern: str, seconds: float = 240) -> re.Match[str]:
        nonlocal place
        end = time.monotonic() + seconds
        while True:
            seen = said_to.read_text(encoding="utf-8")[place:] if said_to.exists() else ""
            if found := re.search(pattern, seen):
                place += found.end()
                return found
            assert time.monotonic() < end, seen
            assert process.poll() is None
            time.sleep(0.02)

    yield wait
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "'unheard' was not declared in this scope" in said


def test_watching(project: Path, follower: Any) -> None:  # noqa: ANN401  (a function)
    follower("started\n")
    first = follower(r"0\.731 0\.731 (\S+)\n")[1]
    edit(project, "from[i] * vec", "2 * from[i] * vec")
    second = follower(r"1\.462 0\.731 (\S+)\n")[1]
    edit(project, "2 * from[i] * vec", "unheard * vec")
    edit(project, "ops.fast_silu(x)", "ops.fast_silu(x) + 1", "torch-ext/fast_silu/__init__.py")
    time.sleep(3)
    edit(project, "unheard * vec", "3 * from[i] * vec")
    third = follower(r"3\.193 0\.731 (\S+)\n")[1]
    assert len({first, second, third}) == 3


def test_from_python(clone: Driver, project: Path, python: str) -> None:
    own = {
        "PYTHONPATH": str(clone.root / "py_driver" / "client"),
        "RULES_TORCH_KERNELS_DRIVER": str(clone.root / "driver"),
    }
    done = subprocess.run(
        [python, "-c", LOAD, str(project)],
        env=clone.environment(own),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr


@pytest.fixture(scope="module")
def with_driver(base: Path, pristine: Path, python: str) -> Path:
    """An environment on top of one with torch, in which the driver is installed; its directory of programs."""
    place = base / "with-driver"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    [packages] = place.glob("lib/python*/site-packages")
    [theirs] = Path(python).parents[1].glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"import site; site.addsitedir({str(theirs)!r})\n", encoding="utf-8")
    wheels = base / "wheels"
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(pristine)], check=True
    )
    pip = [str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "--find-links", str(wheels)]
    subprocess.run([*pip, "rules-torch-kernels"], check=True)
    return place / "bin"


@pytest.mark.parametrize("editable", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["installed", "editable"])
def test_pip_installs_a_project(clone: Driver, with_driver: Path, project: Path, base: Path, *, editable: bool) -> None:
    environ = clone.environment()
    command = [str(with_driver / "pip"), "install", "-q", "--find-links", str(base / "wheels")]
    subprocess.run([*command, *(["-e"] if editable else []), str(project)], check=True, env=environ)
    program = "import fast_silu, torch; print(fast_silu.fast_silu(torch.zeros(1)).item(), fast_silu.__file__)"

    def imported() -> list[str]:
        done = subprocess.run(
            [with_driver / "python", "-c", program], check=True, env=environ, capture_output=True, text=True
        )
        return done.stdout.split()

    value, file = imported()
    assert value == "0.0"
    assert Path(file).is_relative_to(project if editable else with_driver.parent)
    edit(project, "ops.fast_silu(x)", "ops.fast_silu(x) + 1", "torch-ext/fast_silu/__init__.py")
    assert imported()[0] == ("1.0" if editable else "0.0")
    subprocess.run([str(with_driver / "pip"), "uninstall", "-q", "-y", "fast-silu"], check=True, env=environ)


@pytest.mark.slow
@pytest.mark.parametrize(
    "template",
    [
        *("stable-abi", "reduction", "layer-norm", "decoder", "gemm-wmma", "gemm-blackwell", "gemm-fp8", "int4-gemm"),
        *("moe", "attention"),
    ],
)
def test_other_templates_pass_their_own_tests(clone: Driver, base: Path, template: str) -> None:
    project = base / "templates" / template
    clone.run("init", project, f"--template={template}", f"--name=me/my-{template}")
    assert " passed" in clone.run("test", project, TORCH, "--", "-q").stdout
    result = json.loads(clone.run("bench", project, TORCH, "--json").stdout)
    assert {entry["verified"] for entry in result["results"]} == {True}


def test_the_helper_catches_wrong_kernels(made: Path, python: str) -> None:
    script = ROOT / "tests" / "helpers" / "mutants.py"
    own = {**os.environ, "PYTHONPATH": str(made / "tests")}
    done = subprocess.run([python, script], check=True, capture_output=True, text=True, timeout=600, env=own)
    found = json.loads(done.stdout)
    assert not any(any(faults["right"]) for faults in found.values())
    missed = {(kind, name) for kind, faults in found.items() for name, said in faults.items() if not all(said)}
    # An accumulator of float32 may lose more over 511 terms than the unit of float16 that a wrong rounding costs.
    assert missed - {(kind, "right") for kind in found} == {("float16 product", "wrong_rounding")}
    assert sum(len(faults) - 1 for faults in found.values()) == 134
