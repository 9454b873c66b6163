"""A small project of Python files, built for two backends, and helpers to publish it to a Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hub import Hub

from py_driver import __version__
from py_driver.building.made import remember
from py_driver.building.selection import made_from
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

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
ODD = {name: f"{name}\n".encode() for name in ('E=8,N=1,device="H100 80GB".bin', "größe [1] @+%.bin", "'{表}'.bin")}
"""Data files whose names have special characters for CSV, URLs, globs, or git's output."""

FILES = {"__init__.py": b"x = 1\n", "_ops.py": b"", "weights.bin": bytes(range(256)) * 8}


def copied(project: Path, name: str) -> Path:
    """A copy of a project beside it."""
    return Path(shutil.copytree(project, project.with_name(name)))


def rename(project: Path, name: str) -> None:
    """Rename a built project and its repository, and build it."""
    (project / "torch-ext" / "tuned").rename(project / "torch-ext" / name)
    (project / "build.toml").write_text(MANIFEST.replace("tuned", name))
    for variant in ("torch-cpu", "torch-cuda"):
        build(project, variant, FILES)


def build(project: Path, variant: str, files: dict[str, bytes]) -> None:
    """Write a variant of the current sources in the form of the rules, with the records of a build."""
    place = project / "build" / variant
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    digests = {name: base64.b64encode(hashlib.sha256(content).digest()).decode() for name, content in files.items()}
    for name, content in files.items():
        (place / name).write_bytes(content)
    plan = plan_directory(project, Releases())
    [configuration] = [candidate for candidate in plan.variants if candidate.name == variant]
    [identity] = [identity for identity in plan.identities if identity.name == configuration.identity]
    metadata = {
        **configuration.metadata,
        "id": identity.unique_id(plan.module, {name: (project / name).read_bytes() for name in identity.files}),
        "digest": {"algorithm": "sha256", "files": digests},
        "provenance": {"kernel-builder": {"version": f"rules_torch_kernels {__version__}"}},
    }
    (place / "metadata.json").write_text(json.dumps(metadata))
    remember(place, made_from(plan, configuration, metadata, Releases().lock))


def environment(hub: Hub | str, project: Path) -> dict[str, str]:
    """The variables of a user with write access to a Hub; large files go through Xet if the Hub has it."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub if isinstance(hub, str) else hub.address,
        "HF_HUB_DISABLE_XET": "" if isinstance(hub, Hub) and hub.xet else "1",
        "HF_HOME": str(project.parent / "hf"),
        "HF_TOKEN": CANARY,
        "PYTHONPATH": str(ROOT),
    }


def publish(hub: Hub | str, project: Path, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command like a user, and assert that its output does not contain the token."""
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


def bundle(content: bytes) -> str:
    """What sigstore's bundle of some bytes says of them."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return json.dumps({"messageSignature": {"messageDigest": {"algorithm": "SHA2_256", "digest": digest}}})
