"""The ABI check on the libraries of tests/abi, which break one rule each; beside other checkers; under fuzz."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from py_driver import __main__
from py_driver.building import abi_check
from py_driver.building import build as building
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
ABI = ROOT / "tests" / "abi"
LIBRARIES = ABI / "libraries"
TOOLS = ROOT / "rules" / "private" / "tools"
JUDGES = ["kernel-abi-check==0.14.1", "auditwheel==6.8.2", "abi3audit==0.0.26"]

CPU = "torch213-*-cpu-*"
GOOD = {"--init": "good"}
GPU = {**GOOD, "--archs": "8.0,9.0a+PTX,10.0f,12.0+PTX"}
OLD = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
NEW = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
UNIQUE = "_ZZ6singlevE5value"
UNDEFINED = {("undefined-symbol", name) for name in ("_ZN5other9elsewhereEv", "_ZN2at6native8internalEv")}

CALLS = {
    ("undefined-symbol", name) for name in ("custom_gemm", "cublasSgemm_v2", "cublasNonsense", "cudaNonsense", "nvFoo")
}
HIP_CALLS = {("undefined-symbol", name) for name in ("rocblas_sgemm", "rocblas_nonsense")}

BINDING = "rules_torch_kernels_binding_"
CREATES = ("python-abi", "PyModule_Create2")
FOR_ARM = {("init-function", "PyInit_*")}
EXPECTED: list[tuple[str, Mapping[str, str], set[tuple[str, str]]]] = [
    ("good", {}, set()),
    ("good", {**GOOD, "--cxx-abi": "cxx11", "--archs": "none"}, set()),
    ("good", {**GOOD, "--cxx-abi": "cxx98"}, {("cxx-abi", NEW)}),
    ("good", {**GOOD, "--torch-stable-abi": "2.9"}, {("torch-stable-abi", NEW)}),
    ("good", {**GOOD, "--archs": "9.0a"}, {("gpu-code", "sm_90a")}),
    ("good", {"--init": "bad"}, {("exported-symbol", "PyInit_good"), ("init-function", "PyInit_bad")}),
    ("good_stripped", GOOD, set()),
    ("good_sectionless", {**GOOD, "--cxx-abi": "cxx98"}, {("cxx-abi", NEW)}),
    ("good_sysv_hash", GOOD, set()),
    ("good_stable", {**GOOD, "--torch-stable-abi": "2.10"}, set()),
    ("good_static_tls", GOOD, set()),
    ("good_dynamic_tls", GOOD, set()),
    ("good_flags", GOOD, set()),
    ("static_tls", GOOD, {("static-tls", "PT_TLS")}),
    ("nodlopen", GOOD, {("dynamic-flag", "DF_1_NOOPEN")}),
    ("initfirst", GOOD, {("dynamic-flag", "DF_1_INITFIRST")}),
    ("interpose", GOOD, {("dynamic-flag", "DF_1_INTERPOSE")}),
    ("global", GOOD, {("dynamic-flag", "DF_1_GLOBAL")}),
    ("filter", GOOD, {("dynamic-tag", "DT_FILTER")}),
    ("auxiliary", GOOD, {("dynamic-tag", "DT_AUXILIARY")}),
    ("relr", GOOD, {("dynamic-tag", name) for name in ("DT_RELR", "DT_RELRSZ", "DT_RELRENT")}),
    ("android_rel", GOOD, {("dynamic-tag", name) for name in ("DT_ANDROID_RELA", "DT_ANDROID_RELASZ")}),
    ("pages", GOOD, {("program-header", "PT_LOAD")}),
    ("weak", GOOD, set()),
    ("weak", {**GOOD, "--torch": "2.13", "--backend": "cpu"}, {("undefined-symbol", "own_hook")}),
    ("claims", GOOD, {("undefined-symbol", "of_nobody")}),
    ("torch_brings", GOOD, set()),
    ("torch_brings", {**GOOD, "--torch": "2.13", "--backend": "cu130"}, set()),
    ("gpu", GPU, set()),
    ("gpu", {**GOOD, "--archs": "none"}, {("gpu-code", arch) for arch in ("sm_80", "sm_90a", "sm_100f", "sm_120")}
     | {("gpu-code", arch) for arch in ("compute_90a", "compute_120")}),
    ("gpu", {**GPU, "--archs": "8.0,9.0+PTX,10.0f,12.0+PTX"},
     {("gpu-code", arch) for arch in ("sm_90", "sm_90a", "compute_90", "compute_90a")}),
    ("hip", {**GOOD, "--archs": "gfx90a,gfx942:sramecc+:xnack-"}, set()),
    ("hip", {**GOOD, "--archs": "gfx90a,gfx942"},
     {("gpu-code", arch) for arch in ("gfx942", "gfx942:sramecc+:xnack-")}),
    ("hip", {**GOOD, "--metadata-archs": "gfx90a,gfx942"}, set()),
    ("hip", {**GOOD, "--metadata-archs": "gfx90a,gfx942", "--archs": "gfx90a,gfx942:sramecc+:xnack-"}, set()),
    ("hip", {**GOOD, "--metadata-archs": "gfx90a", "--archs": "gfx90a,gfx942:sramecc+:xnack-"},
     {("gpu-code", "gfx942")}),
    ("hip", {**GOOD, "--metadata-archs": "gfx942,gfx1100"}, {("gpu-code", "gfx90a"), ("gpu-code", "gfx1100")}),
    ("hip", {**GOOD, "--metadata-archs": "gfx90a,gfx942:sramecc+:xnack-"},
     {("gpu-code", arch) for arch in ("gfx942", "gfx942:sramecc+:xnack-")}),
    ("gpu", {**GOOD, "--metadata-archs": GPU["--archs"]}, set()),
    ("gpu", {**GOOD, "--metadata-archs": "9.0a+PTX,10.0f,12.0+PTX"}, {("gpu-code", "sm_80")}),
    ("glibc_new", GOOD, {("symbol-version", "GLIBC_2.34")}),
    ("glibc_new_stripped", GOOD, {("symbol-version", "GLIBC_2.34")}),
    ("glibc_new_gnu", GOOD, {("symbol-version", "GLIBC_2.34")}),
    ("glibc_private", GOOD, {("symbol-version", "GLIBC_PRIVATE")}),
    ("glibcxx_new", GOOD, {("symbol-version", "GLIBCXX_3.4.29")}),
    ("cxxabi_tm", GOOD, {("symbol-version", "CXXABI_TM_1")}),
    ("gcc_new", GOOD, {("symbol-version", "GCC_12.0.0")}),
    ("libatomic", GOOD, {("symbol-version", "LIBATOMIC_1.0"), ("needed-library", "libatomic.so.1")}),
    ("libatomic_gnu", GOOD, {("symbol-version", "LIBATOMIC_1.0"), ("needed-library", "libatomic.so.1")}),
    ("python_newer", GOOD, {("python-abi", "PyIter_Send")}),
    ("python_unstable", GOOD, {("python-abi", "PyRun_SimpleString"), ("python-abi", "_PyObject_GetDictPtr")}),
    ("needs_python", GOOD, {("needed-library", "libpython3.12.so.1.0"), ("needed-library", "libtorch_python.so")}),
    ("rpath", GOOD, {("search-path", "/opt/lib")}),
    ("runpath", GOOD, {("search-path", "$ORIGIN/../lib")}),
    ("unique", GOOD, {("unique-symbol", UNIQUE), ("exported-symbol", UNIQUE)}),
    ("export", GOOD, {("exported-symbol", "helper")}),
    ("two_modules", GOOD, {("exported-symbol", "PyInit_other")}),
    ("no_module", GOOD, {("init-function", "PyInit_good")}),
    ("good", {"--module": "good"}, set()),
    ("good", {"--module": "bad"}, {("exported-symbol", "PyInit_good")}),
    ("no_module", {"--module": "good"}, set()),
    ("two_modules", {"--module": "good"}, {("exported-symbol", "PyInit_other")}),
    ("good", {"--binding": "good"}, {("exported-symbol", "PyInit_good"), ("init-function", f"{BINDING}good"), CREATES}),
    ("binding", {"--binding": "good"}, set()),
    ("binding", {"--binding": "bad"}, {("exported-symbol", f"{BINDING}good"), ("init-function", f"{BINDING}bad")}),
    ("binding", {"--module": "good"}, {("exported-symbol", f"{BINDING}good")}),
    ("executable_stack", GOOD, {("executable-stack", "PT_GNU_STACK")}),
    ("no_relro", GOOD, {("relro", "PT_GNU_RELRO")}),
    ("lazy", GOOD, {("relro", "BIND_NOW")}),
    ("textrel", GOOD, {("text-relocations", "TEXTREL")}),
    ("old_string", {**GOOD, "--cxx-abi": "cxx11"}, {("cxx-abi", OLD)}),
    ("old_string", {**GOOD, "--cxx-abi": "cxx98"}, set()),
    ("good", {**GOOD, "--torch": "2.13", "--backend": "cpu", "--cxx-abi": "cxx11"}, set()),
    ("good", {**GOOD, "--torch": "2.6", "--backend": "cpu", "--cxx-abi": "cxx11"}, set()),
    ("good", {**GOOD, "--torch": "2.6", "--backend": "cpu"}, {("undefined-symbol", NEW)}),
    ("good", {**GOOD, "--torch": "1.0"}, set()),
    ("good_stable", {**GOOD, "--torch": "2.9"}, {("undefined-symbol", "torch_library_impl")}),
    ("good_stable", {**GOOD, "--torch": "2.10"}, set()),
    ("old_string", {**GOOD, "--torch": "2.6", "--cxx-abi": "cxx98"}, set()),
    ("old_string", {**GOOD, "--torch": "2.7"}, {("undefined-symbol", OLD)}),
    ("undefined", GOOD, set()),
    ("undefined", {**GOOD, "--torch": "2.13"}, UNDEFINED | {("undefined-symbol", "cublasCreate_v2")}),
    ("undefined", {**GOOD, "--torch": "2.13", "--backend": "cpu"},
     UNDEFINED | {("undefined-symbol", "cublasCreate_v2")}),
    ("gpu_calls", GOOD, set()),
    ("gpu_calls", {**GOOD, "--torch": "2.13"}, CALLS),
    ("gpu_calls", {**GOOD, "--torch": "2.13", "--backend": "cu130"}, CALLS),
    ("gpu_calls", {**GOOD, "--torch": "2.13", "--backend": "cpu"}, CALLS | {("undefined-symbol", "cudaMalloc")}),
    ("gpu_versions", {**GOOD, "--torch": "2.13"}, {("undefined-symbol", "cudaNonsense")}),
    ("gpu_unrecorded", {**GOOD, "--torch": "2.13"}, set()),
    ("gpu_unrecorded", {**GOOD, "--torch": "2.13", "--backend": "cu130"}, set()),
    ("hip_calls", {**GOOD, "--torch": "2.13"}, HIP_CALLS | {("undefined-symbol", "hipFoo")}),
    ("hip_calls", {**GOOD, "--torch": "2.13", "--backend": "rocm72"}, HIP_CALLS | {("undefined-symbol", "hipFoo")}),
    ("hip_calls", {**GOOD, "--torch": "2.13", "--backend": "rocm71"}, HIP_CALLS),
    ("shim_new", {**GOOD, "--torch-stable-abi": "2.10"}, {("torch-stable-abi", "torch_library_def_with_tags")}),
    ("shim_new", {**GOOD, "--torch-stable-abi": "2.12"}, set()),
    ("aarch64", {"--cpu": "x86_64"}, {("file-type", "")}),
    ("aarch64_calls", {}, FOR_ARM),
    ("aarch64_calls", {"--torch": "2.13", "--backend": "cpu"}, {*FOR_ARM, ("undefined-symbol", "sgemm_")}),
    ("aarch64_calls", {"--torch": "2.13", "--cpu": "aarch64"}, {*FOR_ARM, ("undefined-symbol", "sgemm_")}),
    ("undefined", {**GOOD, "--cpu": "x86_64"}, set()),
    ("undefined", {**GOOD, "--cpu": "aarch64"}, {("file-type", "")}),
    ("i386", {}, {("file-type", "")}),
]  # fmt: skip

# `cuobjdump --list-elf` and `--list-ptx` of CUDA 12.4, less the name of the file. Of machine code it shows no suffix.
CUOBJDUMP = {"sm_80.cubin", "sm_90.cubin", "sm_100.cubin", "sm_120.cubin", "sm_90a.ptx", "sm_120.ptx"}


@pytest.fixture(scope="module")
def program() -> Path:
    return abi_check.build_program(Output())


def findings(program: Path, name: str, options: Mapping[str, str]) -> set[tuple[str, str]]:
    checked = abi_check.check(program, LIBRARIES / f"{name}.so", options, Releases())
    assert not checked.failure
    return {(finding["rule"], finding["subject"]) for finding in checked.findings}


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "options", "expected"), EXPECTED)
def test_each_rule_finds_its_bad_library(
    program: Path, name: str, options: Mapping[str, str], expected: set[tuple[str, str]]
) -> None:
    assert findings(program, name, options) == expected


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "options", "symbol", "said"),
    [
        ("gpu_calls", {}, "custom_gemm", "no library defines it"),
        ("gpu_calls", {"--backend": "cu118"}, "cublasSgemm_v2", "libcublas.so.11 of CUDA 11.8 defines it"),
        ("gpu_calls", {"--backend": "cu130"}, "cublasSgemm_v2", "libcublas.so.13 of CUDA 13.0 defines it"),
        ("hip_calls", {"--backend": "rocm72"}, "rocblas_sgemm", "librocblas.so.5 of ROCm 7.2 defines it"),
        ("hip_calls", {"--backend": "rocm72"}, "rocblas_nonsense", "no library defines it"),
        ("gpu_calls", {"--backend": "rocm71"}, "custom_gemm", "no library defines it"),
        ("hip_calls", {"--backend": "rocm71"}, "rocblas_nonsense", "librocblas.so may define it"),
    ],
)
def test_the_library_that_defines_a_symbol_is_named(
    program: Path, name: str, options: Mapping[str, str], symbol: str, said: str
) -> None:
    checked = abi_check.check(program, LIBRARIES / f"{name}.so", {**GOOD, "--torch": "2.13", **options}, Releases())
    [message] = [finding["message"] for finding in checked.findings if finding["subject"] == symbol]
    assert message.startswith(said)


@pytest.mark.e2e
def test_what_could_not_be_looked_up_is_noted(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "cublasNonsense: probably in libcublas.so.10, whose symbols are not recorded"
    path = LIBRARIES / "gpu_unrecorded.so"
    assert abi_check.check(program, path, {**GOOD, "--torch": "2.13"}, Releases()).notes == (note,)
    assert __main__.main(["abi-check", str(path), "--torch=2.13"]) == 0
    assert capsys.readouterr().out == f"{path}: passes the ABI check; device code: none\n  note: {note}\n"


def test_every_library_is_expected_something_of() -> None:
    assert {path.stem for path in LIBRARIES.iterdir()} == {name for name, _, _ in EXPECTED}
    assert all(path.stat().st_size < 20_000 for path in LIBRARIES.iterdir())


@pytest.mark.e2e
def test_gpu_code_is_what_cuobjdump_lists(program: Path) -> None:
    path = LIBRARIES / "gpu.so"
    ours = abi_check.check(program, path, {}, Releases()).gpu_code
    assert ours == ("sm_80", "sm_90a", "sm_100f", "sm_120", "compute_90a", "compute_120")
    machine = {f"{name.rstrip('af')}.cubin" for name in ours if name.startswith("sm_")}
    assert (
        machine | {f"{name.replace('compute', 'sm')}.ptx" for name in ours if name.startswith("compute_")} == CUOBJDUMP
    )
    if shutil.which("cuobjdump"):
        said = [
            subprocess.run(["cuobjdump", option, path], check=True, capture_output=True, text=True).stdout
            for option in ("--list-elf", "--list-ptx")
        ]
        assert {re.sub(r"[af](?=.cubin)", "", name) for name in re.findall(r"sm_\w+\.\w+", "".join(said))} == CUOBJDUMP


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    python = ensure_venv("judges", JUDGES, Output())
    command = [python, ABI / "judges.py", *sorted(LIBRARIES.glob("*.so"))]
    said: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return said


def _ours(program: Path, rule: str) -> dict[str, list[str]]:
    names = sorted({name for name, _, _ in EXPECTED})
    return {name: sorted(subject for kind, subject in findings(program, name, {}) if kind == rule) for name in names}


@pytest.mark.e2e
def test_python_findings_are_those_of_both_other_checkers(program: Path, judged: dict[str, Any]) -> None:
    ours = _ours(program, "python-abi")
    assert {name: said["kernel-abi-check"]["python"] for name, said in judged.items()} == ours
    assert {name: said["abi3audit"] for name, said in judged.items()} == ours


@pytest.mark.e2e
def test_version_findings_are_auditwheels_and_stricter(program: Path, judged: dict[str, Any]) -> None:
    ours = {name for name, found in _ours(program, "symbol-version").items() if found}
    theirs = {name for name, said in judged.items() if not said["auditwheel"]}
    # manylinux_2_28 allows transactional memory, and libatomic, which torch does not bring.
    assert ours - theirs == {"cxxabi_tm", "libatomic", "libatomic_gnu"}
    assert theirs <= ours


@pytest.mark.e2e
def test_version_findings_are_kernel_abi_checks_where_it_sees_any(program: Path, judged: dict[str, Any]) -> None:
    theirs = {name: versions for name, said in judged.items() if (versions := said["kernel-abi-check"]["versions"])}
    # It reads them out of the names in .symtab: GNU ld writes them there, other linkers do not, and strip removes them.
    assert theirs == {"glibc_new_gnu": ["GLIBC_2.34"]}
    assert _ours(program, "symbol-version")["glibc_new_gnu"] == ["GLIBC_2.34"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an ELF file"),
        (b"!<arch>\n", "not an ELF file"),
        (b"\x7fELF", "truncated or malformed: the header"),
        ((LIBRARIES / "good.so").read_bytes()[:-1], "truncated or malformed: the section headers"),
        ((LIBRARIES / "good.so").read_bytes()[:200], "truncated or malformed: the program headers"),
    ],
)
def test_what_cannot_be_judged(program: Path, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert abi_check.check(program, path, {}, Releases()).failure == f"{path}: {said}"


@pytest.fixture(scope="module")
def zig(program: Path) -> Path:
    """The compiler of the toolchain."""
    [output_base] = [parent.parent for parent in program.parents if parent.name == "execroot"]
    return next(output_base.glob("external/*torch_kernels_cc/zig/zig"))


def _object(zig: Path, directory: Path, assembly: str) -> Path:
    source, made = directory / "x.s", directory / "x.o"
    source.write_text(assembly, encoding="ascii")
    command = [str(zig), "clang", "--target=x86_64-linux-gnu", "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True, env={"ZIG_GLOBAL_CACHE_DIR": str(directory)})
    return made


STRINGS = [
    ("_Z8describeSs", "cxx98"),
    ("_ZNSs4_Rep9_S_createEmmRKSaIcE", "cxx98"),
    ("_ZN4pathC2ISsS0_EERKT_", "cxx98"),
    ("_ZTSSt6vectorISsSaISsEE", "cxx98"),
    ("_Z4joinRKSbIwSt11char_traitsIwESaIwEE.cold", "cxx98"),
    ("_Z5countRSt4listIiSaIiEE", "cxx98"),
    ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm", "cxx11"),
    ("_ZNKSt3_V214error_category10_M_messageB5cxx11Ei", "cxx11"),
    ("_Z5countRNSt7__cxx114listIiSaIiEEE", "cxx11"),
    ("_Z6massSsRKSt17basic_string_viewIcSt11char_traitsIcEE", ""),
    ("_ZZ1fvENKUlvE5_clI7wSsxxxxEEvv", ""),
    ("_ZTSs", ""),
    ("_Z3onev.partSs", ""),
    ("describeSs", ""),
    ("_Z", ""),
]


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "known"), STRINGS)
def test_an_object_of_the_other_abi_is_found(program: Path, zig: Path, tmp_path: Path, name: str, known: str) -> None:
    made = str(_object(zig, tmp_path, f'.data\n.quad "{name}"\n'))
    for abi in ("cxx11", "cxx98"):
        checked = abi_check.check(
            program, LIBRARIES / "good_stripped.so", {"--cxx-abi": abi, "--object": made}, Releases()
        )
        found = [(finding["rule"], finding["subject"], finding["message"]) for finding in checked.findings]
        message = f"not compiled for {abi}: symbols with the other ABI: 1, such as `{name}`"
        assert found == ([("cxx-abi", made, message)] if known not in {"", abi} else [])


@pytest.mark.e2e
def test_an_object_of_very_many_sections_is_read(program: Path, zig: Path, tmp_path: Path) -> None:
    sections = "".join(f'.section .s{i},"a"\n.byte 0\n' for i in range(66_000))
    made = _object(zig, tmp_path, f"{sections}.data\n.quad _Z8describeSs\n")
    options = {"--cxx-abi": "cxx11", "--object": str(made)}
    assert len(abi_check.check(program, LIBRARIES / "good_stripped.so", options, Releases()).findings) == 1
    made.write_bytes(made.read_bytes()[:-1])
    failure = abi_check.check(program, LIBRARIES / "good_stripped.so", options, Releases()).failure
    assert failure == f"{made}: truncated or malformed: the section headers"


@pytest.mark.e2e
@pytest.mark.slow
def test_damaged_files_do_not_crash_it(zig: Path, tmp_path: Path) -> None:
    # A read out of bounds ends a safe build of the program with a signal.
    safe = tmp_path / "safe"
    options = ["-target", "x86_64-linux-none", "-OReleaseSafe", "-fsingle-threaded"]
    caches = ["--cache-dir", str(tmp_path), "--global-cache-dir", str(tmp_path)]
    modules = ["--dep", "common", f"-Mroot={TOOLS / 'abi_check' / 'check.zig'}", f"-Mcommon={TOOLS / 'common.zig'}"]
    subprocess.run([zig, "build-exe", *options, *caches, *modules, f"-femit-bin={safe}"], check=True)
    wholes = [path.read_bytes() for path in sorted(LIBRARIES.glob("*.so"))]
    dice = random.Random(20261121)  # noqa: S311  (damage, not secrets)
    path = tmp_path / "x.so"
    everything = {"--archs": "8.0", "--cxx-abi": "cxx11", "--torch": "2.13", "--torch-stable-abi": "2.9"}
    everything |= {"--object": str(path)}
    for _ in range(500):
        damaged = bytearray(dice.choice(wholes))
        if dice.random() < 0.1:
            del damaged[dice.randrange(len(damaged)) :]
        for _ in range(dice.choice([1, 2, 8]) if damaged else 0):
            at = dice.randrange(min(len(damaged), dice.choice([64, 512, 20_000])))
            damaged[at] = dice.choice([0, 1, 0x7F, 0xFF, dice.randrange(256)])
        path.write_bytes(damaged)
        failure = abi_check.check(safe, path, everything, Releases()).failure
        assert failure in {"", f"{path}: not an ELF file"} or "malformed" in failure, failure


@pytest.mark.e2e
def test_the_verb_takes_what_it_expects_from_the_variant(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.is_file()
    variant = tmp_path / "build" / "torch213-cxx11-cu130-x86_64-linux"
    variant.mkdir(parents=True)
    shutil.copy(LIBRARIES / "gpu.so", variant / "good.abi3.so")
    metadata = {"id": "good", "backend": {"type": "cuda", "archs": ["10.0f", "12.0+PTX", "8.0", "9.0a+PTX"]}}
    (variant / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    assert __main__.main(["abi-check", str(tmp_path)]) == 0
    assert "passes the ABI check; device code: sm_80" in capsys.readouterr().out
    assert __main__.main(["abi-check", str(tmp_path), "--archs=8.0", "--json"]) == 5
    result = json.loads(capsys.readouterr().out)
    assert [library["compliant"] for library in result["libraries"]] == [False]
    assert {finding["rule"] for finding in result["libraries"][0]["findings"]} == {"gpu-code"}
    assert [error["code"] for error in result["errors"]] == ["E402"]


@pytest.mark.e2e
def test_the_verb_shows_the_findings(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.is_file()
    paths = [str(LIBRARIES / "rpath.so"), str(LIBRARIES / "lazy.so")]
    assert __main__.main(["abi-check", *paths]) == 5
    captured = capsys.readouterr()
    assert "  search-path: /opt/lib: a search path for libraries" in captured.out
    assert "lazy.so fails the ABI check: 1 finding" in captured.err


@pytest.mark.parametrize("arguments", [["/nonexistent"], [str(ABI / "src")]])
def test_the_verb_needs_libraries(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["abi-check", *arguments]) == 2
    assert "error[E101]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--archs=9", "--archs=", "--archs=gfx942,8.0", "--archs=gfx", "--torch-stable-abi=2", "--cxx-abi=cxx03"]
)
def test_the_verb_refuses_options(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["abi-check", str(LIBRARIES), option]) == 2
    assert "error[E200]" in capsys.readouterr().err


@pytest.mark.e2e
def test_a_code_object_that_is_none_is_malformed(program: Path, tmp_path: Path) -> None:
    content = (LIBRARIES / "hip.so").read_bytes()
    for old, new in ((b"hipv4-amdgcn-amd-amdhsa--gfx90a", None), (b"\x03\x00\xe0\x00", b"\x03\x00\x3e\x00")):
        at = content.index(old)
        broken = content[: at - 8] + b"\xff" * 8 + content[at:] if new is None else content.replace(old, new)
        (tmp_path / "broken.so").write_bytes(broken)
        checked = abi_check.check(program, tmp_path / "broken.so", GOOD, Releases())
        assert checked.failure.endswith("truncated or malformed: the device code")


CUBINS = [match.start() for match in re.finditer(rb"\x7fELF", (LIBRARIES / "gpu.so").read_bytes())][1:]
PACKED = (LIBRARIES / "gpu.so").read_bytes().index(b"\x28\xb5\x2f\xfd")
FATBIN = (LIBRARIES / "gpu.so").read_bytes().index(b"\x50\xed\x55\xba")
DAMAGE = {
    "the magic number of the fat binary": (FATBIN, bytes(4)),
    "the size of an entry": (FATBIN + 16 + 8, b"\x01"),
    "the CPU in a cubin": (CUBINS[0] + 18, b"\x3e\x00"),
    "the architecture in a cubin": (CUBINS[0] + 49, b"\x4b"),
    "where the sections are": (CUBINS[1] + 40, b"\xff\xff\x00"),
    "the names of sections": (CUBINS[2] + 66, b"\x03" * 8),
    "what is between sections": (CUBINS[0] + 1600, b"\x01"),
    "a symbol": (CUBINS[0] + 592 + 24, b"\xff" * 8),
    "a kernel's attributes": (CUBINS[0] + 1152, b"\x00" * 16),
    "compressed PTX": (PACKED, b"\x00"),
    "the end of compressed PTX": (PACKED + 60, b"\xff" * 16),
}


@pytest.mark.e2e
@pytest.mark.parametrize("what", DAMAGE)
def test_device_code_with_overwritten_bytes_is_malformed(program: Path, tmp_path: Path, what: str) -> None:
    content = bytearray((LIBRARIES / "gpu.so").read_bytes())
    at, new = DAMAGE[what]
    assert content[at : at + len(new)] != new
    content[at : at + len(new)] = new
    (tmp_path / "broken.so").write_bytes(content)
    checked = abi_check.check(program, tmp_path / "broken.so", GPU, Releases())
    assert checked.failure.endswith("truncated or malformed: the device code"), checked


def test_expectations() -> None:
    stable = Path("x/torch-stable-abi29-cpu-x86_64-linux/_a_cpu_1.abi3.so")
    assert abi_check.expectations(stable) == {
        "--init": "_a_cpu_1",
        "--cpu": "x86_64",
        "--torch": "2.9",
        "--backend": "cpu",
        "--torch-stable-abi": "2.9",
    }
    old = Path("x/torch25-cxx98-cu118-x86_64-linux/_a_cuda_1.abi3.so")
    assert abi_check.expectations(old) == {
        "--init": "_a_cuda_1",
        "--cxx-abi": "cxx98",
        "--torch": "2.5",
        "--backend": "cu118",
        "--cpu": "x86_64",
    }
    bound = Path("x/tvm-ffi01-cu130-x86_64-linux/_a_cuda_1.so")
    assert abi_check.expectations(bound) == {"--framework": "tvm-ffi", "--backend": "cu130", "--cpu": "x86_64"}
    assert abi_check.expectations(Path("libfoo.so")) == {}


def test_expectations_of_metadata_that_is_none(tmp_path: Path) -> None:
    library = tmp_path / "_a_cpu_1.abi3.so"
    assert abi_check.expectations(library) == {"--init": "_a_cpu_1"}
    (tmp_path / "metadata.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DriverError, match="is not a JSON object"):
        abi_check.expectations(library)


@pytest.mark.e2e
def test_a_build_checks_what_it_linked(tmp_path: Path) -> None:
    project = tmp_path / "tiny"
    shutil.copytree(ROOT / "tests" / "e2e" / "projects" / "tiny", project)
    with (project / "torch-ext" / "binding.cpp").open("a", encoding="utf-8") as binding:
        binding.write('extern "C" int PyRun_SimpleString(const char*);\nint ran = PyRun_SimpleString("1");\n')
    with pytest.raises(DriverError) as failure:
        building.build(project, [CPU], Releases(), Output())
    assert [diagnostic.code for diagnostic in failure.value.diagnostics] == [Code.NOT_COMPLIANT, Code.BUILD_FAILED]
    assert "  python-abi: PyRun_SimpleString: not in Python's stable ABI" in failure.value.diagnostics[0].text
    assert not (project / "build").exists()
