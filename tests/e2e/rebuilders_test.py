"""Two roots that rebuild one kernel and sign what they find, one of them with a byte changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, Driver, copy_project
from keys import write_key, write_policy

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_OTHER = CPU.replace("torch213", "torch215")
_WHERE = "--repo-id=me/tiny"


def _commit(project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=n", "-c", "user.email=e@x"]
    for command in (["init", "-q"], ["add", "build.toml", "torch-ext", "csrc"], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *command], check=True)


def test_two_roots_sign_what_is_the_same_and_one_byte_is_named(clone: Driver, base: Path, tmp_path: Path) -> None:
    first = copy_project(PROJECTS / "tiny", base / "rebuilders" / "first" / "tiny")
    _commit(first)
    clone.build(first, f"{{{CPU},{_OTHER}}}")
    second = base / "rebuilders" / "second" / "tiny"
    shutil.copytree(first, second)
    [library] = (second / "build" / _OTHER).glob("*.so")
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.chmod(0o644)
    library.write_bytes(content)
    keys = [write_key(tmp_path, name, edwards=name == "bob") for name in ("ann", "bob")]

    signed = clone.run("verify", first, _WHERE, f"--sign-with={keys[0]}")
    assert "2 statements signed with the key " in signed.stderr
    found = clone.run("verify", second, _WHERE, f"--sign-with={keys[1]}", code=1)
    assert "1 statement signed with the key " in found.stderr
    differs = f"{second}/build/{_OTHER} does not match its sources: {library.name} has other bytes"
    assert f"error[E403]: {differs}" in found.stderr
    assert [path.name for path in (second / "statements").iterdir()] == [CPU]

    policy = write_policy(tmp_path, 2, "ann", "bob", more=f'statements = ["{first}/statements"]')
    options = [_WHERE, f"--policy={policy}", "--json"]
    right, wrong = json.loads(clone.run("verify", second, *options, code=1).stdout)["variants"]
    assert (right["variant"], right["builders"], right["refused"]) == (CPU, ["ann", "bob"], [])
    assert (wrong["variant"], wrong["builders"]) == (_OTHER, [])
    [refused] = wrong["refused"]
    assert refused["reason"] == f"of ann is for other files: build/{_OTHER}/{library.name} has other bytes here"
