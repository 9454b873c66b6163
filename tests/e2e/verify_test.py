"""`driver verify`: a build without any cache finds what a cache made wrong, here or on the Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, Driver, action_counts, copy_project, digests, make_cache
from hub import served

from py_driver.fetch.store import Store
from py_driver.matrix.configurations import Configuration
from py_driver.matrix.releases import Releases
from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from clone import Built

    from py_driver.fetch.entry import Entry

pytestmark = pytest.mark.e2e


def _poison(actions: Path, digest: str) -> int:
    """Put other content of the same length under each action key whose result is that of a digest; how many."""
    wrong = bytearray((actions / "cas" / digest[:2] / digest).read_bytes())
    wrong[-1] ^= 1
    other = hashlib.sha256(wrong).hexdigest()
    (actions / "cas" / other[:2]).mkdir(exist_ok=True)
    (actions / "cas" / other[:2] / other).write_bytes(wrong)
    changed = 0
    for result in (actions / "ac").glob("*/*"):
        content = result.read_bytes()
        if digest.encode() in content:
            result.write_bytes(content.replace(digest.encode(), other.encode()))
            changed += 1
    return changed


def test_a_poisoned_result_is_found(relu: Built, base: Path) -> None:
    links = {name: relu.driver.cache / name for name in ("bazel", "store", "venvs")}
    cache = make_cache(base / "verify" / "cache", links)

    def driver(name: str) -> Driver:
        output = base / f"verify-{name}" / "output"
        return Driver(command=relu.driver.command, root=relu.driver.root, cache=cache, output=output)

    project = copy_project(PROJECTS / "tiny", base / "verify" / "one" / "tiny")
    driver("one").build(project, CPU)
    made = digests(project / "build")
    [library] = [name for name in made if name.endswith(".so")]
    assert _poison(cache / "actions", made[library]) == 1

    # Another machine, as it were: it takes all from the cache, and nothing is said.
    other = copy_project(PROJECTS / "tiny", base / "verify" / "two" / "tiny")
    taken = driver("two").build(other, CPU)
    assert action_counts(taken)[0] == 0
    assert digests(other / "build")[library] != made[library]
    found = driver("two").run("verify", other, "--json", env={"PATH": _with_diffoscope(base / "verify")}, code=1)
    name = library.removeprefix(f"{CPU}/")
    said = json.loads(found.stdout)
    [one] = said["variants"]
    assert (one["variant"], one["report"]) == (CPU, "")
    assert not (base / "verify" / "environment").exists()
    assert f"{name} has other bytes" in one["differences"]
    assert [wrong["code"] for wrong in said["errors"]] == ["E403"]
    assert f"{name} has other bytes" in said["errors"][0]["message"]


def _damaged_store(to: Path, store: Store, entry: Entry) -> bytes:
    """A copy of the store in which one archive has other bytes, as many as before; which."""
    for kind in ("sha256", "slim"):
        (to / kind).mkdir(parents=True)
        for path in (store.root / "store" / kind).iterdir():
            (to / kind / path.name).symlink_to(path)
    wrong = bytearray(store.path(entry).read_bytes())
    wrong[wrong.rindex(b"PK\x01\x02") + 12] ^= 1  # the time of its last member: it unpacks as ever
    (to / "sha256" / entry.sha256).unlink()
    (to / "sha256" / entry.sha256).write_bytes(wrong)
    return bytes(wrong)


@pytest.mark.slow
def test_a_damaged_archive_of_the_store_is_not_used(clone: Driver, base: Path, tmp_path: Path) -> None:
    here = base / "damaged"
    project = copy_project(PROJECTS / "tiny", here / "tiny")
    clone.build(project, CPU)
    cpu = Configuration(torch="2.13", abi="cxx11", backend="cpu", cpu="x86_64", os="linux")
    entry = next(entry for entry in Releases().lock.entries_for([cpu]) if entry.name == "ziglang")
    store = Store(cache_root())
    wrong = _damaged_store(here / "store", store, entry)
    links = {name: cache_root() / name for name in ("bazel", "venvs")}
    cache = make_cache(here / "cache", {**links, "store": here / "store"})
    driver = replace(clone, cache=cache)

    mine = cache / "verify" / "mine" / "file"
    mine.parent.mkdir(parents=True)
    mine.touch()

    failed = driver.run("verify", project, env={"PIP_NO_INDEX": "1"}, code=4)
    assert f"error[E303]: ziglang {entry.version}: the archive in the store does not match the lock: " in failed.stderr
    assert f"has the SHA-256 {hashlib.sha256(wrong).hexdigest()}, the lock has {entry.sha256}" in failed.stderr

    (tmp_path / entry.mirror_name).symlink_to(store.path(entry))
    bytecode = project / "build" / CPU / "__pycache__"
    bytecode.mkdir()
    (bytecode / "__init__.cpython-311.pyc").write_bytes(b"x")
    mirror = {"PIP_NO_INDEX": "1", "RULES_TORCH_KERNELS_MIRROR": str(tmp_path)}
    right = driver.run("verify", project, env=mirror)
    assert f"warning: ziglang {entry.version}: " in right.stderr
    assert "it was fetched again" in right.stderr
    assert "1 variant built without any cache: every byte is the same" in right.stderr
    assert not bytecode.exists()
    assert (here / "store" / "sha256" / entry.sha256).read_bytes() == store.path(entry).read_bytes()
    assert [*cache.glob("verify/*"), *cache.glob("verify/*/*")] == [mine.parent, mine]


def _with_diffoscope(place: Path) -> str:
    """A PATH with diffoscope, which writes its environment to a file in a place."""
    programs = place / "programs"
    programs.mkdir()
    real = Path(sys.executable).parent / "diffoscope"
    (programs / "diffoscope").write_text(f'#!/bin/sh\nenv > "{place}/environment"\nexec "{real}" "$@"\n')
    (programs / "diffoscope").chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


def _sign(place: Path) -> None:
    digest = base64.b64encode(hashlib.sha256((place / "metadata.json").read_bytes()).digest()).decode()
    bundle = {"messageSignature": {"messageDigest": {"algorithm": "SHA2_256", "digest": digest}}}
    (place / "metadata.json.sigstore").write_text(json.dumps(bundle))


def test_what_is_published_is_verified(relu: Built, base: Path, tmp_path: Path) -> None:
    project = copy_project(PROJECTS / "tiny", base / "published" / "tiny")
    other = CPU.replace("torch213", "torch215")
    relu.driver.build(project, f"{{{CPU},{other}}}")
    _sign(project / "build" / CPU)
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "build.toml", "torch-ext"], ["commit", "-q", "--allow-empty", "-m", "m"]):
        subprocess.run([*git, *command], check=True)
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
        where = "--repo-id=me/tiny"
        relu.driver.run("publish", project, where, "--allow-dirty", env={**environ, "HF_TOKEN": "hf_token"})
        repository = hub.repositories["me/tiny"]
        files = dict(repository.files("v1") or {})
        [library] = [path for path in files if path.startswith(f"build/{other}/") and path.endswith(".so")]
        files[library] = files[library][:-1] + bytes([files[library][-1] ^ 1])
        bytecode = "__pycache__/__init__.cpython-311.pyc"
        files[f"build/{other}/{bytecode}"] = b"runs in the place of __init__.py"
        repository.put("v1", files)
        shutil.rmtree(project / "build")
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "another"], check=True)
        options = ["--published", where, "--json", "--diffoscope"]
        secret = {"PATH": _with_diffoscope(tmp_path), "HF_TOKEN": "hf_token", "PIP_INDEX_URL": "https://n:hf_token@h/"}
        found = relu.driver.run("verify", project, *options, env={**environ, **secret}, code=1)
    assert "hf_token" not in (tmp_path / "environment").read_text()
    said = json.loads(found.stdout)
    right, wrong = said["variants"]
    assert (right["variant"], right["differences"], right["report"]) == (CPU, [], "")
    place = f"{hub.address}/kernels/me/tiny/tree/{repository.branches['v1']}/build/{other}"
    found_there = [f"{bytecode} was not built", f"{Path(library).name} has other bytes"]
    assert (wrong["place"], wrong["differences"]) == (place, found_there)
    assert re.search(r"^[-+].*", wrong["report"], re.MULTILINE)
    assert Path(library).name in wrong["report"]
    [error] = said["errors"]
    assert error["code"] == "E403"
    assert f"it was built from commit {commit}, and here is " in error["help"]
    assert "it was built from sources that were not committed" in error["help"]


def test_nothing_is_published(relu: Built, base: Path, tmp_path: Path) -> None:
    project = copy_project(PROJECTS / "tiny", base / "unpublished")
    with served() as hub:
        environ = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hf")}
        failed = relu.driver.run("verify", project, "--published", "--repo-id=me/tiny", env=environ, code=2)
        assert f"error[E101]: {hub.address}/kernels/me/tiny has no branch v1" in failed.stderr
    assert "add --published" in relu.driver.run("verify", project, "--branch=x", code=2).stderr
    failed = relu.driver.run("verify", project, "--diffoscope", env={"PATH": "/usr/bin:/bin"}, code=4)
    assert "there is no diffoscope on PATH" in failed.stderr


def test_nothing_to_verify(relu: Built, base: Path) -> None:
    project = copy_project(PROJECTS / "tiny", base / "unbuilt")
    assert "has no variant of tiny" in relu.driver.run("verify", project, code=2).stderr
    (project / "build" / "torch99-cxx11-cpu-x86_64-linux").mkdir(parents=True)
    assert "is not a variant of tiny" in relu.driver.run("verify", project, code=2).stderr
    assert "does not exist" in relu.driver.run("verify", project, f"--variant={CPU}", code=2).stderr
