"""`driver verify`: a build without any cache finds what a cache made wrong."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from clone import CPU, PROJECTS, Driver, copy_project, digests, make_cache, steps

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Built

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
    right = driver("one").run("verify", project)
    assert "1 variant built without any cache: the same, byte for byte" in right.stderr
    assert not list((cache / "verify").iterdir())
    made = digests(project / "build")
    [library] = [name for name in made if name.endswith(".so")]
    assert _poison(cache / "actions", made[library]) == 1

    # Another machine, as it were: it takes all from the cache, and nothing is said.
    other = copy_project(PROJECTS / "tiny", base / "verify" / "two" / "tiny")
    taken = driver("two").build(other, CPU)
    assert steps(taken)[0] == 0
    assert digests(other / "build")[library] != made[library]
    found = driver("two").run("verify", other, "--json", code=1)
    name = library.removeprefix(f"{CPU}/")
    said = json.loads(found.stdout)
    [one] = said["variants"]
    assert one["variant"] == CPU
    assert f"{name} has other bytes" in one["differences"]
    assert [wrong["code"] for wrong in said["errors"]] == ["E403"]
    assert f"{name} has other bytes" in said["errors"][0]["message"]


def test_nothing_to_verify(relu: Built, base: Path) -> None:
    project = copy_project(PROJECTS / "tiny", base / "unbuilt")
    assert "has no variant of tiny" in relu.driver.run("verify", project, code=2).stderr
    (project / "build" / "torch99-cxx11-cpu-x86_64-linux").mkdir(parents=True)
    assert "is no variant of tiny" in relu.driver.run("verify", project, code=2).stderr
    assert "is not there" in relu.driver.run("verify", project, f"--variant={CPU}", code=2).stderr
