"""A whole project as a kernel, from records that are written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tomli

from py_driver.adopting.adoption import Adoption, Input, adopt
from py_driver.errors import Span
from py_driver.extensions.binding import LIBRARY, Bindings
from py_driver.extensions.headers import ProjectTree
from py_driver.extensions.plan import ConfigurationRecord, plan_extensions
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.recording.record import Module, Record

if TYPE_CHECKING:
    from pathlib import Path

CU130 = "torch213-cxx11-cu130-x86_64-linux"
CPU = "torch213-cxx11-cpu-x86_64-linux"
DECLARED = "#include <torch/extension.h>\nint64_t f(int64_t x);\n"
BINDING = f'{DECLARED}PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("f", &f); }}\n'


def module(name: str, *sources: str, kind: str = "cuda", nvcc: tuple[str, ...] = ()) -> Module:
    return Module(
        name=name, kind=kind, file=f"{name}.so", script="setup.py", line=3, sources=sources, nvcc_flags=nvcc,
        cxx_flags=("-O2",), define_macros=(("SIZE", "4"),), builder="torch",
    )  # fmt: skip


def adopted(
    directory: Path,
    files: dict[str, str],
    modules: dict[str, list[Module]],
    installed: dict[str, str] | None = None,
    metadata: tuple[tuple[str, str], ...] = (),
) -> Adoption:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    recorded = []
    for identifier, listed in modules.items():
        configuration = parse(identifier)
        record = Record(
            torch="2.13", backend=configuration.backend, cxx_abi="cxx11", cpu="x86_64",
            arch_list="8.0;9.0" if configuration.family == "cuda" else "", name="Own.Kernel", version="0.3",
            wheel="", modules=tuple(listed),
        )  # fmt: skip
        recorded.append(ConfigurationRecord(configuration=configuration, default=True, record=record))
    tree = ProjectTree(lambda name: directory / name, lambda: files)
    plan = plan_extensions(
        recorded, tree, Releases().matrix, {"": Span("setup.py", 1, 1)}, Bindings(LIBRARY, lambda _: ())
    )
    return adopt(
        Input(
            records={found.configuration.family: [found.record] for found in recorded},
            plans=[plan],
            read=lambda name: (directory / name).read_bytes(),
            installed={name: text.encode() for name, text in (installed or {}).items()},
            metadata=metadata,
            extras={},
            origin="Own.Kernel 0.3",
        )
    )


def test_sections_have_the_flags_of_setup_py(tmp_path: Path) -> None:
    files = {"a.cpp": BINDING, "b.cpp": "int b;\n", "k/c.cu": '#include "c.h"\n', "k/c.h": "#ifdef USE_CUDA\n#endif\n"}
    nvcc = ("-lineinfo", "-gencode", "arch=compute_90a,code=sm_90a", "-gencode=arch=compute_80,code=sm_80")
    found = adopted(tmp_path, files, {CU130: [module("own_cuda", "a.cpp", "b.cpp", "k/c.cu", nvcc=nvcc)]})
    manifest = tomli.loads(found.files["build.toml"].decode())
    assert manifest["general"] == {
        "name": "own-kernel", "version": 1, "edition": 5, "license": "unknown", "backends": ["cuda"],
    }  # fmt: skip
    sections = manifest["kernel"]
    assert sections["own_cuda_host_ops"] == {
        "backend": "cuda", "depends": ["torch"], "include": ["torch-ext"],
        "cxx-flags": ["-fno-strict-overflow", "-DSIZE=4", "-O2", "-std=c++20"],
        "cuda-capabilities": ["8.0", "9.0a"], "src": ["a.cpp"],
    }  # fmt: skip
    assert (sections["own_cuda_host"]["depends"], sections["own_cuda_host"]["src"]) == ([], ["b.cpp"])
    device = sections["own_cuda"]
    assert device["src"] == ["k/c.cu", "k/c.h"]
    assert device["cuda-capabilities"] == ["8.0", "9.0a"]
    # A file asks for a macro of the rules that setup.py does not define.
    assert device["cuda-flags"][0] == "-UUSE_CUDA"
    assert device["cuda-flags"][1:3] == ["-DSIZE=4", "-D__CUDA_NO_HALF_OPERATORS__"]
    assert device["cuda-flags"][-2:] == ["-lineinfo", "-std=c++20"]


def test_flags_for_linking_device_code_matter_where_it_is_linked_alone(tmp_path: Path) -> None:
    files = {"a.cpp": BINDING, "k/c.cu": ""}
    for nvcc, reasons in (
        (("--ptxas-options=-v",), []),
        (("--ptxas-options=-v", "-rdc=true"), ["own links device code with other flags than it compiles with"]),
    ):
        found = adopted(tmp_path, files, {CU130: [module("own", "a.cpp", "k/c.cu", nvcc=nvcc)]})
        assert [loss.reason for loss in found.losses if loss.missing] == reasons


def test_module_without_a_package_is_a_package(tmp_path: Path) -> None:
    found = adopted(tmp_path, {"a.cpp": BINDING}, {CPU: [module("own_c", "a.cpp", kind="cpp")]})
    package = "torch-ext/own_kernel"
    assert b"\nfrom .own_c import f\n" in found.files[f"{package}/__init__.py"]
    assert b"from ._ops import ops as _ops\n\n\ndef f(x, /):\n" in found.files[f"{package}/own_c.py"]
    same = adopted(tmp_path, {"a.cpp": BINDING}, {CPU: [module("own_kernel", "a.cpp", kind="cpp")]})
    assert b"\ndef f(x, /):\n" in same.files[f"{package}/__init__.py"]


def test_functions_of_one_name_are_ops_of_two(tmp_path: Path) -> None:
    modules = [module("own.a", "a.cpp", kind="cpp"), module("own.b", "b.cpp", kind="cpp")]
    installed = {"own/__init__.py": "import own.a\nfrom own import b\n", "own/data.json": "{}", "own/k.cu": ""}
    found = adopted(tmp_path, {"a.cpp": BINDING, "b.cpp": BINDING}, {CPU: modules}, installed)
    assert found.ops == ("a_f(int x) -> int", "b_f(int x) -> int")
    package = "torch-ext/own_kernel"
    assert b"def f(x, /):\n    return _ops.b_f(x)\n" in found.files[f"{package}/b.py"]
    assert found.files[f"{package}/__init__.py"] == b"from . import a\nfrom . import b\n"
    assert f"{package}/k.cu" not in found.files
    assert tomli.loads(found.files["build.toml"].decode())["torch"]["pyext"] == ["py", "pyi", "json"]
    assert ["one library" in loss.reason for loss in found.losses if loss.line] == [True]


def test_backends_have_modules_of_their_own(tmp_path: Path) -> None:
    files = {"a.cpp": BINDING, "c.cu": ""}
    both = [module("own._cpu", "a.cpp", kind="cpp"), module("own._cuda", "a.cpp", "c.cu")]
    found = adopted(tmp_path, files, {CPU: both[:1], CU130: both})
    manifest = tomli.loads(found.files["build.toml"].decode())
    assert {name: section["backend"] for name, section in manifest["kernel"].items()} == {
        "cpu_ops": "cpu", "cuda_host_ops": "cuda", "cuda": "cuda",
    }  # fmt: skip
    [loss] = [loss for loss in found.losses if "left out" in loss.reason]
    assert (loss.file, loss.line, loss.missing) == ("setup.py", 3, False)
    assert "own._cpu is left out for cuda" in loss.reason


def test_what_needs_a_look(tmp_path: Path) -> None:
    text = '#include "b.cu"\n' + BINDING.replace("int64_t f(int64_t x)", "void f(at::Tensor x)")
    metadata = (
        ("requires-dist", "torch>=2"),
        ("requires-dist", "einops"),
        ("classifier", "License :: OSI Approved :: MIT License"),
    )
    found = adopted(
        tmp_path, {"a.cpp": text, "b.cu": ""}, {CPU: [module("own", "a.cpp", kind="cpp")]}, metadata=metadata
    )
    reasons = {loss.reason: loss.missing for loss in found.losses}
    assert reasons == {
        "`f` returns nothing, and no argument is marked as written": False,
        "the project requires `einops`": False,
        "it is included by another source, and is also compiled by itself": True,
    }
    assert tomli.loads(found.files["build.toml"].decode())["general"]["license"] == "mit"
