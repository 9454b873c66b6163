"""Variants for Arm servers: compiled on this machine, checked, and run by CPython and torch for Arm under qemu."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from clone import PROJECTS, Built, Driver, action_counts, copy_project, digests
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from emulated import emulated
from hub import served

from py_driver.fetch.debian import resolve_debian
from py_driver.fetch.prefetch import fetch_all
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.e2e

RELU = "torch210-cxx11-cpu-aarch64-linux"
STABLE = "torch-stable-abi29-cpu-aarch64-linux"
CUDA = "torch213-cxx11-cu130-aarch64-linux"
X86 = CUDA.replace("aarch64", "x86_64")
MAX_SYMBOL_VERSIONS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
MAX_SYMBOL_VERSIONS |= dict.fromkeys(("GOMP", "OMP"), (4, 5))

TORCH = "2.10.0"  # its wheel for Arm is for CPUs alone
PYTHON = ["python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"]
LIBRARIES = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5"]
LIBRARIES += ["libsqlite3-0", "libuuid1", "libncursesw6", "libreadline8", "libtinfo6", "libdb5.3", "libcrypt1"]
PLATFORMS = [f"--platform={name}_aarch64" for name in ("manylinux_2_28", "manylinux2014", "manylinux_2_17")]
PACKAGES = ["typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "numpy", "tomlkit", "tomli"]

SCRIPT = """
import platform, sys, torch
from pathlib import Path
from kernels import get_local_kernel
assert platform.machine() == "aarch64"
relu = get_local_kernel(Path(sys.argv[1]), backend="cpu")
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    x = torch.randn(1000).to(dtype)
    assert torch.equal(relu.relu(x), torch.relu(x))
try:
    relu.relu(torch.ones(2, dtype=torch.int64))
except RuntimeError as refused:  # an exception of C++ passes through three libraries
    pass
else:
    raise AssertionError("int64 was taken")
scale = get_local_kernel(Path(sys.argv[2]), backend="cpu")
for x in (torch.randn(7, 5), torch.randn(5, 7).t(), torch.empty(0)):
    torch.testing.assert_close(scale.scale(x, -2.5), x * -2.5)

dot = get_local_kernel(Path(sys.argv[3]), backend="cpu")
a, b = torch.rand(2, 30_000, dtype=torch.float64)
for count in (3, 2):
    torch.set_num_threads(count)
    (torch.ones(400_000) + 1).sum()
    torch.testing.assert_close(dot.dot(a, b), 2 * torch.dot(a, b).item())
    assert dot.team() == count
with open("/proc/self/maps") as maps:
    runtimes = {line.split()[-1] for line in maps if "gomp" in line.split()[-1]}
assert len(runtimes) == 1, runtimes

simd = get_local_kernel(Path(sys.argv[4]), backend="cpu")
a, b = torch.randint(-128, 128, (2, 1003), dtype=torch.int8)
assert simd.dot(a, b) == (a.long() * b.long()).sum().item()
assert simd.sum_of(a.int()) == a.long().sum().item()
print(*(Path(one.__file__).parent.name for one in (relu, scale, dot, simd)))
"""


@pytest.fixture(scope="module")
def relu(clone: Driver, base: Path) -> Built:
    project = copy_project(clone.root / "examples" / "relu", base / "arm" / "relu")
    return Built(driver=clone, project=project, result=clone.build(project, RELU))


@pytest.fixture(scope="module")
def stable(clone: Driver, base: Path) -> Built:
    project = copy_project(PROJECTS / "stable", base / "arm" / "stable")
    return Built(driver=clone, project=project, result=clone.build(project, STABLE))


@pytest.fixture(scope="module")
def cuda(clone: Driver, base: Path) -> Built:
    """For both CPUs, one action after the other: equal ones that run at once would both run."""
    project = copy_project(clone.root / "examples" / "relu", base / "arm" / "relu_cuda")
    result = clone.build(project, f"{X86[:-12]}{{x86_64,aarch64}}-*", jobs=1)
    return Built(driver=clone, project=project, result=result)


@pytest.fixture(scope="module")
def python(clone: Driver, base: Path) -> Built:
    """A project whose binding includes Python.h, which is another one for each CPU."""
    project = copy_project(PROJECTS / "python_api", base / "arm" / "python_api")
    return Built(driver=clone, project=project, result=clone.build(project, RELU))


@pytest.fixture(scope="module")
def openmp(clone: Driver, base: Path) -> Built:
    """What asks for OpenMP, without the section whose flags are for one CPU."""
    project = copy_project(PROJECTS / "openmp", base / "arm" / "openmp")
    manifest, binding = project / "build.toml", project / "torch-ext" / "binding.cpp"
    text = manifest.read_text(encoding="utf-8")
    start, end = text.index("[kernel.tiles]"), text.index("[kernel.device]")
    manifest.write_text(text[:start] + text[end:], encoding="utf-8")
    text = binding.read_text(encoding="utf-8").replace("#else", "#elif !defined(CPU_KERNEL)")
    binding.write_text(text.replace("#ifdef CPU_KERNEL", "#if 0"), encoding="utf-8")
    both = RELU.replace("aarch64", "{x86_64,aarch64}")
    return Built(driver=clone, project=project, result=clone.build(project, both))


@pytest.fixture(scope="module")
def simd(clone: Driver, base: Path) -> Built:
    """A project with a section for each CPU, and one for both."""
    project = copy_project(PROJECTS / "simd", base / "arm" / "simd")
    both = RELU.replace("aarch64", "{x86_64,aarch64}")
    return Built(driver=clone, project=project, result=clone.build(project, both))


@pytest.mark.parametrize(
    ("which", "variant"),
    [
        ("relu", RELU),
        pytest.param("simd", RELU, marks=pytest.mark.slow),
        pytest.param("stable", STABLE, marks=pytest.mark.slow),
        ("cuda", CUDA),
        pytest.param("python", RELU, marks=pytest.mark.slow),
        pytest.param("openmp", RELU, marks=pytest.mark.slow),
    ],
)
def test_a_library_is_for_arm_and_asks_for_old_systems(
    which: str, variant: str, request: pytest.FixtureRequest
) -> None:
    built: Built = request.getfixturevalue(which)
    [library] = (built.build / variant).glob("*.so")
    with library.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] == "EM_AARCH64"
        dynamic: Any = elf.get_section_by_name(".dynamic")
        needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
        assert {"libc.so.6", "libtorch_cpu.so"} <= needed
        assert ({"libtorch_cuda.so", "libcudart.so.13"} <= needed) is (variant == CUDA)
        assert not any("x86" in name for name in needed)
        versions = elf.get_section_by_name(".gnu.version_r")
        assert isinstance(versions, GNUVerNeedSection)
        for _, found in versions.iter_versions():
            for version in found:
                family, _, number = version.name.partition("_")
                assert tuple(map(int, number.split("."))) <= MAX_SYMBOL_VERSIONS[family], version.name


def test_what_a_word_means(clone: Driver, relu: Built, tmp_path: Path) -> None:
    # Of the two CPUs the one of this machine is meant, unless the other one is named.
    listed = json.loads(clone.run("check", relu.project, "--json").stdout)["variants"]
    assert RELU in listed
    ours = clone.build(relu.project, "torch210-cxx11-cpu-*")
    assert [variant["variant"] for variant in ours["variants"]] == [RELU.replace("aarch64", "x86_64")]
    words = ["--torch=2.10", "--backend=cpu", "--cpu=x86_64", "--cpu=aarch64", "--json"]
    both = json.loads(clone.run("build", relu.project, *words).stdout)
    assert action_counts(both) == (0, 0, sum(action_counts(relu.result)) + sum(action_counts(ours)))
    (tmp_path / "my.toml").write_text('[platform]\ncpus = ["x86_64", "aarch64"]\n', encoding="utf-8")
    words = [f"--matrix={tmp_path}/my.toml", "--torch=2.10", "--backend=cpu", "--json"]
    meant = json.loads(clone.run("build", relu.project, *words).stdout)
    assert [variant["variant"] for variant in meant["variants"]] == [variant["variant"] for variant in both["variants"]]
    assert action_counts(meant) == action_counts(both)


@pytest.mark.slow
def test_gcc_compiles_for_both(clone: Driver, openmp: Built) -> None:
    x86 = RELU.replace("aarch64", "x86_64")
    built = {}
    for variant, loaders in ((RELU, {"ld-linux-aarch64.so.1"}), (x86, set[str]())):
        with next((openmp.build / variant).glob("*.so")).open("rb") as file:
            dynamic: Any = ELFFile(file).get_section_by_name(".dynamic")
            built[variant] = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"} - loaders
    assert built[RELU] == built[x86]
    assert "libgomp.so.1" in built[RELU]
    assert action_counts(openmp.result) == (8, 0, 0)
    chosen = clone.run("build", openmp.project, f"--variant={RELU}", "--cxx=gcc", "--json").stdout
    assert [variant["variant"] for variant in json.loads(chosen)["variants"]] == [RELU]


@pytest.mark.slow
def test_a_section_for_the_other_cpu_is_left_out(clone: Driver, simd: Built) -> None:
    assert action_counts(simd.result) == (
        10,
        0,
        0,
    )  # three of the binding and one of each of two sections, for either CPU
    said = clone.run("check", simd.project).stderr
    assert "[kernel.avx2] is for x86_64 alone, since its flags have `-mavx2`" in said
    assert "[kernel.dotprod] is for aarch64 alone, since its flags have `-march=armv8.2-a+dotprod`" in said


def test_both_cpus_have_the_same_code_for_gpus(cuda: Built) -> None:
    ours, theirs = (_gpu_code(cuda.build / variant) for variant in (CUDA, X86))
    assert len(ours) > 10_000
    assert ours == theirs
    # Of 25 actions of each those of ptxas are the same, one for each architecture; whichever comes first runs them.
    run, shared, cached = action_counts(cuda.result)
    assert (run, shared + cached) == (44, 6)


def _gpu_code(variant: Path) -> bytes:
    """The code for GPUs of a variant."""
    [library] = variant.glob("*.so")
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        assert section is not None
        return bytes(section.data())


def test_wheels_are_for_one_cpu(clone: Driver, relu: Built, base: Path) -> None:
    out = base / "arm" / "wheels"
    clone.run("wheel", relu.project, f"--variant={RELU}", f"--out={out}")
    [wheel] = out.iterdir()
    assert wheel.name.endswith("-cp39-abi3-manylinux_2_28_aarch64.whl")
    clone.build(relu.project, RELU.replace("aarch64", "x86_64"))
    refused = clone.run("wheel", relu.project, f"--out={out}", code=2).stderr
    assert "a wheel is for one CPU" in refused


def test_publishing_says_what_they_are_made_from(clone: Driver, relu: Built, cuda: Built, tmp_path: Path) -> None:
    lock = Releases().lock
    with served() as hub:
        secret = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path), "HF_TOKEN": "hf"}
        options = ["--repo-id=me/relu", "--allow-dirty", "--cpu=aarch64"]
        would = clone.run("publish", relu.project, *options, "--dry-run", env=secret).stdout
        assert f"would add     v1  build/{RELU}/metadata.json" in would
        assert not hub.repositories
        for project in (relu.project, cuda.project):
            clone.run("publish", project, *options, env=secret)
        files = hub.repositories["me/relu"].files("v1") or {}
        assert {path.split("/")[1] for path in files if path.startswith("build/")} == {RELU, CUDA}
        for variant, torch in ((RELU, "2.10"), (CUDA, "2.13")):
            statement = json.loads(files[f"provenance/{variant}.intoto.json"])
            subjects = {subject["name"] for subject in statement["subject"]}
            assert subjects == {path for path in files if path.startswith(f"build/{variant}/")}
            parts = json.loads(files[f"sbom/{variant}.cdx.json"])["components"]
            assert {
                component["purl"].partition("?arch=")[2] for component in parts if "/debian/" in component["purl"]
            } == {"arm64"}
            [wheel] = [component["hashes"][0]["content"] for component in parts if component["name"] == "torch"]
            assert wheel == lock.torch_wheel(torch, "aarch64") != lock.torch_wheel(torch, "x86_64")
            digests = [archive["digest"]["sha256"] for archive in _archives(statement)]
            assert digests == [component["hashes"][0]["content"] for component in parts]
        card = (hub.repositories["me/relu"].files("main") or {})["README.md"].decode()
        assert f"| `{CUDA}` | 2.13 | cxx11 | `cu130` |" in card


@pytest.mark.slow
def test_what_is_published_is_what_a_build_without_any_cache_makes(clone: Driver, relu: Built, tmp_path: Path) -> None:
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path), "HF_TOKEN": "hf"}
        words = ["--repo-id=me/relu", f"--variant={RELU}"]
        clone.run("publish", relu.project, *words, "--allow-dirty", env=environ)
        said = clone.run("verify", relu.project, *words, "--published", env=environ).stderr
    assert "1 variant built without any cache: every byte is the same" in said


def _archives(statement: Any) -> list[Any]:  # noqa: ANN401  (JSON)
    """What a statement says that the variant was built with, besides the project."""
    listed: list[Any] = statement["predicate"]["buildDefinition"]["resolvedDependencies"][1:]
    return listed


def test_a_library_alone_is_checked_for_its_own_cpu(clone: Driver, cuda: Built, tmp_path: Path) -> None:
    [library] = (cuda.build / CUDA).glob("*.so")
    shutil.copy(library, tmp_path / "library.so")
    words = ["abi-check", f"{tmp_path}/library.so", "--torch=2.13", "--cxx-abi=cxx11"]
    passed = clone.run(*words, "--archs=8.0,8.6,8.9,9.0,10.0,12.0+PTX").stdout
    assert "passes the ABI check; device code: sm_80" in passed
    assert "file-type" in clone.run(*words, "--cpu=x86_64", code=5).stdout


@pytest.mark.slow
def test_torch_for_arm_runs_them(relu: Built, stable: Built, openmp: Built, simd: Built, tmp_path: Path) -> None:
    root, site = tmp_path / "root", tmp_path / "site"
    _packages([*PYTHON, *LIBRARIES], "arm64", root)
    _packages(["qemu-user-static"], "amd64", tmp_path)
    _wheels([f"torch=={TORCH}", "kernels==0.17.2", "markupsafe", "pyyaml"], site, "--no-deps")
    _wheels([*PACKAGES, "huggingface_hub"], site)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    qemu = tmp_path / "usr" / "bin" / "qemu-aarch64-static"
    settings = {
        "LD_LIBRARY_PATH": "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu",
        "PYTHONPATH": str(site),
        "PYTHONHOME": str(root / "usr"),
    }
    words = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
    done = subprocess.run(
        [
            qemu,
            "-L",
            root,
            *words,
            root / "usr/bin/python3.11",
            script,
            *(project.build for project in (relu, stable, openmp, simd)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [RELU, STABLE, RELU, RELU]


@pytest.mark.slow
def test_compilers_that_run_on_arm_make_the_same_bytes(clone: Driver, relu: Built, cuda: Built, tmp_path: Path) -> None:
    # Bazel itself runs on this machine; every action is for an Arm server and all of its programs are for that.
    _packages(["qemu-user-static"], "amd64", tmp_path / "qemu")
    _packages(["libc6", "libgcc-s1"], "arm64", tmp_path / "root")
    libraries = (tmp_path / "root" / "lib",)
    within = emulated(tmp_path / "qemu" / "usr" / "bin" / "qemu-aarch64-static", tmp_path / "formats", libraries)
    other = RELU.replace("aarch64", "x86_64")
    clone.build(relu.project, other)
    variants = {RELU: relu, other: relu, CUDA: cuda, X86: cuda}
    options = ["--disk_cache=", "--jobs=2", "--extra_execution_platforms=//toolchains:aarch64"]
    options += ["--spawn_strategy=processwrapper-sandbox", f"--execution_log_json_file={tmp_path}/log.json"]
    targets = [f"//examples/relu:{variant}" for variant in variants]
    place = {"RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": f"{tmp_path}/bazel"}
    clone.run("bazel", "--", "--batch", "build", *options, *targets, env=place, within=within, seconds=1800)
    for variant, built in variants.items():
        [made] = (tmp_path / "bazel").glob(f"*/execroot/_main/bazel-out/*/bin/examples/relu/{variant}")
        assert digests(made) == digests(built.build / variant)
    log = (tmp_path / "log.json").read_text(encoding="utf-8")
    tools = set(re.findall(r'"(external/[^"]*torch_kernels_cc\w*/zig/zig)"', log))
    assert {tool.partition("torch_kernels_")[2] for tool in tools} == {
        "cc_on_aarch64/zig/zig",
        "cc_x86_64_on_aarch64/zig/zig",
    }
    for program in (tmp_path / "bazel").glob("*/execroot/_main/bazel-out/*/bin/rules/private/tools/*_program"):
        with program.open("rb") as file:
            assert ELFFile(file)["e_machine"] == "EM_AARCH64"


def _packages(names: Sequence[str], architecture: str, to: Path) -> None:
    """Unpack Debian packages."""
    to.mkdir(exist_ok=True)
    for archive in fetch_all(resolve_debian(names, "bookworm", architecture=architecture), Output()):
        subprocess.run(["dpkg", "-x", archive.path, to], check=True)


def _wheels(names: Sequence[str], to: Path, *options: str) -> None:
    """Unpack wheels for Arm and CPython 3.11."""
    command = [sys.executable, "-m", "pip", "install", "-q", f"--target={to}", "--python-version=3.11", *PLATFORMS]
    subprocess.run([*command, "--only-binary=:all:", "--upgrade", *options, *names], check=True)
    assert not [*to.rglob("*x86_64*.so")]
    assert re.search(r"aarch64", " ".join(map(str, to.rglob("*.so"))))
