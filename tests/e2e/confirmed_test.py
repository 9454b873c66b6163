"""`get_kernel(policy=)` with the real client and a Hub: what runs, and that nothing runs that was not confirmed."""

from __future__ import annotations

import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import tuned
from clone import CPU
from hub import Hub, Repository, served
from keys import bundle, write_key, write_policy

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.cache import CACHE_VARIABLE
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

_CLIENT = Path(__file__).parents[2] / "py_driver" / "client"
_VARIANT = "torch-cpu"

# What a kernel does when it is imported is to write the file that it is told.
_RUNS = b"import os, pathlib\nx = 1\npathlib.Path(os.environ['RAN']).write_text('it ran')\n"
_LOAD = """
import json, sys
import rules_torch_kernels
options = json.loads(sys.argv[1])
try:
    loaded = rules_torch_kernels.get_kernel("me/tuned", **options)
    print(json.dumps(["loaded", loaded.x]))
except Exception as wrong:
    print(json.dumps([type(wrong).__name__, str(wrong)]))
"""
_DOWNLOAD = """
import sys
from huggingface_hub import snapshot_download
snapshot_download("me/tuned", repo_type="kernel", revision=sys.argv[1])
"""


class _Published(NamedTuple):
    """A kernel on a Hub, and what loads it."""

    hub: Hub
    python: str
    place: Path

    @property
    def repository(self) -> Repository:
        return self.hub.repositories["me/tuned"]

    def state(self, builder: str, name: str = "me/tuned", **changed: Any) -> None:  # noqa: ANN401  (JSON)
        """Publish a builder's statement of what there is in a repository."""
        repository = self.hub.repositories[name]
        there = dict(repository.files("v3") or {})
        below = f"build/{_VARIANT}/"
        digests = {path: hashlib.sha256(own).hexdigest() for path, own in there.items() if path.startswith(below)}
        about = {"repository": name, "version": 3, "variant": _VARIANT, **changed}
        signed = bundle(self.place / f"{builder}.pem", digests, datetime.now(UTC), **about)
        repository.put("v3", {**there, f"statements/{_VARIANT}/{builder}.sigstore.json": signed})

    def load(self, home: str, *, offline: bool = False, **options: Any) -> tuple[list[Any], bool]:  # noqa: ANN401
        """What comes of loading it, with a cache of its own, and whether any of its code ran."""
        ran = self.place / "ran"
        ran.unlink(missing_ok=True)
        given = {"version": 3, "trust_remote_code": ["me/tuned"], "backend": "cpu", **options}
        found = self.run(home, _LOAD, json.dumps(given), offline=offline)
        return json.loads(found.splitlines()[-1]), ran.is_file()

    def run(self, home: str, program: str, argument: str, *, offline: bool = False) -> str:
        """What a program in the Python with torch prints."""
        environ = {
            "HF_ENDPOINT": "http://127.0.0.1:9" if offline else self.hub.address,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "1" if offline else "",
            "HF_HOME": str(self.place / home),
            "PYTHONPATH": str(_CLIENT),
            "RAN": str(self.place / "ran"),
        }
        command, env = [self.python, "-c", program, argument], curated(extra=environ)
        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Published]:
    """A project of Python files, built and published, without any statement; and the keys of three builders."""
    python = python_for([parse(CPU)], Releases(), Output())
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    project = tmp_path / "tuned"
    package = project / "torch-ext" / "tuned"
    package.mkdir(parents=True)
    (project / "build.toml").write_text(tuned.MANIFEST)
    files = {**tuned.FILES, "__init__.py": _RUNS}
    for name in ("__init__.py", "weights.bin"):
        (package / name).write_bytes(files[name])
    tuned.build(project, _VARIANT, files)
    for name in ("ann", "bob", "cyd"):
        write_key(tmp_path, name, edwards=name == "bob")
    write_policy(tmp_path, 2, "ann", "bob", "cyd")
    with served() as hub:
        tuned.publish(hub, project)
        yield _Published(hub, python, tmp_path)


def test_what_two_of_three_builders_have_confirmed_is_loaded(published: _Published) -> None:
    policy = str(published.place / "policy.toml")
    published.state("ann")
    found, ran = published.load("hf", policy=policy)
    message = "1 of 3 builders (ann) have confirmed torch-cpu of me/tuned, and the policy requires 2"
    assert (found, ran) == (["NotConfirmedError", message], False)
    published.state("cyd")
    assert published.load("hf", policy=policy) == (["loaded", 1], True)
    # Python has left its bytecode there, which is nobody's.
    assert list((published.place / "hf").rglob("__pycache__"))
    assert published.load("hf", policy=policy) == (["loaded", 1], True)
    commit = published.repository.branches["v3"]
    published.run("hf", _DOWNLOAD, commit)  # offline, the client 0.17.2 wants all of a commit
    assert published.load("hf", policy=policy, offline=True, version=None, revision=commit) == (["loaded", 1], True)
    assert published.load("new", policy=policy, trust_remote_code=False)[0][0] == "loaded"
    published.hub.trusted = False
    found, ran = published.load("new", policy=policy, trust_remote_code=False)
    assert (found[0], ran) == ("ValueError", False)
    assert "is not from a trusted publisher" in found[1]


def test_one_byte_is_changed_on_the_hub(published: _Published) -> None:
    policy = str(published.place / "policy.toml")
    published.state("ann")
    published.state("bob")
    there = dict(published.repository.files("v3") or {})
    name = f"build/{_VARIANT}/__init__.py"
    published.repository.put("v3", {**there, name: there[name].replace(b"x = 1", b"x = 2")})
    assert published.load("plain") == (["loaded", 2], True)
    found, ran = published.load("hf", policy=policy)
    assert (found[0], ran) == ("NotConfirmedError", False)
    where = f"me/tuned/statements/{_VARIANT}/ann.sigstore.json"
    assert f"the statement {where} of ann is for other files: {name} has other bytes here" in found[1]

    # A further module would be imported in the place of another.
    published.repository.put("v3", {**there, f"build/{_VARIANT}/numpy.py": b""})
    found, ran = published.load("more", policy=policy)
    assert (found[0], ran) == ("NotConfirmedError", False)
    assert f"it lacks build/{_VARIANT}/numpy.py" in found[1]


def test_what_is_confirmed_elsewhere_is_not_loaded(published: _Published) -> None:
    policy = str(published.place / "policy.toml")
    published.state("ann")
    published.state("bob", repository="me/other")
    found, ran = published.load("hf", policy=policy)
    assert (found[0], ran) == ("NotConfirmedError", False)
    assert "of bob is for repository me/other" in found[1]


def test_statements_beside_the_policy_count(published: _Published) -> None:
    policy = write_policy(published.place, 2, "ann", "bob", "cyd", more='statements = ["own"]')
    published.state("ann")
    published.state("bob")
    there = dict(published.repository.files("v3") or {})
    own = published.place / "own" / _VARIANT
    own.mkdir(parents=True)
    name = f"statements/{_VARIANT}/bob.sigstore.json"
    (own / "bob.sigstore.json").write_bytes(there.pop(name))
    published.repository.put("v3", there)
    assert published.load("hf", policy=str(policy)) == (["loaded", 1], True)
    (own / "bob.sigstore.json").unlink()
    found, ran = published.load("hf", policy=str(policy))
    assert (found[0], ran) == ("NotConfirmedError", False)
    found, ran = published.load("hf", policy="missing.toml")
    assert (found[0], ran) == ("PolicyError", False)


def test_a_kernel_that_another_depends_on_is_asked_for_as_well(published: _Published) -> None:
    policy = write_policy(published.place, 1, "ann")
    there = dict(published.repository.files("v3") or {})
    stated = f"build/{_VARIANT}/metadata.json"
    metadata = json.loads(there[stated])
    other = {**there, stated: json.dumps({**metadata, "name": "other", "id": "other_1"}).encode()}
    published.hub.repositories["me/other"] = Repository()
    published.hub.repositories["me/other"].put("v3", other)
    depends = [{"repo-id": "me/other", "version": 3}]
    published.repository.put("v3", {**there, stated: json.dumps({**metadata, "kernel-depends": depends}).encode()})
    published.state("ann")
    trusted = ["me/tuned", "me/other"]
    found, ran = published.load("hf", policy=str(policy), trust_remote_code=trusted)
    assert (found[0], ran) == ("NotConfirmedError", False)
    assert "0 of 1 builders have confirmed torch-cpu of me/other" in found[1]
    published.state("ann", "me/other")
    assert published.load("hf", policy=str(policy), trust_remote_code=trusted) == (["loaded", 1], True)
