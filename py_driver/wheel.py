"""`driver wheel`: built variants as one Python wheel, whose package loads the one that fits the torch at hand.

Formats: binary distribution format and core metadata of the Python packaging specifications; platform tag PEP 600.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from py_driver import __version__
from py_driver.collect import BUILD
from py_driver.release import make_file
from py_driver.templates import render
from py_driver.variants.candidates import numbers
from py_driver.variants.names import Cell, cuda_version, parse, rocm_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.release import Built, File

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_PLATFORM = "manylinux_2_28_x86_64"
_ANY = "py3-none-any"
_COMPILED = f"cp39-abi3-{_PLATFORM}"
_ALL = 0o100644
_RUN = 0o100755


def make_wheel(manifest: Manifest, built: Sequence[Built], directory: Path) -> Path:
    """Write the wheel of some variants; the same ones give the same bytes.

    One variant is told by the local version, `1.0+torch213.cxx11.cu130`, as torch's own wheels do. Tagged is what the
    variants need: Python's stable ABI of 3.9 and glibc 2.28, or nothing where nothing was compiled.

    Args:
        manifest: of the project.
        built: the variants.
        directory: where it goes.

    Returns:
        Its path.

    Raises:
        OSError: it cannot be written.
    """
    cells = [parse(one.name) for one in built]
    compiled = any(not cell.is_noarch for cell in cells)
    tag = _COMPILED if compiled else _ANY
    version = f"{manifest.version}.0" + (f"+{_local(cells[0])}" if len(cells) == 1 else "")
    module = manifest.module
    files: dict[str, File] = {
        f"{module}/{file.path.removeprefix(f'{BUILD}/').replace(one.name, f'_variants/{one.name}', 1)}": file
        for one in built
        for file in one.files
    }
    info = f"{module}-{version}.dist-info"
    texts = {
        f"{module}/__init__.py": _loader(cells, built),
        f"{info}/METADATA": _metadata(manifest, version, cells),
        f"{info}/WHEEL": _wheel(tag, compiled=compiled),
    }
    files |= {name: make_file(name, text) for name, text in texts.items()}
    record = [f"{name},sha256={_digest(file.sha256)},{file.size}\n" for name, file in files.items()]
    record_name = f"{info}/RECORD"
    files[record_name] = make_file(record_name, "".join([*record, f"{record_name},,\n"]).encode())
    target = directory / f"{module}-{version}-{tag}.whl"
    with tempfile.NamedTemporaryFile(dir=directory, prefix=f".{target.name}.", delete=False) as file:
        try:
            _zip(files, file)
            file.flush()
            Path(file.name).chmod(_ALL & 0o777)
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return target


def _local(cell: Cell) -> str:
    """The part of a version that tells a variant: `torch213.cxx11.cu130`."""
    if cell.torch is None:
        return cell.backend
    torch = cell.torch.replace(".", "")
    return ".".join(
        [f"stable{torch}" if cell.stable else f"torch{torch}", *([cell.abi] if cell.abi else []), cell.backend]
    )


def _loader(cells: Sequence[Cell], built: Sequence[Built]) -> bytes:
    """The package's `__init__.py`."""
    table: list[dict[str, Any]] = []
    for cell, one in zip(cells, built, strict=True):
        toolkit = cuda_version(cell.backend) or rocm_version(cell.backend)
        table.append(
            {
                "name": one.name,
                "torch": numbers(cell.torch) if cell.torch else None,
                "stable": cell.stable,
                "abi": cell.abi,
                "family": cell.family,
                "toolkit": numbers(toolkit) if toolkit else None,
            }
        )
    # Every value is written as a Python literal.
    return render("loader.py.j2", table=table).encode()


def _metadata(manifest: Manifest, version: str, cells: Sequence[Cell]) -> bytes:
    torches = {cell.torch for cell in cells}
    [only] = torches if len(torches) == 1 else [None]
    exact = only is not None and not any(cell.stable for cell in cells)
    depends = manifest.depends.get("")
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {manifest.name.value}",
        f"Version: {version}",
        f"Summary: A kernel for PyTorch, made with rules_torch_kernels {__version__}",
        f"License: {manifest.license}",
        "Requires-Python: >=3.9",
        f"Requires-Dist: torch{f'=={only}.*' if exact else ''}",
        *(f"Requires-Dist: {name}" for name in (depends.python if depends else ())),
        *([f"Project-URL: Source, {manifest.source}"] if manifest.source else []),
    ]
    return ("\n".join(lines) + "\n").encode()


def _wheel(tag: str, *, compiled: bool) -> bytes:
    pure = "false" if compiled else "true"
    lines = ["Wheel-Version: 1.0", f"Generator: rules_torch_kernels ({__version__})", f"Root-Is-Purelib: {pure}"]
    return ("\n".join([*lines, f"Tag: {tag}"]) + "\n").encode()


def _digest(sha256: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode()


def _zip(files: Mapping[str, File], to: IO[bytes]) -> None:
    """Write a zip archive with nothing of the time in it."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            entry = zipfile.ZipInfo(name, _FIRST_DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (_RUN if name.endswith(".so") else _ALL) << 16
            entry.file_size = file.size
            with archive.open(entry, "w") as part:
                if isinstance(file.content, bytes):
                    part.write(file.content)
                else:
                    with file.content.open("rb") as source:
                        shutil.copyfileobj(source, part)
