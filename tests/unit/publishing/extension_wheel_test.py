"""Wheels of projects with a setup.py: real ones of setuptools, with real libraries in the place of empty ones."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import os
import stat
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from fetch_server import pinned
from recorded import SUFFIX, project, record_of, wheel_of

from py_driver.errors import Code, DriverError
from py_driver.publishing.extension_verify import read_artifact
from py_driver.publishing.extension_wheel import ExtensionWheel, check_skeleton, label_of, make_extension_wheel
from py_driver.publishing.provenance import Sources, read_statement
from py_driver.publishing.wheel_index import write_index

if TYPE_CHECKING:
    from collections.abc import Mapping


def without_python(tmp_path: Path) -> Mapping[str, Path]:
    """What `binding = True` gives for a module: here a library of the C runtime, called with ctypes."""
    maths = next(Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines() if "libm" in line)
    glue = tmp_path / "glue.py"
    glue.write_text(
        textwrap.dedent("""\
        import ctypes
        from pathlib import Path
        _library = ctypes.CDLL(str(Path(__file__).with_name("lib_C.so")))
        _library.cos.restype, _library.cos.argtypes = ctypes.c_double, [ctypes.c_double]
        cos = _library.cos
        """)
    )
    return {"demo/_C.py": glue, "demo/lib_C.so": maths}


def with_python() -> tuple[str, Path]:
    """An extension of this Python: its name, its library."""
    for name in ("_struct", "_heapq", "_json", "_cffi_backend"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin and spec.origin.endswith(".so"):
            return name, Path(spec.origin)
    raise AssertionError("no extension is a file of its own")


@pytest.fixture
def parts(tmp_path: Path) -> ExtensionWheel:
    skeleton = project(tmp_path)
    record = record_of(skeleton, "demo._C")
    return ExtensionWheel(
        record=record,
        skeleton=skeleton,
        modules={record.modules[0].file: without_python(tmp_path)},
        source=pinned(b"", "demo_project-1.0.tar.gz", name="demo-project"),
        archives=[pinned(b"torch", "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", name="torch")],
    )


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def installed(wheel: Path, tmp_path: Path) -> Path:
    """The interpreter of a new environment that has a wheel."""
    root = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    python = root / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    return python


def test_what_is_in_it(parts: ExtensionWheel, tmp_path: Path) -> None:
    wheel = make_extension_wheel(parts, tmp_path)
    assert wheel.name == "demo_project-1.0+cu130.torch213-py3-none-manylinux_2_28_x86_64.whl"
    before, after = contents(parts.skeleton), contents(wheel)
    old, new = "demo_project-1.0", "demo_project-1.0+cu130.torch213"
    renamed = {name.replace(old, new): content for name, content in before.items()}
    module = parts.record.modules[0].file
    changed = {module, *(f"{new}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL"))}
    documents = {"sboms/rules_torch_kernels.cdx.json", "rules_torch_kernels.intoto.json"}
    added = {"demo/_C.py", "demo/lib_C.so", *(f"{new}.dist-info/{name}" for name in documents)}
    assert set(after) == set(renamed) - {module} | added
    assert {f"{new}.data/scripts/run.sh", f"{new}.dist-info/licenses/LICENSE", "demo/größe, [1].txt"} <= set(after)
    assert {name: after[name] for name in set(renamed) - changed} == {
        name: content for name, content in renamed.items() if name not in changed
    }
    for name, path in parts.modules[module].items():
        assert after[name] == path.read_bytes()
    said = after[f"{new}.dist-info/METADATA"].decode()
    assert said == before[f"{old}.dist-info/METADATA"].decode().replace(
        "Version: 1.0\n", "Version: 1.0+cu130.torch213\n"
    ).replace("Requires-Dist: torch\n", "Requires-Dist: torch==2.13.*\n")
    assert Parser().parsestr(said).get_all("Requires-Dist") == ["torch==2.13.*", "einops>=0.7"]
    kind = after[f"{new}.dist-info/WHEEL"].decode()
    assert "Root-Is-Purelib: false\nTag: py3-none-manylinux_2_28_x86_64\n" in kind
    names = list(after)
    assert names[-1] == f"{new}.dist-info/RECORD"
    rows = list(csv.reader(io.StringIO(after[names[-1]].decode())))
    assert [row[0] for row in rows] == names
    assert names[:-1] == sorted(names[:-1], key=lambda name: (f"{new}.dist-info/" in name, name))


def test_a_wheel_variant_has_its_backend_in_the_label(parts: ExtensionWheel, tmp_path: Path) -> None:
    wheel = make_extension_wheel(parts, tmp_path, labelled=True)
    assert wheel.name == "demo_project-1.0+torch213-py3-none-manylinux_2_28_x86_64-cu130.whl"
    found = contents(wheel)
    assert "\nVersion: 1.0+torch213\n" in found["demo_project-1.0+torch213.dist-info/METADATA"].decode()
    variants = json.loads(found["demo_project-1.0+torch213.dist-info/variant.json"])["variants"]
    assert variants == {"cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}}}
    cpu = replace(parts, record=replace(parts.record, backend="cpu"))
    other = make_extension_wheel(cpu, tmp_path, labelled=True)
    assert other.name == wheel.name.replace("cu130", "null")
    assert read_artifact(other).configuration.backend == "cpu"
    write_index(tmp_path)
    index = json.loads((tmp_path / "demo_project-1.0+torch213-variants.json").read_text())
    assert sorted(index["variants"]) == ["cu130", "null"]


def test_there_is_no_wheel_variant_for_rocm(parts: ExtensionWheel) -> None:
    record = replace(parts.record, backend="rocm72")
    check_skeleton(record, parts.skeleton)
    with pytest.raises(DriverError, match="there is no wheel variant of torch213-cxx11-rocm72") as caught:
        check_skeleton(record, parts.skeleton, labelled=True)
    assert "choose others with --backend, or call without --variants" in caught.value.diagnostics[0].help


def test_modes_are_those_of_the_project(parts: ExtensionWheel, tmp_path: Path) -> None:
    with zipfile.ZipFile(make_extension_wheel(parts, tmp_path)) as archive:
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    executable = {name for name, mode in modes.items() if mode == 0o755}
    assert executable == {"demo/lib_C.so", "demo_project-1.0+cu130.torch213.data/scripts/run.sh"}
    assert set(modes.values()) == {0o644, 0o755}


def test_same_parts_give_the_same_bytes(parts: ExtensionWheel, tmp_path: Path) -> None:
    first = make_extension_wheel(parts, tmp_path).read_bytes()
    parts.skeleton.unlink()
    old = os.umask(0o077)
    try:
        skeleton = wheel_of(tmp_path / "project")
    finally:
        os.umask(old)
    assert make_extension_wheel(replace(parts, skeleton=skeleton), tmp_path).read_bytes() == first


def test_pip_installs_it_and_it_runs(parts: ExtensionWheel, tmp_path: Path) -> None:
    python = installed(make_extension_wheel(parts, tmp_path), tmp_path)
    assert subprocess.check_output([str(python.with_name("demo"))], text=True) == "1.0\n"
    assert (python.parents[1] / "share" / "demo" / "LICENSE").is_file()
    assert python.with_name("run.sh").is_file()
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    done = subprocess.run([*pip, "check"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "demo-project 1.0+cu130.torch213 requires einops, which is not installed.",
        "demo-project 1.0+cu130.torch213 requires torch, which is not installed.",
    ]
    shown = subprocess.check_output([*pip, "inspect"], text=True)
    assert "demo-project" in {
        item["metadata"]["name"].lower().replace(".", "-") for item in json.loads(shown)["installed"]
    }


def test_library_that_takes_something_from_python(tmp_path: Path) -> None:
    name, library = with_python()
    skeleton = project(tmp_path, modules=("demo._C", name))
    record = record_of(skeleton, "demo._C", name)
    modules = {
        record.modules[0].file: without_python(tmp_path),
        record.modules[1].file: {f"{name}.abi3.so": library},
    }
    wheel = make_extension_wheel(ExtensionWheel(record=record, skeleton=skeleton, modules=modules), tmp_path)
    assert wheel.name == "demo_project-1.0+cu130.torch213-cp39-abi3-manylinux_2_28_x86_64.whl"
    python = installed(wheel, tmp_path)
    program = f"import sys, demo._C; sys.modules.pop({name!r}, None); sys.path[:0] = sys.path[-1:]; import {name}; "
    found = subprocess.check_output([str(python), "-c", f"{program}print({name}.__file__)"], text=True)
    assert Path(found.strip()).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("version", "name"), [("1.0+local", "1.0+local.cu130.torch213"), ("2!1.0.post1", "2!1.0.post1+cu130.torch213")]
)
def test_version_of_the_project(version: str, name: str, tmp_path: Path) -> None:
    skeleton = project(tmp_path, version)
    record = record_of(skeleton, "demo._C", version=version)
    modules = {record.modules[0].file: without_python(tmp_path)}
    wheel = make_extension_wheel(ExtensionWheel(record=record, skeleton=skeleton, modules=modules), tmp_path)
    assert wheel.name.startswith(f"demo_project-{name}-py3-none-")
    program = "import importlib.metadata; print(importlib.metadata.version('demo-project'))"
    found = subprocess.check_output([str(installed(wheel, tmp_path)), "-c", program], text=True)
    assert found.strip() == name


def test_label_of_the_older_abi(parts: ExtensionWheel) -> None:
    assert label_of(parts.record) == "cu130.torch213"
    assert label_of(replace(parts.record, torch="2.6", cxx_abi="cxx98", backend="cpu")) == "cpu.torch26.cxx98"


def test_project_without_modules_is_as_setuptools_made_it(tmp_path: Path) -> None:
    skeleton = project(tmp_path, modules=())
    out = tmp_path / "dist"
    out.mkdir()
    record = record_of(skeleton)
    wheel = make_extension_wheel(ExtensionWheel(record=record, skeleton=skeleton, modules={}), out)
    assert wheel.name == skeleton.name == "demo_project-1.0-py3-none-any.whl"
    before, after = contents(skeleton), contents(wheel)
    assert {name: text for name, text in before.items() if not name.endswith("/RECORD")} == {
        name: text for name, text in after.items() if not name.endswith("/RECORD")
    }


def test_build_number_is_kept(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "setup.cfg").write_text("[bdist_wheel]\nbuild_number = 7\n")
    skeleton = project(tmp_path)
    record = record_of(skeleton, "demo._C")
    modules = {record.modules[0].file: without_python(tmp_path)}
    wheel = make_extension_wheel(ExtensionWheel(record=record, skeleton=skeleton, modules=modules), tmp_path)
    assert wheel.name == "demo_project-1.0+cu130.torch213-7-py3-none-manylinux_2_28_x86_64.whl"
    assert b"Build: 7\n" in contents(wheel)["demo_project-1.0+cu130.torch213.dist-info/WHEEL"]
    installed(wheel, tmp_path)


def test_signature_of_the_record_goes(parts: ExtensionWheel, tmp_path: Path) -> None:
    with zipfile.ZipFile(parts.skeleton, "a") as archive:
        archive.writestr("demo_project-1.0.dist-info/RECORD.jws", "{}")
    assert not [name for name in contents(make_extension_wheel(parts, tmp_path)) if name.endswith(".jws")]


def test_sbom_is_valid_and_names_what_it_was_made_from(parts: ExtensionWheel, tmp_path: Path) -> None:
    found = contents(make_extension_wheel(parts, tmp_path))
    [text] = [content.decode() for name, content in found.items() if "/sboms/" in name]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    subject = bill["metadata"]["component"]
    assert subject["purl"] == "pkg:pypi/demo-project@1.0%2Bcu130.torch213"
    assert [part["purl"] for part in subject["pedigree"]["ancestors"]] == ["pkg:pypi/demo-project@1.0"]
    assert {part["purl"] for part in bill["components"]} == {"pkg:pypi/torch@1.0", "pkg:pypi/setuptools@80.9.0"}


def test_statement_names_all_files_and_what_they_were_made_from(parts: ExtensionWheel, tmp_path: Path) -> None:
    found = contents(make_extension_wheel(parts, tmp_path))
    [(own, text)] = [(name, text) for name, text in found.items() if name.endswith(".intoto.json")]
    statement = json.loads(text)
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert subjects == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in found.items()
        if name != own and not name.endswith("/RECORD")
    }
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["version"] == "1.0+cu130.torch213"
    assert [part["uri"] for part in definition["resolvedDependencies"]] == [
        "pkg:pypi/demo-project@1.0",
        "pkg:pypi/torch@1.0",
    ]
    parts = replace(parts, source=Sources(commit="c0ffee", dirty=True))
    found = contents(make_extension_wheel(parts, tmp_path))
    assert read_statement(found[own]).sources == parts.source


def refused(parts: ExtensionWheel, tmp_path: Path) -> tuple[Code, str]:
    with pytest.raises(DriverError) as caught:
        make_extension_wheel(parts, tmp_path)
    assert not list(tmp_path.glob("*.whl"))
    [diagnostic] = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


def test_file_that_the_project_has_already(parts: ExtensionWheel, tmp_path: Path) -> None:
    (tmp_path / "project" / "demo" / "_C.py").write_text("")
    parts.skeleton.unlink()
    code, message = refused(replace(parts, skeleton=wheel_of(tmp_path / "project")), tmp_path)
    assert code is Code.DUPLICATE_FILE
    assert message == "the build makes demo/_C.py for the module `demo._C`, and the project has that file"


def test_empty_library_that_nothing_builds(parts: ExtensionWheel, tmp_path: Path) -> None:
    (tmp_path / "project" / "demo" / "copy.so").write_bytes(b"")
    parts.skeleton.unlink()
    skeleton = wheel_of(tmp_path / "project")
    code, message = refused(replace(parts, skeleton=skeleton), tmp_path)
    assert code is Code.UNSUPPORTED
    assert message == "demo/copy.so in the wheel of setup.py is not the library of a module, and nothing builds it"
    with pytest.raises(DriverError):
        check_skeleton(parts.record, skeleton)


def test_library_that_the_wheel_lacks(parts: ExtensionWheel, tmp_path: Path) -> None:
    record = record_of(parts.skeleton, "demo._C", "demo._D")
    code, message = refused(replace(parts, record=record), tmp_path)
    assert code is Code.UNSUPPORTED
    assert message == f"the wheel of setup.py has no demo/_D{SUFFIX}, the library of `demo._D`"


def test_torch_that_the_project_does_not_want(parts: ExtensionWheel, tmp_path: Path) -> None:
    check_skeleton(parts.record, parts.skeleton)
    record = replace(parts.record, torch="2.9")
    check_skeleton(record, parts.skeleton)
    parts.skeleton.unlink()
    skeleton = project(tmp_path, requires=["torch<2.10"])
    check_skeleton(record, skeleton)
    code, message = refused(replace(parts, skeleton=skeleton), tmp_path)
    assert (code, message) == (Code.UNSUPPORTED, "the project requires `torch<2.10`, which torch 2.13 is not")


def test_link_in_the_wheel(parts: ExtensionWheel, tmp_path: Path) -> None:
    info = zipfile.ZipInfo("demo/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(parts.skeleton, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    code, message = refused(parts, tmp_path)
    assert (code, message) == (Code.UNSUPPORTED, "the wheel of setup.py has symbolic links: demo/link")


def test_what_is_no_wheel(parts: ExtensionWheel, tmp_path: Path) -> None:
    parts.skeleton.write_bytes(b"no zip")
    assert refused(parts, tmp_path)[0] is Code.FILE_KIND
    with zipfile.ZipFile(parts.skeleton, "w") as archive:
        archive.writestr("demo/a.py", "")
    assert refused(parts, tmp_path)[0] is Code.FILE_KIND
