"""Wheels from the user's Python package index, through the user's own pip configuration."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from py_driver.debian import HELP
from py_driver.errors import Code, error
from py_driver.fetch.apt import failure
from py_driver.system.environment import curated
from py_driver.system.pip_config import pip_of, pythons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def install(wheels: Mapping[str, Mapping[str, str]], target: Path) -> None:
    """Install wheels into a new directory.

    Args:
        wheels: the wheels: name to `version` and `sha256`.
        target: the directory; created.
    """
    python = next(filter(_has_pip, pythons()), None)
    if python is None:
        raise error(Code.SET_UP, "there is no Python with pip, which fetches Bazel's Java runtime", help=HELP)
    target.mkdir()
    requirements = target / "requirements.txt"
    requirements.write_text(
        "".join(f"{name}=={w['version']} --hash=sha256:{w['sha256']}\n" for name, w in wheels.items()),
    )
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-warn-script-location"]
    options += ["--disable-pip-version-check", "--root-user-action=ignore", "--require-hashes"]
    done = subprocess.run(
        [*pip_of(python), "install", *options, "--target", str(target), "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
        env=curated(extra={"LC_ALL": "C.UTF-8", "PIP_USER": "0"}),
        cwd="/",  # with `-m`, Python looks for modules in the working directory first
    )
    if done.returncode:
        raise failure("pip", done.stderr, HELP)


def _has_pip(python: str) -> bool:
    command = [*pip_of(python), "--version"]
    return not subprocess.run(command, capture_output=True, check=False, env=curated(), cwd="/").returncode
