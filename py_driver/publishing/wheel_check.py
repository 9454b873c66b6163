"""Whether a finished wheel is valid: its RECORD, its metadata, and the ABI of each library."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from py_driver.building.abi_check import PYTHON, Checked, expectations
from py_driver.errors import Code, Diagnostic, error
from py_driver.fetch.wheel_members import BROKEN_ZIP
from py_driver.matrix.backends import BUILT
from py_driver.plan.metadata import METADATA as VARIANT
from py_driver.publishing.extension_wheel import needs_python
from py_driver.publishing.wheel_archive import RECORD, digest_of
from py_driver.publishing.wheel_loader import MODULE_PLACE, PLACE
from py_driver.publishing.wheel_metadata import fields
from py_driver.publishing.wheel_variants import backend_in, label_in
from py_driver.system.files import is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    Judge = Callable[[Path, Mapping[str, str]], Checked]

SUFFIX: Final = ".whl"

_INFO: Final = ".dist-info"
_LIBRARY: Final = ".so"
_INIT: Final = "init-function"
_BINDING: Final = "--binding"
_OF_ONE_PYTHON: Final = re.compile(r"\.(cpython|pypy|graalpy)[^/]*\.so$")
_EXACT: Final = re.compile(r"==(\d+\.\d+)\.\*")
_UNSIGNED: Final = ("RECORD", "RECORD.jws", "RECORD.p7s")
_SHOWN: Final = 5
_PART: Final = 1 << 20
_BACKENDS: Final = "|".join(backend.spelling for backend in BUILT.values())
_LABEL: Final = re.compile(rf"[+.](?P<backend>{_BACKENDS})\.torch(?P<torch>\d+)(\.(?P<abi>cxx98))?$")
"""The end of the version of a wheel for one configuration; see `extension_wheel.label_of`."""

_OF_VARIANT: Final = re.compile(r"[+.]torch(?P<torch>\d+)(\.(?P<abi>cxx98))?$")
"""The end of the version of a wheel variant, whose backend is in its label."""


class CheckedWheel(NamedTuple):
    """The findings about a wheel.

    Attributes:
        path: the path of the wheel.
        torch: the release that its metadata requires; empty if it requires none.
        backend: the backend in its version; empty if it has none.
        libraries: the ABI check of each library, with the path of the wheel and then the path in it.
        problems: other problems.
    """

    path: Path
    torch: str
    backend: str
    libraries: tuple[Checked, ...]
    problems: tuple[str, ...]

    def diagnostics(self) -> Iterator[Diagnostic]:
        """The errors: NOT_COMPLIANT for the wheel, and NOT_COMPLIANT or FILE_KIND for each such library."""
        if self.problems:
            more = len(self.problems) - _SHOWN
            shown = "; ".join(self.problems[:_SHOWN]) + (f"; {more} more" if more > 0 else "")
            message = f"{self.path} is not valid: {shown}"
            yield Diagnostic(code=Code.NOT_COMPLIANT, message=message, help="make it again: driver wheel")
        for library in self.libraries:
            if (diagnostic := library.diagnostic()) is not None:
                yield diagnostic

    def described(self) -> str:
        """A summary of a valid wheel: `2 libraries for torch 2.13 and cu130`."""
        of_torch = f" for torch {self.torch}" if self.torch else ""
        of_backend = f" and {self.backend}" if self.torch and self.backend else ""
        count = len(self.libraries)
        return f"{count} librar{'y' if count == 1 else 'ies'}{of_torch}{of_backend}"


class _Wheel(NamedTuple):
    """A wheel that was read.

    Attributes:
        path: its path.
        plain: its name without the label of a wheel variant.
        label: the label; empty if it has none.
        names: its files, in order.
        contents: hexadecimal SHA-256 and size of each file.
        info: its `.dist-info` directory.
        texts: the checked files of that directory, by name.
    """

    path: Path
    plain: str
    label: str
    names: tuple[str, ...]
    contents: Mapping[str, tuple[str, int]]
    info: str
    texts: Mapping[str, bytes]


def find_wheels(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The wheels among paths, and the other paths: libraries.

    Args:
        paths: files, and directories with wheels or with libraries.
    """
    wheels: list[Path] = []
    others = []
    for path in paths:
        found = [path] if path.suffix == SUFFIX and is_file(path) else sorted(path.glob(f"*{SUFFIX}"))
        wheels += found
        if not found or (path.is_dir() and any(path.rglob(f"*{_LIBRARY}"))):
            others.append(path)
    return list(dict.fromkeys(wheels)), others


def check_wheel(path: Path, work: Path, judge: Judge) -> CheckedWheel:
    """Check a wheel of `driver wheel` or of another tool.

    Args:
        path: the wheel.
        work: an empty directory, into which its libraries are unpacked.
        judge: the ABI check of a library, with options that state the expectations; see `abi_check.check`.

    Raises:
        DriverError: FILE_KIND if it is not a wheel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wheel = _read(path, archive)
            libraries = [name for name in wheel.contents if name.endswith(_LIBRARY)]
            for name in wheel.contents:
                if name in libraries or name.endswith(f"/{VARIANT}"):
                    archive.extract(name, work)
    except (OSError, *BROKEN_ZIP) as wrong:
        raise error(Code.FILE_KIND, f"{path} cannot be read as a wheel: {wrong}") from None
    torch, backend, abi = _torch(wheel), *_label(wheel)
    stated = {"--torch": torch, "--backend": backend, "--cxx-abi": abi if torch else "", "--cpu": _cpu(wheel.plain)}
    stated[PYTHON] = _python(wheel.plain)
    options = {option: value for option, value in stated.items() if value}
    checked = tuple(_checked(name, path, work, judge, {**options, **_entry(name, wheel)}) for name in libraries)
    return CheckedWheel(path, torch, backend, checked, (*_of_record(wheel), *_of_names(wheel, work, torch)))


def _read(path: Path, archive: zipfile.ZipFile) -> _Wheel:
    """Read a wheel.

    Raises:
        DriverError: FILE_KIND.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    tops = {top for member in members if (top := member.filename.partition("/")[0]).endswith(_INFO)}
    if len(tops) != 1:
        raise error(Code.FILE_KIND, f"{path} is not a wheel: it has no {_INFO} directory of its own")
    contents = {}
    for member in members:
        digest = hashlib.sha256()
        with archive.open(member) as file:
            while part := file.read(_PART):
                digest.update(part)
        contents[member.filename] = digest.hexdigest(), member.file_size
    info = min(tops)
    texts = {
        name: archive.read(f"{info}/{name}") for name in ("METADATA", "WHEEL", RECORD) if f"{info}/{name}" in contents
    }
    return _Wheel(path, *label_in(path.name), tuple(member.filename for member in members), contents, info, texts)


def _of_record(wheel: _Wheel) -> Iterator[str]:
    """Contradictions between a wheel and its RECORD."""
    yield from (f"it has {name} twice" for name, count in Counter(wheel.names).items() if count > 1)
    if RECORD not in wheel.texts:
        yield f"it has no {RECORD}"
        return
    text = wheel.texts[RECORD].decode("utf-8", "replace")
    rows = {row[0]: tuple(row[1:]) for row in csv.reader(io.StringIO(text)) if row}
    own = {f"{wheel.info}/{name}" for name in _UNSIGNED}
    for name, (sha256, size) in wheel.contents.items():
        if name not in rows:
            yield f"{RECORD} does not list {name}"
        elif name not in own and rows[name] != (digest_of(sha256), str(size)):
            yield f"{name} has other bytes than {RECORD} says"
    yield from (f"{RECORD} lists {name}, which does not exist" for name in rows if name not in wheel.contents)


def _of_names(wheel: _Wheel, work: Path, torch: str) -> Iterator[str]:
    """Contradictions between a wheel's file name, metadata and libraries."""
    name, _, rest = wheel.plain.removesuffix(SUFFIX).partition("-")
    version, _, tags = rest.partition("-")
    tag = "-".join(tags.split("-")[-3:])
    values = {field.name: field.value for field in fields(wheel.texts.get("METADATA", b""))}
    if canonicalize_name(values.get("name", "")) != canonicalize_name(name) or values.get("version") != version:
        yield f"its file name says {name} {version}, and METADATA {values.get('name')} {values.get('version')}"
    stated = [field.value for field in fields(wheel.texts.get("WHEEL", b"")) if field.name == "tag"]
    if tag not in stated:
        yield f"its file name has the tag {tag}, and WHEEL {' and '.join(stated) or 'none'}"
    labelled = (_OF_VARIANT if wheel.label else _LABEL).search(version)
    if labelled and labelled["torch"] != torch.replace(".", ""):
        required = f"torch {torch}" if torch else "no release of torch"
        yield f"its version names torch{labelled['torch']}, and METADATA requires {required}"
    for library in (entry for entry in wheel.contents if entry.endswith(_LIBRARY)):
        if tag.endswith("-any"):
            yield f"{library} is for one CPU, and its tag is {tag}"
        if "-none-" in tag and _needs_python(work / library):
            yield f"{library} uses symbols of Python, and its tag is {tag}"
        if _OF_ONE_PYTHON.search(library) and ("-none-" in tag or "-abi3-" in tag):
            yield f"{library} is found by one Python only, and its tag is {tag}"


def _label(wheel: _Wheel) -> tuple[str, str]:
    """The backend and the C++ ABI in the name of a wheel; empty if it has none."""
    version = wheel.plain.removesuffix(SUFFIX).split("-")[1]
    if found := (_OF_VARIANT if wheel.label else _LABEL).search(version):
        return backend_in(wheel.label) if wheel.label else found["backend"], found["abi"] or "cxx11"
    return "", ""


def _torch(wheel: _Wheel) -> str:
    """The release of torch that METADATA requires; empty if it requires no single release."""
    for field in fields(wheel.texts.get("METADATA", b"")):
        if field.name == "requires-dist":
            try:
                requirement = Requirement(field.value)
            except InvalidRequirement:
                continue
            exact = [found[1] for part in requirement.specifier if (found := _EXACT.fullmatch(str(part)))]
            if canonicalize_name(requirement.name) == "torch" and not requirement.marker and exact:
                return exact[0]
    return ""


def _cpu(name: str) -> str:
    """The CPU in the tag of a wheel; empty for any CPU."""
    found = re.search(r"linux(?:_\d+_\d+|\d*)_(x86_64|aarch64)\.whl$", name)
    return found[1] if found else ""


def _python(name: str) -> str:
    """The one Python in the tag of a wheel, e.g. `3.13`; empty for other tags."""
    found = re.search(r"-cp3\d+-cp3(?P<minor>\d+)(?P<threads>t?)-[^-]+\.whl$", name)
    return f"3.{found['minor']}{found['threads']}" if found else ""


def _checked(name: str, path: Path, work: Path, judge: Judge, options: Mapping[str, str]) -> Checked:
    """Check a library of a wheel; a library that uses no symbols of Python needs no init function.

    Args:
        name: its path in the wheel.
        path: the wheel.
        work: the directory with the unpacked libraries.
        judge: see `check_wheel`.
        options: the expectations for the wheel's libraries; those for a variant follow from its directory.
    """
    library = work / name
    own = {} if PLACE in library.parts else options
    if any(part.endswith(MODULE_PLACE) for part in library.parts):
        own = {option: value for option, value in options.items() if option == _BINDING}
    wanted = {**expectations(library), **own}
    if _BINDING in wanted:
        wanted.pop("--init", None)
    found = judge(library, wanted)
    findings = tuple(finding for finding in found.findings if finding["rule"] != _INIT or _needs_python(library))
    failure = found.failure.replace(str(library.resolve()), str(path / name))
    return replace(found, path=path / name, findings=findings, failure=failure)


def _entry(name: str, wheel: _Wheel) -> dict[str, str]:
    """The option that names the binding of a library: the module beside it, `pkg/_C.py` beside `pkg/lib_C.so`."""
    folder, slash, file = name.rpartition("/")
    module = file.removeprefix("lib").removesuffix(_LIBRARY)
    is_binding = file.startswith("lib") and f"{folder}{slash}{module}.py" in wheel.contents
    return {_BINDING: module} if is_binding else {}


def _needs_python(library: Path) -> bool:
    """Whether a library uses symbols of Python; False for any other file."""
    try:
        return needs_python(library)
    except (OSError, ValueError):
        return False
