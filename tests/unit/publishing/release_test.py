"""What of `build/` is published, and what a commit changes: the rules, without a Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import tuned

from py_driver.bazel.invocation import Compress, Cxx
from py_driver.building.variant_dir import read_metadata
from py_driver.errors import Code, DriverError
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory
from py_driver.plan.project import load
from py_driver.publishing.provenance import Sources, documents
from py_driver.publishing.rebuild import Chosen, Place, choices_of
from py_driver.publishing.release import Changes, File, HubFile, changes, make_file, read_variants, target

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.errors import Diagnostic
    from py_driver.publishing.release import BuiltVariant

CPU, CUDA = "torch-cpu", "torch-cuda"


def read(project: Path) -> list[BuiltVariant]:
    plan = plan_directory(project, Releases())
    return read_variants(project, plan, [variant for variant in plan.variants if variant.name in {CPU, CUDA}])


def refusals(project: Path) -> list[Diagnostic]:
    with pytest.raises(DriverError) as caught:
        read(project)
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {Code.CHANGED_BUILD}
    return list(caught.value.diagnostics)


def git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("content", [b"", b"x = 1\n", bytes(range(256)) * 10_000], ids=["empty", "small", "parts"])
def test_a_file_has_the_names_that_git_and_the_hub_give_it(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "file"
    place.write_bytes(content)
    expected = (len(content), hashlib.sha256(content).hexdigest(), git_name(content))
    for text in (content, place):
        file = make_file("build/x", text)
        assert (file.path, file.content) == ("build/x", text)
        assert (file.size, file.sha256, file.blob) == expected


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        make_file("build/x", tmp_path / "missing")
    assert caught.value.diagnostics[0].code is Code.FILE_MISSING
    assert str(tmp_path / "missing") in str(caught.value)


def test_where_variants_go(project: Path) -> None:
    manifest = load(project, Releases()).manifest
    assert target(manifest, "", "") == ("me/tuned", "v3")
    assert target(manifest, "you/other", "dev") == ("you/other", "dev")
    hub = manifest.hub._replace(branch="next")
    assert target(manifest._replace(hub=hub), "", "") == ("me/tuned", "next")
    assert target(manifest._replace(hub=hub), "", "dev") == ("me/tuned", "dev")
    with pytest.raises(DriverError) as nobody:
        target(manifest._replace(hub=hub._replace(repo_id=None)), "", "")
    [found] = nobody.value.diagnostics
    assert (found.code, found.message) == (Code.MISSING_KEY, "no repository on the Hub is given")
    assert found.help == 'name it with --repo-id, or write [general.hub] repo-id = "owner/name"'
    with pytest.raises(DriverError) as odd:
        target(manifest, "me/tuned/x", "")
    [found] = odd.value.diagnostics
    assert (found.code, found.message) == (Code.USAGE, "`me/tuned/x` is not the name of a repository on the Hub")
    assert found.help == "names look like `owner/name`"


def test_variants_as_they_were_built(project: Path) -> None:
    place = project / "build" / CPU
    (place / "__pycache__").mkdir()
    (place / "__pycache__" / "x.pyc").write_bytes(b"x")
    (place / "metadata.json.sigstore").write_text(tuned.bundle((place / "metadata.json").read_bytes()))
    cpu, cuda = read(project)
    assert (cpu.name, cuda.name) == (CPU, CUDA)
    assert cpu.metadata == json.loads((place / "metadata.json").read_text())
    names = ["__init__.py", "_ops.py", "metadata.json", "metadata.json.sigstore", "weights.bin"]
    assert [file.path for file in cpu.files] == [f"build/{CPU}/{name}" for name in names]
    assert [file.content for file in cpu.files] == [place / name for name in names]
    names.remove("metadata.json.sigstore")
    assert [file.path for file in cuda.files] == [f"build/{CUDA}/{name}" for name in names]


def test_every_variant_that_was_changed_is_said_and_no_list_is_long(project: Path) -> None:
    for variant, count in ((CPU, 5), (CUDA, 7)):
        for number in range(count):
            (project / "build" / variant / f"{number}").touch()
    cpu, cuda = refusals(project)
    assert cpu.help == cuda.help == "build it again: driver build"
    listed = "; ".join(f"{number} was not built" for number in range(5))
    assert cpu.message == f"{project / 'build' / CPU} has changed since it was built: {listed}"
    assert cuda.message == f"{project / 'build' / CUDA} has changed since it was built: {listed}; 2 more"
    shutil.rmtree(project / "build" / CUDA)
    tuned.build(project, CUDA, tuned.FILES)
    assert len(refusals(project)) == 1


def test_links_in_directories_are_seen(project: Path) -> None:
    (project / "build" / CPU / "sub").mkdir()
    (project / "build" / CPU / "sub" / "link").symlink_to("../__init__.py")
    (project / "build" / CPU / "a").symlink_to("sub")
    [found] = refusals(project)
    assert found.message.endswith(": a is a link; sub/link is a link")


@pytest.mark.parametrize(
    "metadata",
    ["", "[]", "no JSON", "[" * 100_000, "{}", '{"digest": []}', '{"digest": {"algorithm": "sha256"}}',
     '{"digest": {"algorithm": "sha256", "files": []}}', '{"digest": {"algorithm": "sha512", "files": {}}}',
     '{"digest": {"files": {}}}'],
)  # fmt: skip
def test_metadata_that_names_no_files(project: Path, metadata: str) -> None:
    (project / "build" / CPU / "metadata.json").write_text(metadata)
    [found] = refusals(project)
    assert found.message.endswith(f"{CPU} has changed since it was built: metadata.json lists no files")


def test_metadata_is_an_object_or_nothing(tmp_path: Path) -> None:
    assert read_metadata(tmp_path) is None
    for text, expected in (('{"a": "\\u00e9"}', {"a": "é"}), ("[1]", None), ("", None), ("[" * 100_000, None)):
        (tmp_path / "metadata.json").write_text(text)
        assert read_metadata(tmp_path) == expected
    (tmp_path / "metadata.json").write_bytes('{"a": "é"}'.encode())
    assert read_metadata(tmp_path) == {"a": "é"}


def test_what_the_project_no_longer_is(project: Path) -> None:
    place = project / "build" / CPU / "metadata.json"
    metadata = json.loads(place.read_text())
    place.write_text(json.dumps({**metadata, "id": "_x", "license": "mit", "surplus": 1}))
    [found] = refusals(project)
    other = [f"its `{key}` belongs to another build" for key in ("license", "surplus")]
    assert found.message.endswith(f": its sources have changed since; {'; '.join(other)}")
    del metadata["version"]
    place.write_text(json.dumps(metadata))
    [found] = refusals(project)
    assert found.message.endswith(": its `version` belongs to another build")


def test_the_compiler_that_was_chosen_is_part_of_a_build(project: Path) -> None:
    plan = plan_directory(project, Releases())
    chosen = [variant for variant in plan.variants if variant.name in {CPU, CUDA}]
    place = project / "build" / CPU / "metadata.json"
    metadata = json.loads(place.read_text())
    place.write_text(json.dumps({**metadata, "cxx": "icc"}))
    [found] = refusals(project)
    assert found.message.endswith(": its `cxx` belongs to another build")
    assert choices_of(Place(project), chosen, Chosen()) == {Chosen(): chosen}
    place.write_text(json.dumps({**metadata, "cxx": "gcc"}))
    gcc, clang = sorted(chosen, key=lambda one: one.name != CPU)
    assert choices_of(Place(project), chosen, Chosen()) == {Chosen(Cxx.GCC): [gcc], Chosen(): [clang]}
    assert choices_of(Place(project), chosen, Chosen(Cxx.CLANG)) == {Chosen(Cxx.CLANG): chosen}
    built = read_variants(project, plan, [gcc])
    [made, _] = documents(load(project, Releases()).manifest, built[0], [], Sources())
    assert isinstance(made.content, bytes)
    statement = json.loads(made.content)
    assert statement["predicate"]["buildDefinition"]["externalParameters"]["cxx"] == "gcc"


RIGHT = {"algorithm": "SHA2_256"}


@pytest.mark.parametrize(
    "signature",
    [
        {},
        [],
        None,
        {"messageSignature": None},
        {"messageSignature": {"messageDigest": []}},
        {"messageSignature": {"messageDigest": {**RIGHT}}},
        {"messageSignature": {"messageDigest": {**RIGHT, "digest": base64.b64encode(bytes(32)).decode()}}},
    ],
)
def test_a_signature_is_of_the_metadata_beside_it(project: Path, signature: Any) -> None:  # noqa: ANN401
    (project / "build" / CPU / "metadata.json.sigstore").write_text(json.dumps(signature))
    [found] = refusals(project)
    assert found.message.endswith(": metadata.json.sigstore is not a sigstore bundle of metadata.json")


def test_a_signature_by_another_algorithm_or_of_no_text_is_none(project: Path) -> None:
    place = project / "build" / CPU
    right = json.loads(tuned.bundle((place / "metadata.json").read_bytes()))
    right["messageSignature"]["messageDigest"]["algorithm"] = "SHA2_512"
    for text in (json.dumps(right).encode(), b"\xff\xfe\x00", b"[" * 100_000):
        (place / "metadata.json.sigstore").write_bytes(text)
        [found] = refusals(project)
        assert found.message.endswith(": metadata.json.sigstore is not a sigstore bundle of metadata.json")


def remote(file: File, *, large: bool = False) -> HubFile:
    return HubFile(file.path, "pointer" if large else file.blob, file.sha256 if large else "")


@pytest.mark.parametrize("large", [False, True])
def test_what_a_commit_changes(large: bool) -> None:  # noqa: FBT001
    same, edited, new = (make_file(f"build/a/{name}", name.encode()) for name in ("same", "edited", "new"))
    there = [
        remote(same, large=large),
        remote(make_file(edited.path, b"before"), large=large),
        HubFile("build/a/z", "1"),
        HubFile("build/a/gone", "2"),
        HubFile("build/ab/stays", "3"),
        HubFile("README.md", "4"),
    ]
    found = changes([same, edited, new], there, ["build/a"])
    assert found == Changes(added=(edited, new), deleted=("build/a/gone", "build/a/z"), same=1)
    assert changes([same, edited, new], there, []) == Changes(added=(edited, new), deleted=(), same=1)
    assert changes([], there, ["build/a", "build/ab"]).deleted == (
        "build/a/edited", "build/a/gone", "build/a/same", "build/a/z", "build/ab/stays"
    )  # fmt: skip


def test_a_signature_stays_as_long_as_what_it_signs() -> None:
    metadata = make_file("build/a/metadata.json", b"{}")
    signature = HubFile("build/a/metadata.json.sigstore", "1")
    assert changes([metadata], [remote(metadata), signature], ["build/a"]) == Changes(added=(), deleted=(), same=1)
    changed = changes([metadata], [HubFile(metadata.path, "2"), signature], ["build/a"])
    assert changed == Changes(added=(metadata,), deleted=(signature.path,), same=0)
    own = make_file(signature.path, b"signed anew")
    assert changes([metadata, own], [remote(metadata), signature], ["build/a"]).added == (own,)


def test_the_compression_that_was_chosen_is_part_of_a_build(project: Path) -> None:
    plan = plan_directory(project, Releases())
    [gpu] = [variant for variant in plan.variants if variant.name == CUDA]
    place = project / "build" / CUDA / "metadata.json"
    metadata = json.loads(place.read_text())
    for wrong in ("release", "most"):
        place.write_text(json.dumps({**metadata, "compress": wrong}))
        [found] = refusals(project)
        assert found.message.endswith(": its `compress` belongs to another build")
        assert choices_of(Place(project), [gpu], Chosen()) == {Chosen(): [gpu]}
    place.write_text(json.dumps({**metadata, "compress": "size"}))
    assert choices_of(Place(project), [gpu], Chosen()) == {Chosen(None, Compress.SIZE): [gpu]}
    assert choices_of(Place(project), [gpu], Chosen(None, Compress.SPEED)) == {Chosen(None, Compress.SPEED): [gpu]}
    built = read_variants(project, plan, [gpu])
    [made, _] = documents(load(project, Releases()).manifest, built[0], [], Sources())
    assert isinstance(made.content, bytes)
    parameters = json.loads(made.content)["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["compress"] == "size"
