"""`driver publish` against a Hub on the loopback interface: what is sent, what is refused, and what failures leave."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from py_driver import __version__
from py_driver.fetch.entry import Entry, Origin
from py_driver.lock import entries_for
from py_driver.project import plan_directory
from py_driver.provenance import package_url
from py_driver.variants.names import parse

sys.path.insert(0, str(Path(__file__).parents[1]))

from hub import Fault, Hub, Repository, nothing, served

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CANARY = "hf_CANARYcanaryCANARYcanaryCANARYcanary"
REPO = "me/tuned"
MANIFEST = """\
[general]
name = "tuned"
version = 3
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]

[general.hub]
repo-id = "me/tuned"

[torch-noarch]
pyext = ["py", "bin"]
"""
DOCUMENTS = (("provenance", "intoto"), ("sbom", "cdx"))
FILES = {"__init__.py": b"x = 1\n", "_ops.py": b"", "weights.bin": bytes(range(256)) * 8}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with served() as hub:
        yield hub


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "tuned"
    package = project / "torch-ext" / "tuned"
    package.mkdir(parents=True)
    (project / "build.toml").write_text(MANIFEST)
    for name in ("__init__.py", "weights.bin"):
        (package / name).write_bytes(FILES[name])
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES)
    return project


def build(project: Path, variant: str, files: dict[str, bytes]) -> None:
    """Put a variant there as the rules write it, of what the sources are now."""
    place = project / "build" / variant
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    digests = {name: base64.b64encode(hashlib.sha256(content).digest()).decode() for name, content in files.items()}
    for name, content in files.items():
        (place / name).write_bytes(content)
    plan = plan_directory(project)
    [cell] = [one for one in plan.variants if one.name == variant]
    [identity] = [one for one in plan.identities if one.name == cell.identity]
    metadata = {
        **cell.metadata,
        "id": identity.unique_id(plan.module, {name: (project / name).read_bytes() for name in identity.files}),
        "digest": {"algorithm": "sha256", "files": digests},
        "provenance": {"kernel-builder": {"version": f"rules_torch_kernels {__version__}"}},
    }
    (place / "metadata.json").write_text(json.dumps(metadata))


def environment(hub: Hub | str, project: Path) -> dict[str, str]:
    """The variables of a user who may write to a Hub; large files go through Xet if it has that."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub if isinstance(hub, str) else hub.address,
        "HF_HUB_DISABLE_XET": "" if isinstance(hub, Hub) and hub.xet else "1",
        "HF_HOME": str(project.parent / "hf"),
        "HF_TOKEN": CANARY,
        "PYTHONPATH": str(ROOT),
    }


def publish(hub: Hub | str, project: Path, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the verb as a user does; the token is in nothing that it says."""
    command = [sys.executable, "-m", "py_driver", "publish", str(project), *options]
    environ = environment(hub, project)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert CANARY not in done.stdout + done.stderr
    assert "internal error" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


def below_build(hub: Hub, branch: str = "v3") -> dict[str, bytes]:
    files = hub.repositories[REPO].files(branch)
    assert files is not None
    return {path: content for path, content in files.items() if path.startswith("build/")}


def on_disk(project: Path) -> dict[str, bytes]:
    return {p.relative_to(project).as_posix(): p.read_bytes() for p in (project / "build").rglob("*") if p.is_file()}


def test_all_variants_in_one_commit_and_the_card_in_another(hub: Hub, project: Path) -> None:
    result = json.loads(publish(hub, project, "--json").stdout)
    assert below_build(hub) == on_disk(project)
    assert hub.repositories[REPO].count == 2
    assert (hub.asked("POST commit/v3"), hub.asked("POST commit/main")) == (1, 1)
    assert hub.asked("PUT _lfs/") == 2
    assert result["variants"] == ["torch-cpu", "torch-cuda"]
    [first, second] = result["branches"]
    documents = [f"{kind[0]}/{name}.{kind[1]}.json" for name in result["variants"] for kind in DOCUMENTS]
    assert [one["path"] for one in first["added"]] == [*sorted(on_disk(project)), *documents]
    assert (first["branch"], second["branch"], first["deleted"]) == ("v3", "main", [])
    assert [one["path"] for one in second["added"]] == ["README.md"]


def test_token_goes_to_the_hub_and_not_where_it_stores(hub: Hub, project: Path) -> None:
    publish(hub, project)
    assert {one.token for one in hub.requests if one.what.startswith("PUT _lfs")} == {""}
    assert {one.token for one in hub.requests if "commit/" in one.what} == {CANARY}


def test_token_is_not_shown_when_the_library_tells_all(
    hub: Hub, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DEBUG", "1")
    hub.faults.append(Fault(what="POST commit/v3", status=500))
    done = publish(hub, project, code=4)
    assert "authorization: <TOKEN>" in done.stderr


def test_card_says_how_to_load_and_what_there_is(hub: Hub, project: Path) -> None:
    publish(hub, project)
    files = hub.repositories[REPO].files("main")
    assert files is not None
    card = files["README.md"].decode()
    assert card.startswith('---\nlicense: "apache-2.0"\nlibrary_name: kernels\ntags:\n- kernels\n---\n\n# tuned\n')
    assert 'tuned = kernels.get_kernel("me/tuned", version=3)' in card
    assert "| `torch-cpu` | any | any | cpu | - |\n| `torch-cuda` | any | any | cuda | - |\n" in card
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
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    built = {path: hashlib.sha256(content).hexdigest() for path, content in below_build(hub).items()}
    assert subjects == {path: digest for path, digest in built.items() if path.startswith("build/torch-cpu/")}
    sources, *archives = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert sources == {"name": "sources", "annotations": {"dirty": False}, "digest": {"gitCommit": commit}}
    pinned = {entry.sha256 for entry in entries_for([parse("torch-cpu")])}
    assert {one["digest"]["sha256"] for one in archives} == pinned
    assert statement["predicate"]["runDetails"]["builder"]["version"] == {"rules_torch_kernels": __version__}


def test_sbom_is_cyclonedx(hub: Hub, project: Path) -> None:
    publish(hub, project)
    files = hub.repositories[REPO].files("v3")
    assert files is not None
    text = files["sbom/torch-cuda.cdx.json"].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components = json.loads(text)["components"]
    entries = entries_for([parse("torch-cuda")])
    assert {one["hashes"][0]["content"] for one in components} == {entry.sha256 for entry in entries}
    assert {one["purl"].split("/")[0] for one in components} == {"pkg:pypi", "pkg:deb"}


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
    assert not [one for one in hub.requests[before:] if one.what.startswith(("PUT", "POST commit", "POST lfs"))]
    assert f"{hub.address}/kernels/{REPO} has all of it already" in done.stderr


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


def test_dry_run_changes_nothing(hub: Hub, project: Path) -> None:
    done = publish(hub, project, "--dry-run")
    assert hub.repositories == {}
    assert {one.what.split()[0] for one in hub.requests} == {"GET"}
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
        "the card is left as it is: it is about v3, and this is next"
    ])  # fmt: skip


def _add(place: Path) -> None:
    (place / ".env").write_text("SECRET=1\n")


def _link(place: Path) -> None:
    (place / "passwd").symlink_to("/etc/passwd")


def _link_instead(place: Path) -> None:
    (place / "_ops.py").unlink()
    (place / "_ops.py").symlink_to("__init__.py")


def _change(place: Path) -> None:
    (place / "__init__.py").write_text("import os\n")


def _remove(place: Path) -> None:
    (place / "weights.bin").unlink()


def _forget(place: Path) -> None:
    (place / "metadata.json").write_text("{}")


def _swap(place: Path) -> None:
    shutil.copy(place.with_name("torch-cuda") / "metadata.json", place)


def _edit(place: Path) -> None:
    (place.parents[1] / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")


def _release(place: Path) -> None:
    manifest = place.parents[1] / "build.toml"
    manifest.write_text(MANIFEST.replace("version = 3", "version = 4"))


def _link_metadata(place: Path) -> None:
    (place / "metadata.json").rename(place / "metadata.json.sigstore")
    (place / "metadata.json").symlink_to("metadata.json.sigstore")


def _other_builder(place: Path) -> None:
    metadata = json.loads((place / "metadata.json").read_text())
    metadata["provenance"]["kernel-builder"]["version"] = "rules_torch_kernels 0.0.1"
    (place / "metadata.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_add, ".env was not built"),
        (_link, "passwd is a link"),
        (_link_instead, "_ops.py is a link; _ops.py is missing"),
        (_change, "__init__.py has other bytes"),
        (_remove, "weights.bin is missing"),
        (_forget, "metadata.json names no files"),
        (_swap, "its `backend` is that of another build; its sources have changed since"),
        (_edit, "its sources have changed since"),
        (_release, "its sources have changed since; its `version` is that of another build"),
        (_link_metadata, "metadata.json is a link; metadata.json names no files"),
        (_other_builder, "its `provenance` is that of another build"),
    ],
)
def test_what_was_not_built_so_is_refused(hub: Hub, project: Path, spoil: Any, said: str) -> None:  # noqa: ANN401
    spoil(project / "build" / "torch-cpu")
    done = publish(hub, project, code=2)
    assert f"error[E404]: {project}/build/torch-cpu is not as it was built: {said}" in done.stderr
    assert hub.requests == []


def test_what_python_leaves_is_not_published(hub: Hub, project: Path) -> None:
    expected = on_disk(project)
    (project / "build" / "torch-cpu" / "__pycache__").mkdir()
    (project / "build" / "torch-cpu" / "__pycache__" / "x.pyc").write_bytes(b"x")
    publish(hub, project)
    assert below_build(hub) == expected


def test_dirty_tree_is_refused(hub: Hub, project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "build.toml", "torch-ext"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    publish(hub, project, "--dry-run")
    (project / "torch-ext" / "tuned" / "__init__.py").write_text("x = 2\n")
    done = publish(hub, project, "--dry-run", code=2)
    assert f"error[E405]: {project} has changes that git does not have: torch-ext/tuned/__init__.py" in done.stderr
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES | {"__init__.py": b"x = 2\n"})
    publish(hub, project, "--dry-run", "--allow-dirty")


@pytest.mark.parametrize("how", ["ignored", "hidden"])
def test_source_that_git_does_not_have_is_noticed(hub: Hub, project: Path, how: str) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    if how == "ignored":
        (project / ".gitignore").write_text("*.bin\n")
    else:
        subprocess.run([*git, "config", "status.showUntrackedFiles", "no"], check=True)
    wanted = ["build.toml", "torch-ext/tuned/__init__.py", *([".gitignore"] if how == "ignored" else [])]
    subprocess.run([*git, "add", *wanted], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "m"], check=True)
    assert "changes that git does not have: torch-ext/tuned/weights.bin" in publish(hub, project, code=2).stderr


def test_git_that_does_not_answer(hub: Hub, project: Path) -> None:
    (project / ".git").write_text("gitdir: nowhere\n")
    done = publish(hub, project, code=2)
    assert f"error[E405]: git does not say whether {project} has changes: fatal:" in done.stderr


def test_nobody_says_where(hub: Hub, project: Path) -> None:
    (project / "build.toml").write_text(MANIFEST.replace('[general.hub]\nrepo-id = "me/tuned"\n', ""))
    assert "error[E004]: nobody says which repository on the Hub" in publish(hub, project, code=2).stderr


def test_lost_answer_makes_no_second_commit(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST commit/v3", status=500, after=True))
    publish(hub, project)
    assert hub.repositories[REPO].count == 2
    assert hub.asked("POST commit/v3") == 1


def test_failed_commit_is_made_by_the_next_run_and_sends_nothing_twice(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST commit/v3", status=500))
    done = publish(hub, project, code=4)
    assert "error[E310]: the Hub answered 500" in done.stderr
    assert "run it again" in done.stderr
    assert below_build(hub) == {}
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    assert hub.asked("PUT _lfs/") == 2  # weights.bin of two variants


def test_upload_that_fails_for_a_while_is_tried_again(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="PUT _lfs/", status=503, times=2))
    publish(hub, project)
    assert below_build(hub) == on_disk(project)


@pytest.mark.parametrize(
    "what",
    ["POST api/repos/create", "POST branch", "GET commits", "GET refs", "GET tree", "POST preupload", "POST lfs",
     "PUT _lfs/", "POST _lfs/verify", "POST commit/v3", "POST api/validate-yaml", "POST commit/main"],
)  # fmt: skip
def test_whatever_fails_the_next_run_ends_it(hub: Hub, project: Path, what: str) -> None:
    # Uploads are tried again for half a minute if the Hub says that it failed, and not if it says no.
    hub.faults.append(Fault(what=what, status=403 if "_lfs/" in what else 500, times=20))
    assert "error[E310]" in publish(hub, project, code=4).stderr
    hub.faults.clear()
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    assert hub.repositories[REPO].count == 2


def test_killed_at_any_request_the_next_run_ends_it(project: Path) -> None:
    """Killed when each request is on its way, and, if it changes something, when it was done and its answer is."""
    with served() as hub:
        publish(hub, project)
        expected, asked = hub.repositories[REPO].branches, [one.what for one in hub.requests]
    assert {"POST api/repos/create", "POST branch/v3", "POST commit/v3", "POST commit/main"} <= set(asked)
    lost = [(number, False) for number in range(len(asked))]
    unanswered = [(number, True) for number, what in enumerate(asked) if what.startswith(("POST", "PUT"))]
    for number, done in lost + unanswered:
        with served() as hub:
            killed = _killed(hub, project, number, done=done)
            publish(hub, project)
            assert hub.repositories[REPO].branches == expected, killed
            assert hub.repositories[REPO].count == 2, killed
            assert hub.asked("PUT _lfs/") <= 2 + (killed.startswith("PUT") and not done), killed


def _killed(hub: Hub, project: Path, number: int, *, done: bool) -> str:
    """Publish, and kill that at a request, which is done or not; what it asked for."""
    command = [sys.executable, "-m", "py_driver", "publish", str(project)]
    process = subprocess.Popen(
        command, env=environment(hub, project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def kill(*, after: bool) -> None:
        if after is done and len(hub.requests) == number + 1:
            assert CANARY.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.kill()
            process.wait()
            raise ConnectionResetError

    hub.at_request = kill
    assert process.wait(60) == -signal.SIGKILL
    hub.at_request = nothing
    return hub.requests[number].what


@pytest.fixture
def xet(hub: Hub, tmp_path: Path) -> Hub:
    """A Hub with Xet, whose store hf_xet keeps in a directory."""
    hub.xet = tmp_path / "xet"
    hub.xet.mkdir()
    hub.stored[hashlib.sha256(FILES["weights.bin"]).hexdigest()] = FILES["weights.bin"]
    return hub


def test_large_files_go_through_xet_and_then_there_is_one_commit(xet: Hub, project: Path) -> None:
    publish(xet, project)
    assert below_build(xet) == on_disk(project)
    assert (xet.asked("POST commit/v3"), xet.asked("POST commit/main"), xet.asked("POST lfs")) == (1, 1, 0)
    assert xet.xet is not None
    assert [path for path in xet.xet.glob("xet/xorbs/xorbs/default.*") if path.suffix != ".tagset"]
    before = len(xet.requests)
    publish(xet, project)
    assert not [one for one in xet.requests[before:] if one.what.startswith(("GET xet", "POST commit"))]


def test_xet_that_refuses(xet: Hub, project: Path) -> None:
    xet.faults.append(Fault(what="GET xet-write-token", status=403))
    done = publish(xet, project, code=4)
    assert "error[E310]: the Hub answered 403" in done.stderr
    assert "the token may not write there" in done.stderr
    assert xet.repositories[REPO].count == 0
    publish(xet, project)
    assert below_build(xet) == on_disk(project)


def bundle(content: bytes) -> str:
    """What sigstore's bundle of some bytes says of them."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return json.dumps({"messageSignature": {"messageDigest": {"algorithm": "SHA2_256", "digest": digest}}})


def test_signature_is_published_and_stays_until_the_variant_changes(hub: Hub, project: Path) -> None:
    place = project / "build" / "torch-cpu"
    signature = place / "metadata.json.sigstore"
    signature.write_text(bundle((place / "metadata.json").read_bytes()))
    publish(hub, project)
    assert below_build(hub) == on_disk(project)
    statement = document(hub, "provenance/torch-cpu.intoto.json")
    assert not any(one["name"].endswith(".sigstore") for one in statement["subject"])
    signature.unlink()
    publish(hub, project)
    assert "build/torch-cpu/metadata.json.sigstore" in below_build(hub)
    build(project, "torch-cpu", FILES | {"__init__.py": b"x = 2\n"})
    publish(hub, project)
    assert below_build(hub) == on_disk(project)


@pytest.mark.parametrize("text", [bundle(b"another metadata.json"), "[]", "no JSON"])
def test_signature_of_something_else_is_refused(hub: Hub, project: Path, text: str) -> None:
    (project / "build" / "torch-cpu" / "metadata.json.sigstore").write_text(text)
    assert "metadata.json.sigstore is no sigstore bundle of metadata.json" in publish(hub, project, code=2).stderr
    assert hub.requests == []


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


def test_other_bytes_on_the_hub_are_noticed(hub: Hub, project: Path) -> None:
    def spoil() -> None:
        hub.stored.update(dict.fromkeys(hub.stored, b"other"))

    hub.before_commit = spoil
    done = publish(hub, project, code=4)
    assert "does not have what was sent: build/torch-cpu/weights.bin" in done.stderr


def test_other_publisher_wins(hub: Hub, project: Path) -> None:
    publish(hub, project)
    build(project, "torch-cpu", {"__init__.py": b"x = 2\n"})

    def other() -> None:
        hub.repositories[REPO].put("v3", {"build/theirs": b""})

    hub.before_commit = other
    done = publish(hub, project, code=4)
    assert "error[E310]: the Hub answered 412" in done.stderr
    assert "somebody else published meanwhile" in done.stderr
    assert below_build(hub) == {"build/theirs": b""}


@pytest.mark.parametrize(("status", "advice"), [(401, "hf auth login"), (403, "may not write"), (429, "slow down")])
def test_what_the_hub_refuses_is_explained(hub: Hub, project: Path, status: int, advice: str) -> None:
    hub.faults.append(Fault(what="POST api/repos/create", status=status, times=9))
    done = publish(hub, project, code=4)
    assert f"error[E310]: the Hub answered {status}" in done.stderr
    assert advice in done.stderr


def test_no_hub(project: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    assert "error[E301]: cannot reach the Hub" in publish(address, project, code=4).stderr


@pytest.mark.parametrize("name", ["no slash/or/two", "a b/c", "-x/y", "tuned"])
def test_name_that_is_none(hub: Hub, project: Path, name: str) -> None:
    assert f"error[E200]: `{name}` is no repository" in publish(hub, project, f"--repo-id={name}", code=2).stderr
    assert hub.requests == []


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:99999", "nothing"])
def test_address_that_is_none(project: Path, address: str) -> None:
    assert "error[E3" in publish(address, project, code=4).stderr


def test_card_that_the_hub_refuses(hub: Hub, project: Path) -> None:
    hub.faults.append(Fault(what="POST api/validate-yaml", status=400))
    assert "Invalid metadata in README.md" in publish(hub, project, code=4).stderr
    publish(hub, project)
    assert hub.repositories[REPO].count == 2


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
    assert "note: the card is left as it is: it is about v3, which is newer than v2" in done.stderr
    assert set(hub.repositories[REPO].branches) == {"main", "v2", "v3"}
    assert (hub.repositories[REPO].files("main") or {})["README.md"] == card


def test_card_of_somebody_else_stays(hub: Hub, project: Path) -> None:
    publish(hub, project)
    hub.repositories[REPO].put("main", {"README.md": b"# By hand"})
    assert "note: README.md of main is left as it is" in publish(hub, project).stderr
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


@pytest.mark.parametrize("link", ["benchmarks", "benchmarks/benchmark_x.py"])
def test_benchmark_outside_of_the_project_is_not_sent(hub: Hub, project: Path, link: str) -> None:
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "benchmark_x.py").write_text("SECRET")
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(secret if link == "benchmarks" else secret / "benchmark_x.py")
    assert "note: benchmarks/benchmark_x.py is not sent: it is not in the project" in publish(hub, project).stderr
    assert "benchmarks/benchmark_x.py" not in (hub.repositories[REPO].files("v3") or {})


def test_control_characters_of_the_hub_are_not_shown(hub: Hub, project: Path) -> None:
    publish(hub, project)
    hub.repositories[REPO].put("v3", below_build(hub) | {"build/torch-cpu/a\x1b]0;b": b""})
    assert "build/torch-cpu/a\\u001b]0;b" in publish(hub, project).stdout
