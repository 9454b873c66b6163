"""Checks libraries with the program of the build's own ABI check: rules/private/tools/abi_check/check.zig."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_driver.actions.workspace import common_workspace
from py_driver.bazel.find import find_bazel
from py_driver.building.session import session
from py_driver.building.variant_dir import read_metadata
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.backends import ARCH, BUILT
from py_driver.matrix.configurations import is_identifier, parse
from py_driver.matrix.installation import MODULE_NAME, module_root
from py_driver.matrix.installed_python import PYTHON_SYMBOLS, kept_pythons
from py_driver.matrix.matrix import CPYTHON_PART, TVM_FFI_PART
from py_driver.matrix.releases import exports_file, python_exports_file
from py_driver.output import counted
from py_driver.plan.metadata import METADATA
from py_driver.spelling import near_path
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py_driver.matrix.configurations import Configuration
    from py_driver.matrix.releases import Releases
    from py_driver.output import Output

_PROGRAM = f"@{MODULE_NAME}//rules/private/tools:abi_check"
_POLICY = {
    "--libraries": "libraries.txt",
    "--loading": "loading.txt",
    "--python-abi": "python_stable_abi.txt",
    "--system": "system_symbols.txt",
    "--torch-shims": "torch_shims.txt",
    "--versions": "symbol_versions.txt",
    "--weak": "weak_symbols.txt",
}
_MODULE = ".abi3.so"
_OF_ONE_PYTHON = re.compile(r"(?P<module>[^.]+)\.cpython-3(?P<minor>\d+)(?P<threads>t?)-[\w-]+\.so")
PYTHON = "--python"
"""The option for the single Python of a library, `3.13`; `check` replaces it by options that name files."""
_TORCH_PYTHON = "libtorch_python.so"
_FRAMEWORK = "--framework"
_ARCH = re.compile(ARCH)
_FOUND_NOTHING, _FOUND_SOMETHING = 0, 1
_LIBRARY = "name a shared library for Linux, for x86_64 or aarch64"
_ELF_MAGIC = b"\x7fELF"
_ELF_MACHINE = slice(18, 20)
_CPUS = {62: "x86_64", 183: "aarch64"}
"""The CPUs in the header of an ELF file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """The check of a library.

    Attributes:
        path: the path of the library.
        findings: the findings, each with `rule`, `subject`, `message` and `help`.
        gpu_code: its GPU code in nvcc's spelling: `sm_90a`, `compute_120`.
        notes: facts that could not be determined, and are not findings.
        failure: why the library could not be checked; empty if it was.
    """

    path: Path
    findings: tuple[Mapping[str, str], ...] = ()
    gpu_code: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""

    def diagnostic(self) -> Diagnostic | None:
        """The error for a library that fails or cannot be checked; None if it passes."""
        if self.failure:
            return Diagnostic(code=Code.FILE_KIND, message=self.failure, help=_LIBRARY)
        if not self.findings:
            return None
        return Diagnostic(
            code=Code.NOT_COMPLIANT,
            message=f"{self.path} fails the ABI check: {counted(len(self.findings), 'finding')}",
        )


def find_libraries(paths: Iterable[Path]) -> list[Path]:
    """The libraries at paths: a file, whatever its name, or every `.so` below a directory.

    Raises:
        DriverError: FILE_MISSING for each path that does not exist or has no library; FILE_KIND for a file that is not
            a library.
    """
    found: list[Path] = []
    missing = []
    for path in paths:
        below = [path] if path.is_file() else sorted(p for p in path.rglob("*.so") if p.is_file())
        found += below
        if not below:
            advice = near_path(path) or "name built variants or a library"
            message = f"{path} {'contains no shared library' if path.is_dir() else 'does not exist'}"
            missing.append(Diagnostic(code=Code.FILE_MISSING, message=message, help=advice))
        elif path.is_file() and not _is_elf(path):
            missing.append(Diagnostic(code=Code.FILE_KIND, message=f"{path} is not an ELF file", help=_LIBRARY))
    if missing:
        raise DriverError(missing)
    return list(dict.fromkeys(found))


def expectations(library: Path) -> dict[str, str]:
    """The expectations for a library from its variant's directory, as options of the check.

    Raises:
        DriverError: FILE_KIND if the metadata.json there is not a JSON object.
    """
    wanted = {}
    directory = library.absolute().parent
    if library.name.endswith(_MODULE):
        wanted["--init"] = library.name.removesuffix(_MODULE)
    if found := _OF_ONE_PYTHON.fullmatch(library.name):
        wanted["--init"] = found["module"]
        wanted[PYTHON] = f"3.{found['minor']}{found['threads']}"
    if is_identifier(directory.name):
        wanted |= _of_configuration(parse(directory.name))
    metadata = _metadata(directory)
    if isinstance(identity := metadata.get("id"), str):
        wanted["--init"] = identity
    backend = metadata.get("backend")
    if isinstance(backend, dict):
        archs, known = backend.get("archs"), BUILT.get(str(backend.get("type")))
        if known and not known.arch:
            wanted["--metadata-archs"] = "none"
        elif known and isinstance(archs, list) and archs and all(_ARCH.fullmatch(str(arch)) for arch in archs):
            wanted["--metadata-archs"] = ",".join(dict.fromkeys(map(known.plain, archs)))
    return wanted


def _of_configuration(configuration: Configuration) -> dict[str, str]:
    """The expectations for the libraries of a variant."""
    wanted = {
        "--cxx-abi": configuration.abi,
        "--torch": configuration.torch,
        _FRAMEWORK: "tvm-ffi" if configuration.tvm_ffi else None,
    }
    wanted["--torch-stable-abi"] = configuration.torch if configuration.stable else None
    wanted["--backend"] = None if configuration.is_noarch else configuration.backend
    wanted["--cpu"] = configuration.cpu
    return {option: value for option, value in wanted.items() if value}


def _metadata(directory: Path) -> dict[str, Any]:
    """The content of metadata.json; empty if there is none."""
    metadata = read_metadata(directory)
    if metadata is None and (path := directory / METADATA).is_file():
        raise error(Code.FILE_KIND, f"{path} is not a JSON object", help="build the variant again")
    return metadata or {}


def _is_elf(path: Path) -> bool:
    """Whether a file has the magic number of ELF; also if it cannot be read, which the program reports."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF_MAGIC)) == _ELF_MAGIC
    except OSError:
        return True


def _cpu_of(library: Path) -> str:
    """The CPU of a library; empty if it is not a supported one."""
    try:
        with library.open("rb") as file:
            header = file.read(_ELF_MACHINE.stop)
    except OSError:
        return ""  # the program reports it
    return _CPUS.get(int.from_bytes(header[_ELF_MACHINE], "little"), "")


@cache
def build_program(output: Output) -> Path:
    """The program, built by Bazel unless it exists; Bazel is called once per run of the driver.

    Raises:
        DriverError: Bazel is missing or fails.
    """
    workspace = common_workspace()
    with session(find_bazel(workspace, output), workspace, output) as bazel:
        return bazel.tool(_PROGRAM, "building the ABI check")


def check(program: Path, library: Path, options: Mapping[str, str], releases: Releases) -> Checked:
    """Check one library.

    Args:
        program: see `build_program`.
        library: the file.
        options: further options of the program, besides the policy.
        releases: the releases whose libraries it may need.
    """
    policy = module_root() / "rules" / "private" / "policy"
    flags = {flag: str(policy / name) for flag, name in _POLICY.items()}
    flags |= {"--torch-exports": str(exports_file()), **options}
    python = flags.pop(PYTHON, "")
    symbols = _symbols_of_python(python, releases) if python else None
    if symbols is not None:
        flags |= {"--python-symbols": str(symbols), "--torch-python": str(python_exports_file())}
    # Torch's libraries for Arm define other symbols than those for x86_64.
    if torch := options.get("--torch"):
        wheel = releases.lock.torch_wheel(torch, options.get("--cpu") or _cpu_of(library))
        flags |= {"--torch-wheel": wheel} if wheel else {}
    command = [str(program), str(library.resolve()), "--json"]
    command += [word for pair in flags.items() for word in pair]
    # For a library outside of a variant's directory the backend is unknown; the names of its needed libraries suffice.
    known, backend = releases.symbols_files(), options.get("--backend")
    names = list(known) if backend is None else [backend, *([TVM_FFI_PART] if _FRAMEWORK in options else [])]
    tables = [known[name] for name in names if name in known]
    command += [word for table in tables for word in ("--gpu-symbols", str(table))]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=curated())
    if done.returncode not in {_FOUND_NOTHING, _FOUND_SOMETHING}:
        reason = (
            done.stderr.strip().removeprefix("step: ") or f"the ABI check of {library} ended with {done.returncode}"
        )
        return Checked(path=library, failure=reason)
    result = json.loads(done.stdout)
    findings, notes = tuple(result["findings"]), tuple(result["notes"])
    if python and symbols is None:
        findings = tuple(finding for finding in findings if not _is_of_python(finding))
        notes = (
            *notes,
            f"the symbols of Python {python} are not recorded, so the library's use of them is unchecked",
        )
    return Checked(path=library, findings=findings, gpu_code=tuple(result["gpu-code"]), notes=notes)


def _symbols_of_python(version: str, releases: Releases) -> Path | None:
    """The file with the symbols of a Python: of the lock, or of an installed Python that modules were built for."""
    if version in releases.matrix.cpython:
        return releases.symbols_file(CPYTHON_PART, version)
    kept = (Path(path) for key, path in kept_pythons().items() if key.startswith(f"{version}-"))
    return next((path / PYTHON_SYMBOLS for path in kept), None)


def _is_of_python(finding: Mapping[str, str]) -> bool:
    """Whether a finding is about symbols that a library for one Python may use."""
    return finding["rule"] == "python-abi" or finding["subject"] == _TORCH_PYTHON or "THP" in finding["subject"]
