"""What the libraries of CUDA and ROCm define: the tables in the lock, how they are read, what `driver lock` does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from fetch_server import Server, wheel

from py_driver import __main__
from py_driver.cli.arguments import MATRIX_VARIABLE
from py_driver.errors import Code, DriverError
from py_driver.matrix import lock_update as locking
from py_driver.matrix.library_symbols import is_current, read
from py_driver.matrix.releases import Releases
from py_driver.matrix.torch_symbols import soname

ABI = Path(__file__).parents[2] / "abi" / "libraries"
NAME = "demo-1.0-py3-none-any.whl"
HEADER = """
#define cuMemAlloc cuMemAlloc_v2
#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
"""
BODY = wheel(
    {
        "nvidia/cu13/lib/libcublas.so.13": (ABI / "export.so").read_bytes(),
        "nvidia/cu13/lib/libcublas.alt.so.13": (ABI / "two_modules.so").read_bytes(),
        "nvidia/cu13/lib/libnvblas.so.13": (ABI / "two_modules.so").read_bytes(),
        "nvidia/cu13/include/cuda.h": HEADER.encode(),
        "nvidia/cu13/include/cudaGL.h": b"CUresult CUDAAPI cuGLInit(void);",
    }
)
DIGEST = hashlib.sha256(BODY).hexdigest()
TEXT = f"""CUDA 13.9
[libcublas.so.13] demo 1.0 {DIGEST}
PyInit_good
helper
[libcuda.so.1] demo 1.0 {DIGEST}
cuGLInit
cuInit
cuMemAlloc
cuMemAlloc_v2
cuMemcpy
cuMemcpy_ptds
"""
CUDA = """[[cuda]]
version = "13.9"
archs = ["8.0"]
default-capabilities = ["8.0"]
host = "0.14.1"
max-clang = 19
runtime = "libcudart.so.13"
run-here = false
archives = [{ layout = "toolkit", wheel = "demo==1.0" }]
"""


def release(body: bytes = BODY) -> dict[str, Any]:
    archive = {"name": "demo", "version": "1.0", "filename": NAME, "size": len(body), "origin": "python-index"}
    return {"libraries": [{**archive, "sha256": hashlib.sha256(body).hexdigest()}]}


def definers(symbol: str) -> dict[str, set[str]]:
    """For each library that defines a symbol in some release the backends of these."""
    found: dict[str, set[str]] = {}
    for backend, path in Releases().symbols_files().items():
        library = ""
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith("["):
                library = line[1:].partition("]")[0]
            elif line == symbol:
                found.setdefault(library, set()).add(backend)
    return found


def test_every_release_is_recorded_but_those_that_cannot_be_had() -> None:
    recorded = set(Releases().symbols_files())
    assert recorded == {
        *(f"cu{version.replace('.', '')}" for version in Releases().lock.parts["cuda"]),
        "rocm72",
        "tvm_ffi",
    }
    assert set(Releases().lock.parts["rocm"]) == {"7.1", "7.2"}
    for kind in ("cuda", "rocm", "tvm_ffi"):
        for version, one in Releases().lock.parts[kind].items():
            assert is_current(Releases().symbols_file(kind, version), one), version


def test_every_library_is_recorded_in_each_release() -> None:
    for backend, path in Releases().symbols_files().items():
        text = path.read_text(encoding="ascii")
        found = {line[1:].partition(".so")[0] for line in text.splitlines() if line.startswith("[")}
        if backend.startswith("cu"):
            names = "cublas cublasLt cuda cudart cudnn cufft curand cusolver cusparse nvrtc"
            names += " nvJitLink" if backend != "cu118" else ""
        elif backend == "tvm_ffi":
            names = "tvm_ffi"
        else:
            names = "amdhip64 hipblas hipblaslt hipfft hiprand hiprtc hipsolver hipsparse"
            names += " rocblas rocfft rocrand rocsolver rocsparse"
        assert found == {f"lib{name}" for name in names.split()}, backend


def test_wheels_are_those_whose_headers_are_compiled_with() -> None:
    for version, one in Releases().lock.parts["cuda"].items():
        compiled = {entry["name"]: entry["version"] for entry in one["archives"]}
        read_from = {entry["name"]: entry["version"] for entry in one["libraries"]}
        shared = compiled.keys() & read_from.keys()
        without_headers = {name for name in read_from if "cudnn" in name}
        assert read_from.keys() - shared == without_headers, version
        assert {name: compiled[name] for name in shared} == {name: read_from[name] for name in shared}, version


def test_known_symbols_are_in_the_libraries_that_have_them() -> None:
    cuda = {backend for backend in Releases().symbols_files() if backend.startswith("cu")}
    twelve = {backend for backend in cuda if backend.startswith("cu12")}
    thirteen = {backend for backend in cuda if backend.startswith("cu13")}
    by_major = {"11": {"cu118"}, "12": twelve, "13": thirteen}
    assert definers("cublasSgemm_v2") == {f"libcublas.so.{major}": found for major, found in by_major.items()}
    runtimes = {"libcudart.so.11.0": {"cu118"}, "libcudart.so.12": twelve, "libcudart.so.13": thirteen}
    for symbol in ("__cudaRegisterFatBinary", "__cudaPushCallConfiguration", "cudaMalloc"):
        assert definers(symbol) == runtimes
    assert definers("cuGetErrorName") == {"libcuda.so.1": cuda}
    assert definers("cuTensorMapEncodeTiled") == {"libcuda.so.1": cuda - {"cu118"}}
    assert definers("hipMalloc") == {"libamdhip64.so.7": {"rocm72"}}
    assert definers("__hipRegisterFatBinary") == {"libamdhip64.so.7": {"rocm72"}}
    assert definers("rocblas_sgemm") == {"librocblas.so.5": {"rocm72"}}
    for nobody in ("custom_gemm", "cublasNonsense", "hipFoo", "ncclFoo"):
        assert definers(nobody) == {}


def test_soname() -> None:
    libc = next(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/libc.so" in line or "/libc-" in line
    )
    assert soname(Path(libc)) == "libc.so.6"
    assert soname(ABI / "good.so") == "good.so"


@pytest.mark.usefixtures("server")
def test_libraries_and_the_drivers_header_are_read(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "x.symbols"
    path.write_bytes(read("cuda", "13.9", release(), said.append))
    assert path.read_text() == TEXT
    assert said == ["CUDA 13.9: demo 1.0"]
    assert is_current(path, release())
    assert not is_current(path, release(b"other"))
    assert not is_current(tmp_path / "none.symbols", release())
    assert is_current(tmp_path / "none.symbols", {})
    assert not is_current(path, {})
    assert list((tmp_path / "cache" / "rules_torch_kernels").iterdir()) == []


def test_an_archive_without_a_library(server: Server) -> None:
    body = wheel({"demo/lib/libother.so.1": (ABI / "export.so").read_bytes()})
    server.offer("demo", {NAME: body})
    with pytest.raises(DriverError) as caught:
        read("cuda", "13.9", release(body), lambda _: None)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (Code.BAD_DIGEST, f"{NAME} has no library to record")


@pytest.mark.usefixtures("server")
def test_those_of_ones_own_lie_beside_the_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix, table = tmp_path / "my.toml", tmp_path / "my.cuda_13.9.symbols"
    matrix.write_text(CUDA, encoding="utf-8")
    monkeypatch.setenv(MATRIX_VARIABLE, str(matrix))
    assert __main__.main(["lock"]) == 0
    assert not table.exists()
    assert "cu139" not in Releases(matrix).symbols_files()
    matrix.write_text(f'{CUDA}libraries = [{{ wheel = "demo==1.0" }}]\n', encoding="utf-8")
    assert __main__.main(["lock"]) == 0
    assert table.read_text(encoding="ascii") == TEXT
    assert Releases(matrix).symbols_files()["cu139"] == table
    assert Releases(matrix).user_symbols() == {"cuda_13.9.symbols": TEXT.encode()}
    assert __main__.main(["lock", "--check"]) == 0
    table.unlink()
    capsys.readouterr()
    assert __main__.main(["lock", "--check"]) == 1
    assert f"{table} was made from other archives than `libraries` lists" in capsys.readouterr().err
    with pytest.raises(DriverError) as caught:
        Releases(matrix).user_symbols()
    assert caught.value.diagnostics[0].code is Code.STALE_LOCK
    table.write_text(TEXT, encoding="ascii")
    matrix.write_text(CUDA, encoding="utf-8")
    assert __main__.main(["lock"]) == 0
    assert not table.exists()


def test_a_table_of_other_archives_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = json.loads(json.dumps(locking.read(Releases())))
    lock["rocm"]["7.2"]["libraries"][0]["sha256"] = "0" * 64
    monkeypatch.setattr(locking, "read", lambda _: lock)
    assert __main__.main(["lock", "--check"]) == 1
    assert f"{Releases().symbols_file('rocm', '7.2')} was made from other archives" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("libraries", "message"),
    [
        ("[]", "`libraries` is empty"),
        ('["demo==1.0"]', "an archive must have one of"),
        ('[{ wheel = "demo" }]', "the archive `demo` lacks a name, `==` and a version"),
        ('[{ deb = "demo", suite = "sid" }]', "the archive `demo` lacks `component`"),
    ],
)
def test_what_is_wrong_with_libraries_is_said(
    libraries: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = tmp_path / "my.toml"
    matrix.write_text(f"{CUDA}libraries = {libraries}\n", encoding="utf-8")
    monkeypatch.setenv(MATRIX_VARIABLE, str(matrix))
    assert __main__.main(["lock"]) == 2
    assert message in capsys.readouterr().err
