"""`pip install .` and `pip install -e .` for a kernel project: a build backend after PEP 517 and PEP 660.

Three lines of pyproject.toml name it:

    [build-system]
    requires = ["rules-torch-kernels"]
    build-backend = "rules_torch_kernels.build_backend"

What is installed is the variant for the torch of the Python that pip runs in, and for this machine's GPU. It is for
daily work; `driver wheel` makes wheels for others.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from rules_torch_kernels.loading import DRIVER, BuildError, build, imported_driver, sources_among
from rules_torch_kernels.progress import past_the_installer

_US = "rules_torch_kernels"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOADER = '''"""{name} under development: each import has what its sources say."""

from rules_torch_kernels.editable import follow

follow(__name__, {directory!r})
'''


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001  (PEP 517's signature)
    metadata_directory: str | None = None,  # noqa: ARG001
) -> str:
    """Build a wheel with the variant that this machine runs; its name."""
    build = built()
    root = Path(build["path"])
    files = {
        f"{build['module']}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return _write(wheel_directory, build, files, f"linux_{platform.machine()}", [])


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001  (PEP 660's signature)
    metadata_directory: str | None = None,  # noqa: ARG001
) -> str:
    """Build a wheel whose package follows the sources; its name."""
    build = built()
    text = _LOADER.format(name=build["name"], directory=str(Path.cwd()))
    needed = ["rules-torch-kernels", "kernels"]
    return _write(wheel_directory, build, {f"{build['module']}/__init__.py": text.encode()}, "any", needed)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:  # noqa: ARG001
    """Pack the sources, and nothing that is hidden or that git ignores; the name of the archive. A link stays one.

    Raises:
        BuildError: the project is in a repository, and git ignores build.toml or does not say what it ignores.
    """
    import tomllib

    general = tomllib.loads(Path("build.toml").read_text(encoding="utf-8"))["general"]
    name, version = str(general["name"]).replace("-", "_"), f"{general.get('version', 1)}.0.dev0"
    base = f"{name}-{version}"
    target = Path(sdist_directory, f"{base}.tar.gz")
    listed = _listed_by_git(".")
    if listed and "build.toml" not in listed:
        raise BuildError("git ignores build.toml, so it would not be packed: take it out of .gitignore")
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for parent, directories, files in os.walk("."):
            directories[:] = sorted(
                name for name in sources_among(".", parent, directories) if not name.startswith(".")
            )
            for file in sorted(name for name in files if not name.startswith(".")):
                path = Path(parent, file)
                if listed and path.as_posix() not in listed:
                    continue
                archive.add(path, f"{base}/{path.as_posix()}", recursive=False)
        about = _metadata(name, version, []).encode()
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        entry.size = len(about)
        archive.addfile(entry, io.BytesIO(about))
    return target.name


def _listed_by_git(directory: str) -> set[str]:
    """The files that git has of a directory or would add, relative to the project.

    Nothing where there is no repository, or where git ignores the directory as a whole, e.g. one below a `build`.
    """
    root = Path(directory).resolve()
    if not any((parent / ".git").exists() for parent in (root, *root.parents)):
        return set()
    # Variables such as GIT_DIR would name another repository; and nothing is run that this one's configuration names.
    kept = "GIT_DISCOVERY_ACROSS_FILESYSTEM"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == kept}
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", directory, "ls-files"]
    words = [*command, "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(words, capture_output=True, check=True, env={**environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError) as problem:
        stderr = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else b""
        reason = stderr.decode(errors="replace").strip().partition("\n")[0] or problem
        message = f"git cannot list the ignored files of {root} it ignores, which are not packed: {reason}"
        raise BuildError(message) from None
    found = set()
    for name in filter(None, done.stdout.split(b"\0")):
        path = Path(directory, os.fsdecode(name))
        # A submodule, or another repository that this one does not have.
        if path.is_dir() and (path / ".git").exists() and not path.is_symlink():
            found |= _listed_by_git(str(path))
        else:
            found.add(path.as_posix())
    return found


def built() -> dict[str, Any]:
    """Build the project in the working directory for the Python that an installer runs in; what the driver says of it.

    pip shows a backend an environment of its own, by variables. Without these, the packages of the Python itself are
    seen, torch among them. The driver is the one that was installed with this file, if no variable names another.

    Raises:
        BuildError: the driver fails.
    """
    without = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONNOUSERSITE"}}
    command = [] if os.environ.get(DRIVER) else imported_driver()
    return build(Path.cwd(), "", command=command, environ=without, follow=past_the_installer)


def _metadata(name: str, version: str, needed: list[str]) -> str:
    return "".join(
        [
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            *(f"Requires-Dist: {requirement}\n" for requirement in needed),
        ]
    )


def _write(directory: str, build: dict[str, Any], files: dict[str, bytes], platform_tag: str, needed: list[str]) -> str:
    """Write a wheel (binary distribution format 1.0); its name."""
    module = build["module"]
    version = f"{build['version']}.0.dev0+{build['id'].rpartition('_')[2]}"
    tag = f"py3-none-{platform_tag}"
    info = f"{module}-{version}.dist-info"
    pure = "true" if platform_tag == "any" else "false"
    files = {
        **files,
        f"{info}/METADATA": _metadata(build["name"], version, needed).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {_US}\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode(),
    }
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    target = Path(directory, f"{module}-{version}-{tag}.whl")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return target.name


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
