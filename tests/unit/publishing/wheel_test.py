"""`driver wheel`: what is in the wheel, its name, and that pip takes it; tests/e2e/wheel_package_test.py loads some."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import kernels  # type: ignore[import-untyped]
import pytest
import tuned
from tuned import FILES

from py_driver import __main__
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Framework, Located, Manifest
from py_driver.manifest.parts import PYTHON_PACKAGES
from py_driver.matrix.pythons import Python
from py_driver.publishing.release import BuiltVariant, make_file
from py_driver.publishing.wheel import DISTRIBUTIONS, LOADER, make_wheel, wheel_name

_CU130 = "torch213-cxx11-cu130-x86_64-linux"


def make(project: Path, *options: str) -> Path:
    """Make the wheel; its path."""
    out = project.parent / "dist"
    assert __main__.main(["wheel", str(project), f"--out={out}", *options]) == 0
    [path] = out.glob("*.whl")
    return path


def listed(wheel: Path, field: str) -> list[str]:
    """What a wheel's METADATA says in a field."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return [value for key, value in Parser().parsestr(archive.read(name).decode()).items() if key == field]


def test_what_is_in_it(project: Path) -> None:
    wheel = make(project)
    assert wheel.name == "tuned-3.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    names = {f"tuned/_variants/{v}/{f}" for v in ("torch-cpu", "torch-cuda") for f in (*FILES, "metadata.json")}
    info = {f"tuned-3.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL")}
    assert set(content) == names | info | {"tuned/__init__.py", f"tuned/{LOADER}.py"}
    assert content["tuned/_variants/torch-cpu/weights.bin"] == FILES["weights.bin"]
    assert b"Root-Is-Purelib: true\nTag: py3-none-any\n" in content["tuned-3.0.dist-info/WHEEL"]
    rows = list(csv.reader(io.StringIO(content["tuned-3.0.dist-info/RECORD"].decode())))
    assert {name for name, _, _ in rows} == set(content)
    for name, digest, size in rows:
        if not name.endswith("RECORD"):
            expected = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={expected}", len(content[name]))


def test_one_variant_is_named_in_the_version(project: Path) -> None:
    assert make(project, "--variant=torch-cuda").name == "tuned-3.0+cuda-py3-none-any.whl"


def test_same_variants_give_the_same_bytes(project: Path) -> None:
    wheel = make(project)
    before = wheel.read_bytes()
    wheel.unlink()
    assert make(project).read_bytes() == before


def test_pip_installs_it(project: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(make(project))], check=True)
    assert (target / "tuned" / "_variants" / "torch-cpu" / "weights.bin").read_bytes() == FILES["weights.bin"]
    compile((target / "tuned" / "__init__.py").read_text(), "loader", "exec")


def test_files_of_any_name(odd: Path, tmp_path: Path) -> None:
    wheel = make(odd)
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("tuned-3.0.dist-info/RECORD").decode()
        record = {row[0]: row[1:] for row in csv.reader(io.StringIO(text))}
        assert sorted(record) == sorted(archive.namelist())
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True)
    for name, content in tuned.ODD.items():
        assert (target / "tuned" / "_variants" / "torch-cpu" / name).read_bytes() == content
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert record[f"tuned/_variants/torch-cpu/{name}"] == [f"sha256={digest}", str(len(content))]


def test_wheels_of_several_projects(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, twin, broken = (tuned.copied(project, name) for name in ("other", "twin", "broken"))
    tuned.rename(other, "other")
    (broken / "build" / "torch-cpu" / "__init__.py").write_text("import os\n")
    out = project.parent / "dist"
    words = [str(directory) for directory in (project, other, twin, broken)]
    assert __main__.main(["wheel", *words, f"--out={out}"]) == 2
    said = capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["other-3.0-py3-none-any.whl", "tuned-3.0-py3-none-any.whl"]
    listed = [line.split() for line in said.out.splitlines()]
    assert listed == [
        ["project", "wheel"],
        [str(project), str(out / "tuned-3.0-py3-none-any.whl")],
        [str(other), str(out / "other-3.0-py3-none-any.whl")],
    ]
    assert f" of {project} would be overwritten by the wheel of {twin}" in said.err
    assert said.err.splitlines()[-1] == f"4 projects: 2 packed, 2 failed ({twin}, {broken})"


def test_the_wheels_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = project.parent / "dist"
    assert __main__.main(["wheel", str(project), f"--out={out}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    [path] = out.glob("*.whl")
    variants = ["torch-cpu", "torch-cuda"]
    assert result == {
        "directory": str(out),
        "wheels": [{"file": str(path), "size": path.stat().st_size, "variants": variants}],
    }
    assert __main__.main(["wheel", str(project), str(project), f"--out={out}", "--json"]) == 2
    assert "--json is for a single project" in capsys.readouterr().err


def test_changed_variant_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "build" / "torch-cpu" / "__init__.py").write_text("x = 9\n")
    assert __main__.main(["wheel", str(project), f"--out={project.parent / 'dist'}"]) == 2
    assert "error[E404]" in capsys.readouterr().err
    assert not (project.parent / "dist").exists()


@pytest.mark.parametrize(
    ("names", "part", "wheel", "requires"),
    [
        ([_CU130], "", "1.0+torch213.cxx11.cu130-cp39-abi3-manylinux_2_28", "torch==2.13.*"),
        ([_CU130], "sm90", "1.0+torch213.cxx11.cu130.sm90-cp39-abi3-manylinux_2_28", "torch==2.13.*"),
        ([_CU130, _CU130.replace("213", "215")], "sm90", "1.0+sm90-cp39-abi3-manylinux_2_28", "torch"),
        (["torch-stable-abi29-cpu-x86_64-linux"], "", "1.0+stable29.cpu-cp39-abi3-manylinux_2_28", "torch"),
        (
            [f"torch213-cxx11-{backend}-x86_64-linux" for backend in ("cpu", "rocm72")],
            "",
            "1.0-cp39-abi3-many",
            "torch==2.13.*",
        ),
        ([f"torch{torch}-cxx11-cpu-x86_64-linux" for torch in ("213", "215")], "", "1.0-cp39-abi3-many", "torch"),
    ],
)
def test_names_and_requirements(names: list[str], part: str, wheel: str, requires: str, tmp_path: Path) -> None:
    span = Source("build.toml", "").span(0, 1)
    manifest = Manifest(
        file="", edition=5, name=Located(value="relu", span=span), framework=Framework(span=span), python_root=""
    )
    metadata = {"id": "i", **({"slice": part} if part else {})}
    built = [BuiltVariant(name, metadata, (make_file(f"build/{name}/__init__.py", b""),)) for name in names]
    made = tmp_path / wheel_name(manifest, names, part)
    make_wheel(manifest, built, made)
    assert made.name.startswith(f"relu-{wheel}")
    assert listed(made, "Requires-Dist") == [requires]
    assert listed(made, "Version") == [wheel.partition("-")[0]]


def test_a_wheel_for_one_python_says_so_in_its_tag_and_asks_for_no_stable_abi(tmp_path: Path) -> None:
    span = Source("build.toml", "").span(0, 1)
    manifest = Manifest(
        file="", edition=5, name=Located(value="relu", span=span), framework=Framework(span=span), python_root=""
    )
    built = [BuiltVariant(_CU130, {"id": "i"}, (make_file(f"build/{_CU130}/__init__.py", b""),))]
    python = Python("3.13t", "3.13t")
    made = tmp_path / wheel_name(manifest, [_CU130], python=python)
    make_wheel(manifest, built, made, python=python)
    assert made.name == "relu-1.0+torch213.cxx11.cu130-cp313-cp313t-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(made) as archive:
        [info] = [name for name in archive.namelist() if name.endswith("/WHEEL")]
        assert b"Tag: cp313-cp313t-manylinux_2_28_x86_64\n" in archive.read(info)
        assert b"abi3=False" in archive.read("relu/__init__.py")


@pytest.mark.parametrize(
    ("backends", "requires"),
    [
        (("cuda",), ["einops", "apache-tvm-ffi", "nvidia-cutlass-dsl"]),
        (("cpu", "cuda"), ["einops", "apache-tvm-ffi", 'nvidia-cutlass-dsl; extra == "cuda"']),
        (("cpu",), ["einops", "apache-tvm-ffi"]),
    ],
)
def test_what_it_needs_has_the_names_of_the_index(
    project: Path, backends: tuple[str, ...], requires: list[str]
) -> None:
    general = '[general]\npython-depends = ["einops", "tvm-ffi"]\n'
    own = '\n[general.cuda]\npython-depends = ["nvidia-cutlass-dsl"]\n'
    (project / "build.toml").write_text(tuned.MANIFEST.replace("[general]\n", general) + own)
    for backend in ("cpu", "cuda"):
        tuned.build(project, f"torch-{backend}", FILES)
    wheel = make(project, *(f"--variant=torch-{backend}" for backend in backends))
    assert listed(wheel, "Requires-Dist") == ["torch", *requires]
    assert listed(wheel, "Provides-Extra") == ["cuda"] * (len(backends) > 1)


def test_names_of_the_index_are_those_of_the_client() -> None:
    known = json.loads((Path(kernels.__file__).parent / "python_depends.json").read_text())
    named = known["general"] | known["backends"]["cpu"] | known["backends"]["cuda"] | known["backends"]["rocm"]
    assert set(named) == {name for backend in ("", "cpu", "cuda", "rocm") for name in PYTHON_PACKAGES.get(backend, ())}
    for name, facts in named.items():
        assert [requirement["pkg"] for requirement in facts["python"]] == [DISTRIBUTIONS.get(name, name)]


def test_kernel_that_loads_other_kernels_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    depends = '[general]\nkernel-depends = [{ repo-id = "me/other", version = 1 }]\n'
    (project / "build.toml").write_text(tuned.MANIFEST.replace("[general]\n", depends))
    for backend in ("cpu", "cuda"):
        tuned.build(project, f"torch-{backend}", FILES)
    assert __main__.main(["wheel", str(project), f"--out={project.parent / 'dist'}"]) == 2
    assert "error[E008]: tuned loads other kernels when it is imported (me/other)" in capsys.readouterr().err
    assert list(project.parent.glob("dist/*")) == []


def test_place_that_cannot_be_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project.parent / "dist").write_text("")
    assert __main__.main(["wheel", str(project), f"--out={project.parent / 'dist'}"]) == 4
    assert "error[E309]: cannot write " in capsys.readouterr().err


def test_kernels_that_it_depends_on_are_in_it(project: Path) -> None:
    other = tuned.copied(project, "other")
    tuned.rename(other, "other")
    depends = '[general]\nkernel-depends = [{ repo-id = "me/other", version = 3 }]\n'
    (project / "build.toml").write_text(tuned.MANIFEST.replace("[general]\n", depends))
    for backend in ("cpu", "cuda"):
        tuned.build(project, f"torch-{backend}", FILES)
    wheel = make(project, f"--with={other}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        package = archive.read("tuned/__init__.py").decode()
    assert {f"tuned/_depends/other/_variants/torch-{backend}/weights.bin" for backend in ("cpu", "cuda")} <= {*names}
    assert {"tuned/_depends/__init__.py", "tuned/_depends/other/__init__.py"} <= {*names}
    assert "{'me/other': 'tuned._depends.other'}" in package
    assert listed(wheel, "Requires-Dist") == ["torch", "kernels>=0.17.0"]
    one = project.parent / "one"
    assert __main__.main(["wheel", str(project), f"--with={other}", f"--out={one}", "--variant=torch-cpu"]) == 0
    [path] = one.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        assert not [name for name in archive.namelist() if "torch-cuda" in name]


@pytest.mark.parametrize(
    ("depends", "options", "message"),
    [
        ("me/other", ["--slice"], "--with is for a wheel of whole variants"),
        ("me/other", ["--variants"], "--with is for a wheel of whole variants"),
        ("me/third", [], "`tuned` depends on `me/third`, which no directory of --with is"),
        ("", [], "no kernel of this wheel lists "),
    ],
)
def test_kernels_that_do_not_go_with_it(
    depends: str, options: list[str], message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tuned.copied(project, "other")
    tuned.rename(other, "other")
    if depends:
        line = f'[general]\nkernel-depends = [{{ repo-id = "{depends}", version = 3 }}]\n'
        (project / "build.toml").write_text(tuned.MANIFEST.replace("[general]\n", line))
        for backend in ("cpu", "cuda"):
            tuned.build(project, f"torch-{backend}", FILES)
    command = ["wheel", str(project), f"--with={other}", f"--out={project.parent / 'dist'}", *options]
    assert __main__.main(command) == 2
    assert message in capsys.readouterr().err
    assert list(project.parent.glob("dist/*")) == []


def test_a_variant_that_a_kernel_has_none_for_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tuned.copied(project, "other")
    tuned.rename(other, "other")
    shutil.rmtree(other / "build" / "torch-cuda")
    depends = '[general]\nkernel-depends = [{ repo-id = "me/other", version = 3 }]\n'
    (project / "build.toml").write_text(tuned.MANIFEST.replace("[general]\n", depends))
    for backend in ("cpu", "cuda"):
        tuned.build(project, f"torch-{backend}", FILES)
    assert __main__.main(["wheel", str(project), f"--with={other}", f"--out={project.parent / 'dist'}"]) == 2
    assert "torch-cuda depends on other, of which no built variant loads where" in capsys.readouterr().err
