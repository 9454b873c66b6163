"""A variant out of Bazel's output tree has the names of the project again, and says so in its metadata.json."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from kernels._rust import Digest, DigestAlgorithm  # type: ignore[import-untyped]

from py_driver.actions.workspace import workspace_for
from py_driver.building.file_names import true_names
from py_driver.building.variant_dir import files_of
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.plan.staging import staged
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from py_driver.plan.plan import Plan

VARIANT = "torch-cpu"
PLAIN = "E=8,N=1.json"
ODD = ("a b.json", "größe.json", "d e/[1].json", "0 first.json")
MANIFEST = """\
[general]
name = "tuned"
version = 1
edition = 5
license = "é"
backends = ["cpu"]
[torch-noarch]
pyext = ["py", "json"]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def planned(project: Path, *names: str) -> Plan:
    for name in ("__init__.py", PLAIN, *names):
        path = project / "torch-ext" / "tuned" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", encoding="utf-8")
    (project / "build.toml").write_text(MANIFEST, encoding="utf-8")
    return plan_directory(project, Releases())


def assembled(files: Mapping[str, bytes], place: Path) -> Path:
    """What the rules make of files, read-only as Bazel leaves it."""
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    digests = {name: base64.b64encode(hashlib.sha256(files[name]).digest()).decode() for name in sorted(files)}
    record = {"digest": {"algorithm": "sha256", "files": digests}, "id": "_tuned_cpu_0", "license": "é"}
    (place / "metadata.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for path in files_of(place).values():
        path.chmod(0o555)
    return place


def test_files_and_metadata_have_the_names_of_the_project(tmp_path: Path, cache: Path) -> None:
    plan = planned(tmp_path / "project", *ODD)
    contents = {name: f"# {name}\n".encode() for name in ("__init__.py", PLAIN, *ODD)}
    expected = assembled(contents, tmp_path / "expected" / VARIANT)
    made = assembled({staged(name): content for name, content in contents.items()}, tmp_path / "bazel" / VARIANT)
    assert set(files_of(made)).isdisjoint(ODD)
    with true_names(made, plan) as place:
        assert place.name == VARIANT
        assert place.is_relative_to(cache)
        assert {name: path.read_bytes() for name, path in files_of(place).items()} == {
            name: path.read_bytes() for name, path in files_of(expected).items()
        }
        stated = json.loads((place / "metadata.json").read_text(encoding="utf-8"))["digest"]["files"]
        assert stated == dict(Digest.hash_variant(DigestAlgorithm.SHA256, place).files)
    assert list((cache / "names").iterdir()) == []


def test_a_variant_of_plain_names_is_not_copied(tmp_path: Path, cache: Path) -> None:
    plan = planned(tmp_path / "project")
    with true_names(tmp_path / VARIANT, plan) as place:
        assert place == tmp_path / VARIANT
    assert not cache.exists()


def test_bazel_finds_each_file_where_its_build_file_says(tmp_path: Path) -> None:
    project = tmp_path / "project"
    plan = planned(project, *ODD)
    workspace = workspace_for(project, plan, Releases())
    package = workspace.root / workspace.package
    there = {name: path.read_bytes() for name, path in files_of(package).items() if name != "BUILD.bazel"}
    assert there == {staged(name): (project / name).read_bytes() for name in plan.files}
    text = (package / "BUILD.bazel").read_text(encoding="ascii")
    assert all(f'"{name}"' in text for name in there)
