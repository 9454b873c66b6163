"""`driver publish` against a Hub on the loopback interface: what is sent where."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hub import Hub, Repository
from tuned import (
    CANARY,
    DOCUMENTS,
    FILES,
    MANIFEST,
    ODD,
    REPO,
    below_build,
    build,
    bundle,
    on_disk,
    publish,
)

from py_driver import __version__
from py_driver.fetch.entry import Entry, Origin
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.publishing.provenance import package_url

if TYPE_CHECKING:
    from pathlib import Path


def test_all_variants_in_one_commit_and_the_card_in_another(hub: Hub, project: Path) -> None:
    result = json.loads(publish(hub, project, "--json").stdout)
    assert below_build(hub) == on_disk(project)
    assert hub.repositories[REPO].count == 2
    assert (hub.asked("POST commit/v3"), hub.asked("POST commit/main")) == (1, 1)
    assert hub.asked("PUT _lfs/") == 2
    assert result["variants"] == ["torch-cpu", "torch-cuda"]
    [first, second] = result["branches"]
    documents = [f"{kind[0]}/{name}.{kind[1]}.json" for name in result["variants"] for kind in DOCUMENTS]
    assert [operation["path"] for operation in first["added"]] == [*sorted(on_disk(project)), *documents]
    assert (first["branch"], second["branch"], first["deleted"]) == ("v3", "main", [])
    assert [operation["path"] for operation in second["added"]] == ["README.md"]


def test_files_of_any_name(hub: Hub, odd: Path) -> None:
    git = ["git", "-C", str(odd), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "build.toml", "torch-ext"], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *command], check=True)
    publish(hub, odd)
    assert below_build(hub) == on_disk(odd)
    assert {f"build/torch-cpu/{name}" for name in ODD} < below_build(hub).keys()
    subjects = document(hub, "provenance/torch-cpu.intoto.json")["subject"]
    assert {subject["name"] for subject in subjects} == {path for path in below_build(hub) if "/torch-cpu/" in path}
    assert "0 files changed" in publish(hub, odd).stderr


def test_token_goes_to_the_hub_and_not_where_it_stores(hub: Hub, project: Path) -> None:
    publish(hub, project)
    assert {request.token for request in hub.requests if request.what.startswith("PUT _lfs")} == {""}
    assert {request.token for request in hub.requests if "commit/" in request.what} == {CANARY}


def test_card_says_how_to_load_and_what_there_is(hub: Hub, project: Path) -> None:
    publish(hub, project)
    files = hub.repositories[REPO].files("main")
    assert files is not None
    card = files["README.md"].decode()
    assert card.startswith('---\nlicense: "apache-2.0"\nlibrary_name: kernels\ntags:\n- kernels\n---\n\n# tuned\n')
    assert 'tuned = kernels.get_kernel("me/tuned", version=3, trust_remote_code=["me/tuned"])' in card
    assert "| `torch-cpu` | any | any | `cpu` | - |\n| `torch-cuda` | any | any | `cuda` | - |\n" in card
    assert "\n\n\n\n" not in card


def document(hub: Hub, path: str) -> Any:  # noqa: ANN401  (JSON)
    files = hub.repositories[REPO].files("v3")
    assert files is not None
    return json.loads(files[path])


def test_provenance_names_files_sources_and_every_pinned_archive(hub: Hub, project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "build.toml", "torch-ext"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    publish(hub, project)
    statement = document(hub, "provenance/torch-cpu.intoto.json")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    built = {path: hashlib.sha256(content).hexdigest() for path, content in below_build(hub).items()}
    assert subjects == {path: digest for path, digest in built.items() if path.startswith("build/torch-cpu/")}
    sources, *archives = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert sources == {"name": "sources", "annotations": {"dirty": False}, "digest": {"gitCommit": commit}}
    pinned = {entry.sha256 for entry in Releases().lock.entries_for([parse("torch-cpu")])}
    assert {archive["digest"]["sha256"] for archive in archives} == pinned
    assert statement["predicate"]["runDetails"]["builder"]["version"] == {"rules_torch_kernels": __version__}


def test_sbom_is_cyclonedx(hub: Hub, project: Path) -> None:
    publish(hub, project)
    files = hub.repositories[REPO].files("v3")
    assert files is not None
    text = files["sbom/torch-cuda.cdx.json"].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components = json.loads(text)["components"]
    entries = Releases().lock.entries_for([parse("torch-cuda")])
    assert {component["hashes"][0]["content"] for component in components} == {entry.sha256 for entry in entries}
    assert {component["purl"].split("/")[0] for component in components} == {"pkg:pypi", "pkg:deb"}


@pytest.mark.parametrize(
    ("origin", "url", "expected"),
    [
        (Origin.PYTHON_INDEX, "", "pkg:pypi/some-thing@1.0%2B1"),
        (Origin.DEBIAN, "", "pkg:deb/debian/some_thing@1.0%2B1?arch=amd64"),
        (Origin.URL, "https://x/y.gz", "pkg:generic/some_thing@1.0%2B1?download_url=https%3A%2F%2Fx%2Fy.gz"),
    ],
)
def test_package_urls(origin: Origin, url: str, expected: str) -> None:
    entry = Entry(name="Some_Thing", version="1.0+1", filename="y.gz", size=1, sha256="0" * 64, origin=origin, url=url)
    assert package_url(entry) == expected


def test_the_same_again_makes_no_commit(hub: Hub, project: Path) -> None:
    publish(hub, project)
    before = len(hub.requests)
    done = publish(hub, project)
    assert hub.repositories[REPO].count == 2
    assert not [
        request for request in hub.requests[before:] if request.what.startswith(("PUT", "POST commit", "POST lfs"))
    ]
    assert f"{hub.address}/kernels/{REPO} is up to date" in done.stderr


def test_rebuilt_variant_loses_stale_files_and_others_keep_theirs(hub: Hub, project: Path) -> None:
    publish(hub, project)
    build(project, "torch-cpu", {"__init__.py": b"x = 2\n", "_ops.py": b""})
    shutil.rmtree(project / "build" / "torch-cuda")
    done = publish(hub, project)
    assert "did delete  v3  build/torch-cpu/weights.bin" in done.stdout
    there = below_build(hub)
    assert "build/torch-cpu/weights.bin" not in there
    assert there["build/torch-cpu/__init__.py"] == b"x = 2\n"
    assert there["build/torch-cuda/weights.bin"] == FILES["weights.bin"]


def test_variants_of_other_sources_that_stay_are_noted(hub: Hub, project: Path) -> None:
    assert "other sources" not in publish(hub, project).stderr
    files = hub.repositories[REPO].files("v3")
    assert files is not None
    foreign = {"build/torch29-metal-aarch64-darwin/metadata.json": b'{"id": "m", "backend": {"type": "metal"}}'}
    old = {"build/torch25-cxx11-cu124-x86_64-linux/metadata.json": b'{"id": "c", "backend": {"type": "cuda"}}'}
    hub.repositories[REPO].put("v3", files | foreign | old)
    (project / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")
    build(project, "torch-cpu", FILES | {"__init__.py": b"x = 2\n"})
    done = publish(hub, project, "--variant=torch-cpu", "--dry-run", "--json")
    assert json.loads(done.stdout)["notes"] == [
        "v3 keeps 2 variants of other sources: torch-cuda, torch25-cxx11-cu124-x86_64-linux; "
        "build and publish each again, or delete it there"
    ]


def test_dry_run_changes_nothing(hub: Hub, project: Path) -> None:
    done = publish(hub, project, "--dry-run")
    assert hub.repositories == {}
    assert {request.what.split()[0] for request in hub.requests} == {"GET"}
    lines = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("would add")]
    documents = [f"{kind[0]}/{name}.{kind[1]}.json" for name in ("torch-cpu", "torch-cuda") for kind in DOCUMENTS]
    assert lines == [*sorted(on_disk(project)), *documents, "README.md"]


@pytest.mark.parametrize("option", [["--repo-id", "other/name"], ["--branch", "next"]])
def test_command_line_says_where(hub: Hub, project: Path, option: list[str]) -> None:
    result = json.loads(publish(hub, project, "--json", *option).stdout)
    assert option[1] in {result["repo-id"], result["branches"][0]["branch"]}
    repository = hub.repositories[result["repo-id"]]
    files = repository.files(result["branches"][0]["branch"])
    assert files is not None
    assert "build/torch-cpu/metadata.json" in files
    assert ("README.md" in (repository.files("main") or {})) is (option[0] == "--repo-id")
    assert result["notes"] == ([] if option[0] == "--repo-id" else [
        "the card stays as it is: it is about v3, and this is next"
    ])  # fmt: skip


def test_signature_is_published_and_stays_until_the_variant_changes(hub: Hub, project: Path) -> None:
    place = project / "build" / "torch-cpu"
    signature = place / "metadata.json.sigstore"
    signature.write_text(bundle((place / "metadata.json").read_bytes()))
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    statement = document(hub, "provenance/torch-cpu.intoto.json")
    assert not any(subject["name"].endswith(".sigstore") for subject in statement["subject"])
    signature.unlink()
    publish(hub, project)
    assert "build/torch-cpu/metadata.json.sigstore" in below_build(hub)
    build(project, "torch-cpu", FILES | {"__init__.py": b"x = 2\n"})
    publish(hub, project)
    assert below_build(hub) == on_disk(project)


def test_card_tells_functions_and_benchmarks_and_all_variants_of_the_branch(hub: Hub, project: Path) -> None:
    publish(hub, project)
    shutil.rmtree(project / "build" / "torch-cpu")
    hub.repositories[REPO].put("v3", below_build(hub) | {"build/torch213-metal-aarch64-darwin/metadata.json": b"{"})
    (project / "torch-ext" / "tuned" / "__init__.py").write_text('def tune(x: int = 3) -> None:\n    "Tune it."\n')
    build(project, "torch-cuda", FILES)
    (project / "benchmarks").mkdir()
    (project / "benchmarks" / "common.py").write_text("")
    (project / "benchmarks" / "benchmark_all.py").write_text("print(1)\n")
    (project / "benchmarks" / "notes.json").write_text("[1]")
    (project / "benchmarks" / "huge.json").write_text('{"results": [1' + "0" * 400 + "]}")
    timing = {"mean_ms": 1.25, "min_ms": 1, "iqr_ms": 0.5}
    machine = {"gpu": "H|200", "pytorchVersion": "2.13.0", "backend": "cuda"}
    report = {"results": [{"workload": "A.large", "timingResults": timing}], "machineInfo": machine}
    (project / "benchmarks" / "h200.json").write_text(json.dumps(report))
    publish(hub, project)
    files = hub.repositories[REPO].files("main")
    assert files is not None
    card = files["README.md"].decode()
    assert "\n```python\ntune(x: int=3) -> None\n    Tune it.\n```\n" in card
    names = ["torch-cpu", "torch-cuda", "torch213-metal-aarch64-darwin"]
    assert [line.split("`")[1] for line in card.splitlines() if line.startswith("| `torch")] == names
    assert "\nH/200, torch 2.13.0, cuda; " in card
    assert "| `A.large` | 1.2500 | 1.0000 | 0.5000 |" in card
    assert "\n\n\n\n" not in card
    published = hub.repositories[REPO].files("v3")
    assert published is not None
    assert published["benchmarks/benchmark_all.py"] == b"print(1)\n"
    assert {path for path in published if path.startswith("benchmarks/")} == {
        "benchmarks/benchmark_all.py", "benchmarks/common.py"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("MIT", 'license: "mit"\n'),
        ("Proprietary", 'license: "other"\nlicense_name: "Proprietary"\n'),
        ("a: b", 'license: "other"\nlicense_name: "a: b"\n'),
        ("other", 'license: "other"\n'),
    ],
)
def test_licence_that_the_hub_knows_or_not(hub: Hub, project: Path, licence: str, expected: str) -> None:
    (project / "build.toml").write_text(MANIFEST.replace("Apache-2.0", licence))
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES)
    publish(hub, project)
    files = hub.repositories[REPO].files("main")
    assert files is not None
    assert files["README.md"].decode().startswith(f"---\n{expected}library_name: kernels\n")


def test_card_is_that_of_the_newest_version(hub: Hub, project: Path) -> None:
    publish(hub, project)
    card = (hub.repositories[REPO].files("main") or {})["README.md"]
    (project / "build.toml").write_text(MANIFEST.replace("version = 3", "version = 2"))
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES)
    done = publish(hub, project)
    assert "note: the card stays as it is: it is about v3, which is newer than v2" in done.stderr
    assert set(hub.repositories[REPO].branches) == {"main", "v2", "v3"}
    assert (hub.repositories[REPO].files("main") or {})["README.md"] == card


def test_card_of_somebody_else_stays(hub: Hub, project: Path) -> None:
    publish(hub, project)
    hub.repositories[REPO].put("main", {"README.md": b"# By hand"})
    assert "note: README.md of main stays as it is" in publish(hub, project).stderr
    assert hub.repositories[REPO].files("main") == {"README.md": b"# By hand"}


def test_new_branch_has_nothing_of_main(hub: Hub, project: Path) -> None:
    hub.repositories[REPO] = Repository()
    hub.repositories[REPO].put("main", {".gitattributes": b""})
    hub.repositories[REPO].put("main", {"build/torch-old/metadata.json": b"{}"})
    publish(hub, project)
    assert below_build(hub) == on_disk(project)


def test_pull_requests(hub: Hub, project: Path) -> None:
    said = publish(hub, project, "--create-pr", code=4).stderr
    assert f"{hub.address}/kernels/{REPO} has no branch v3 to make a pull request for" in said
    assert hub.repositories == {}
    publish(hub, project)
    (project / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES | {"__init__.py": b"x = 2\n"})
    before = below_build(hub)
    publish(hub, project, "--create-pr")
    repository = hub.repositories[REPO]
    assert below_build(hub) == before
    [pull] = repository.pulls
    assert (repository.commits[pull] | on_disk(project)) == repository.commits[pull]
    again = publish(hub, project, "--create-pr")
    assert f"v3: {hub.address}/kernels/{REPO}/discussions/1" in again.stderr
    assert len(repository.pulls) == 1


def test_control_characters_of_the_hub_are_not_shown(hub: Hub, project: Path) -> None:
    publish(hub, project)
    hub.repositories[REPO].put("v3", below_build(hub) | {"build/torch-cpu/a\x1b]0;b": b""})
    assert "build/torch-cpu/a\\u001b]0;b" in publish(hub, project).stdout
