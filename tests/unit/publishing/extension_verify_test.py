"""What wheels and directories say that they were built from, and which differences do not count."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from fetch_server import pinned
from recorded import project, record_of

from py_driver import __main__
from py_driver.bazel.invocation import Compress
from py_driver.building.variant_dir import differences
from py_driver.errors import Code, DriverError
from py_driver.matrix.configurations import spell
from py_driver.publishing.extension_tree import lay_out
from py_driver.publishing.extension_verify import differences_of, read_artifact
from py_driver.publishing.extension_wheel import STATEMENT, ExtensionWheel, make_extension_wheel
from py_driver.publishing.provenance import Sources

VARIANT = "torch213-cxx11-cu130-x86_64-linux"


def made(directory: Path, sources: Sources) -> ExtensionWheel:
    directory.mkdir()
    skeleton = project(directory)
    record = record_of(skeleton, "demo._C")
    library = directory / "lib_C.so"
    shutil.copy(Path(__file__).parents[2] / "abi" / "libraries" / "good.so", library)
    return ExtensionWheel(
        record=record,
        skeleton=skeleton,
        modules={record.modules[0].file: {"demo/lib_C.so": library}},
        source=sources,
    )


def wheel_in(directory: Path, parts: ExtensionWheel) -> Path:
    directory.mkdir(exist_ok=True)
    return make_extension_wheel(parts, directory)


@pytest.mark.parametrize("unpacked", [False, True])
def test_what_a_wheel_is_of(tmp_path: Path, *, unpacked: bool) -> None:
    parts = made(tmp_path / "demo", Sources(commit="a" * 40))
    parts = replace(parts, bindings={"demo._C": "pybind"}, choices={"compress": "none"})
    path = wheel_in(tmp_path / "dist", parts)
    artifact = read_artifact(lay_out(path, tmp_path / "build", VARIANT)[0] if unpacked else path)
    assert spell(artifact.configuration) == VARIANT
    assert (artifact.archs, artifact.way, artifact.python) == (tuple(parts.record.arch_list.split(";")), "pybind", "")
    assert artifact.how == (None, Compress.NONE)
    assert artifact.requirement is None


def test_a_release_of_the_index_is_named_with_its_digest(tmp_path: Path) -> None:
    archive = pinned(b"x", "demo_project-1.0.tar.gz", name="demo-project", version="1.0")
    parts = replace(made(tmp_path / "demo", Sources()), source=archive)
    found = read_artifact(wheel_in(tmp_path / "dist", parts)).requirement
    assert found == (f"{parts.record.name}==1.0", f"sha256:{archive.sha256}")


@pytest.mark.parametrize("kind", ["no zip", "no statement", "other JSON", "missing", "empty directory"])
def test_what_says_nothing_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    if kind == "no zip":
        path.write_bytes(b"x")
    elif kind == "empty directory":
        path.mkdir()
    elif kind != "missing":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(
                "x-1.dist-info/METADATA" if kind == "no statement" else f"x-1.dist-info/{STATEMENT}", "[1]"
            )
    with pytest.raises(DriverError) as caught:
        read_artifact(path)
    assert caught.value.diagnostics[0].code is Code.FILE_KIND


def test_the_commit_of_the_same_sources_is_no_difference(tmp_path: Path) -> None:
    trees = []
    for name, sources in (("one", Sources(commit="a" * 40)), ("other", Sources(commit="b" * 40, dirty=True))):
        wheel = wheel_in(tmp_path / f"dist-{name}", made(tmp_path / name, sources))
        trees.append(lay_out(wheel, tmp_path / "build", name)[0])
    new, old = trees
    assert len(differences(new, old)) == 2
    assert differences_of(new, old) == ()
    info = f"{next(old.glob('*.dist-info')).name}"
    statement = json.loads((old / info / STATEMENT).read_bytes())
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    (old / info / STATEMENT).write_text(json.dumps(statement))
    record = old / info / "RECORD"
    record.write_text(record.read_text() + "demo/more.py,,\n")
    assert differences_of(new, old) == (f"{info}/RECORD has other bytes", f"{info}/{STATEMENT} has other bytes")


def test_wheels_and_projects_are_verified_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = wheel_in(tmp_path / "dist", made(tmp_path / "demo", Sources()))
    for words in (
        ["verify", str(wheel)],
        ["verify", str(wheel), str(tmp_path / "demo")],
        ["verify", str(wheel), "--source", str(tmp_path), "--variant=*cpu*"],
        ["verify", str(wheel), "--source", str(tmp_path), "--torch=2.13"],
        ["verify", str(wheel), "--source", str(tmp_path), "--changed-since=HEAD"],
        ["verify", str(wheel), "--source", str(tmp_path), "--repo-id=me/x"],
        ["verify", str(tmp_path / "demo"), "--source", str(tmp_path)],
    ):
        assert __main__.main(words) == 2
        assert "error[E200]" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "setup.py").write_text("")
    assert __main__.main(["verify", str(tmp_path / "empty"), "--json"]) == 2
    assert "E101" in capsys.readouterr().out
