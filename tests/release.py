"""Makes the files of a release, reproducibly: `make release`.

The directory gets the wheel and the source archive for pip, the Bazel module as an archive, a registry that has it (for
`--registry`; for Bazel's own, give the address with --url), an SBOM and SHA256SUMS. All comes out of the last commit.
Wheel and module have the rules' own programs compiled for this machine's CPU, by Bazel.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.changelog import released  # noqa: E402  (the checkout is no installed package)
from py_driver import __version__  # noqa: E402
from py_driver.actions.workspace import common_workspace  # noqa: E402
from py_driver.bazel.find import find_bazel  # noqa: E402
from py_driver.building.session import session  # noqa: E402
from py_driver.errors import Code, DriverError, ExitCode, error  # noqa: E402
from py_driver.matrix.facts import facts  # noqa: E402
from py_driver.matrix.installation import MODULE_NAME  # noqa: E402
from py_driver.matrix.releases import Releases  # noqa: E402
from py_driver.output import Output  # noqa: E402
from py_driver.publishing.provenance import bill_of  # noqa: E402
from py_driver.system.machine import machine_cpu  # noqa: E402
from py_driver.system.venv import ensure_venv  # noqa: E402

NAME = "rules_torch_kernels"
EPOCH = 1577836800
"""The time of all files, 2020-01-01: what hatchling takes, too, and later than the oldest that a wheel can hold."""

_MODULE = ("MODULE.bazel", "LICENSE", "README.md", "rules", "toolchains", "py_driver")
"""The files of the module's archive: those for a build with plain Bazel, and the license."""

_TREE = (*_MODULE, ".bcr", ".bazelrc", ".bazelversion", "CHANGELOG.md", "docs/news", "pyproject.toml")
"""The further files for the packages for pip and the registry's entry."""


def main() -> int:
    """Make a release; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the directory to write; it is made, and must be empty")
    parser.add_argument("--url", help="where the archives will be (default: the directory itself)")
    args = parser.parse_args()
    output = Output()
    try:
        release(args.out.absolute(), args.url or args.out.absolute().as_uri(), output)
    except DriverError as failure:
        output.fail(failure)
        return failure.exit_code
    output.data((args.out / "SHA256SUMS").read_text(encoding="utf-8").rstrip())
    return ExitCode.OK


def release(out: Path, url: str, output: Output) -> None:
    """Write a release.

    Args:
        out: the directory.
        url: where its files will be.
        output: for progress.

    Raises:
        DriverError: FOREIGN_FILE if the directory has files; DIRTY_TREE if git knows of changes that are not committed;
            BUILD_FAILED if hatchling fails; what a build raises, see `Session.tool`.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise error(Code.FOREIGN_FILE, f"{out} is not empty", help="name a directory that is")
    if changed := _git("status", "--porcelain").split("\n")[0]:
        message = f"git has changes that are not committed: {changed.strip()}"
        raise error(Code.DIRTY_TREE, message, help="commit them: a release is what git knows")
    commit = _git("rev-parse", "HEAD").strip()
    with tempfile.TemporaryDirectory() as place, output.task("making the release") as task:
        tree = Path(place, "tree")
        _check_out(tree)
        news = released(tree, __version__, _git("show", "--no-patch", "--format=%cs", "HEAD").strip())
        (tree / "CHANGELOG.md").write_text(news, encoding="utf-8")
        _compile_programs(tree, output)
        task.update("wheel and source archive")
        _packages(tree, out, output)
        task.update("module")
        archive = out / f"{NAME}-module-{__version__}.tar.gz"
        archive.write_bytes(_module(tree))
        write_registry(tree, archive, out / "registry", f"{url}/{archive.name}")
        (out / f"{NAME}-{__version__}.cdx.json").write_text(_text(_bill(commit)), encoding="utf-8")
        files = sorted(path for path in out.rglob("*") if path.is_file())
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}\n" for path in files]
        (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
        task.done(f"{len(files)} files")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _check_out(tree: Path) -> None:
    """The files of the last commit, with their modes, and the same time."""
    tree.mkdir()
    packed = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD", "--", *_TREE], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree, filter="data")
    for path in tree.rglob("*"):
        if path.is_file():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _compile_programs(tree: Path, output: Output) -> None:
    """The rules' own programs for this machine's CPU, compiled by Bazel, so that no first build compiles them."""
    place = tree / "rules" / "private" / "tools" / facts("programs")["PREBUILT"] / machine_cpu()
    place.mkdir(parents=True)
    workspace = common_workspace()
    with session(find_bazel(workspace, output), workspace, output) as bazel:
        for name in facts("programs")["MAIN"]:
            made = bazel.tool(f"@{MODULE_NAME}//rules/private/tools:{name}", f"compiling {name}")
            shutil.copyfile(made, place / name)
            (place / name).chmod(0o755)


def _packages(tree: Path, out: Path, output: Output) -> None:
    """The wheel and the source archive, by hatchling."""
    requires = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    python = str(ensure_venv("release", requires, output))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise error(Code.BUILD_FAILED, f"hatchling fails: {done.stderr.strip()[-500:]}")


def _module(tree: Path) -> bytes:
    """The archive of the Bazel module."""
    files = [
        path
        for name in _MODULE
        for path in (sorted((tree / name).rglob("*")) if (tree / name).is_dir() else [tree / name])
    ]
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in files:
            if path.is_file():
                member = tarfile.TarInfo(f"{NAME}-{__version__}/{path.relative_to(tree).as_posix()}")
                content = path.read_bytes()
                member.size, member.mtime, member.mode = len(content), EPOCH, path.stat().st_mode & 0o755
                archive.addfile(member, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=EPOCH, filename="") as stream:
        stream.write(raw.getvalue())
    return packed.getvalue()


def write_registry(tree: Path, archive: Path, registry: Path, url: str) -> None:
    """Write a registry of Bazel modules with only this module.

    Args:
        tree: the files of the commit.
        archive: the module's archive.
        registry: the directory to make.
        url: where the archive will be.
    """
    module = registry / "modules" / NAME
    place = module / __version__
    place.mkdir(parents=True)
    digest = hashlib.sha256(archive.read_bytes()).digest()
    source = {
        "url": url,
        "integrity": f"sha256-{base64.b64encode(digest).decode()}",
        "strip_prefix": f"{NAME}-{__version__}",
    }
    metadata = {
        "homepage": "",
        "maintainers": [],
        "repository": [],
        "versions": [__version__],
        "yanked_versions": {},
    }
    (registry / "bazel_registry.json").write_text("{}\n", encoding="utf-8")
    (module / "metadata.json").write_text(_text(metadata), encoding="utf-8")
    (place / "source.json").write_text(_text(source), encoding="utf-8")
    shutil.copyfile(tree / ".bcr" / "presubmit.yml", place / "presubmit.yml")
    shutil.copyfile(tree / "MODULE.bazel", place / "MODULE.bazel")


def _bill(commit: str) -> dict[str, Any]:
    """The SBOM: the archives in the lock, of which the release contains only the digests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    subject = {
        "type": "application",
        "bom-ref": NAME,
        "name": project["name"],
        "version": __version__,
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": f"pkg:pypi/{project['name']}@{__version__}",
        "properties": [
            {"name": "commit", "value": commit},
            *({"name": "requires", "value": dependency} for dependency in project["dependencies"]),
        ],
    }
    return bill_of(subject, sorted(Releases().lock.entries, key=lambda one: (one.name, one.version, one.key)))


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
