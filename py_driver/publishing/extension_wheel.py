"""The wheel of a project with a setup.py for one configuration: the wheel of setup.py, with the built libraries.

Formats: binary distribution format of the Python packaging specifications; SBOM in a wheel PEP 770, CycloneDX 1.6.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from py_driver.errors import Code, error
from py_driver.fetch.package_index import normalized
from py_driver.matrix.configurations import Configuration
from py_driver.matrix.torch_symbols import undefined
from py_driver.publishing.provenance import Sources, bill_of, package_url, wheel_statement
from py_driver.publishing.release import make_file
from py_driver.publishing.skeleton import DATA, INFO, LIBRARY, METADATA, check_libraries, ordered, read_skeleton
from py_driver.publishing.wheel_archive import GENERATOR, PLATFORM, STABLE_ABI, write_wheel
from py_driver.publishing.wheel_metadata import fields, for_torch, local_version
from py_driver.publishing.wheel_variants import VARIANT, properties_of, variant_text
from py_driver.publishing.wheel_variants import label_of as variant_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.pythons import Python
    from py_driver.publishing.release import File
    from py_driver.recording.record import Record

SBOM: Final = "sboms/rules_torch_kernels.cdx.json"
"""The SBOM in a wheel's `.dist-info`."""

STATEMENT: Final = "rules_torch_kernels.intoto.json"
"""The statement there, about all other files except RECORD."""

WHEEL: Final = "WHEEL"
ANY_PYTHON: Final = "py3-none"
"""Python and ABI tag of a wheel whose libraries use no symbols of Python."""

_OF_PYTHON: Final = ("Py", "_Py")
"""The prefixes of all symbols that an extension uses from Python."""

_OLDEST: Final = "cxx98"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionWheel:
    """The parts of a wheel.

    Attributes:
        record: the record of setup.py.
        skeleton: the wheel that setup.py made, with an empty file for each library.
        modules: the files that replace each library, by `Module.file`: their sources, by their paths in the wheel.
        source: the source archive of the project, or the state of its directory according to git.
        archives: all archives that the libraries were compiled and linked with.
        python: the Python that the libraries are for; None for every Python.
        bindings: the way of binding of each module that does not register ops itself; see `extensions.binding`.
        choices: the choices of the build; see `plan.metadata.chosen`.
        archs: the GPU architectures that a library has code for, by `Module.file`.
    """

    record: Record
    skeleton: Path
    modules: Mapping[str, Mapping[str, Path]]
    source: Entry | Sources = Sources()  # noqa: RUF009  (it is immutable)
    archives: Sequence[Entry] = ()
    python: Python | None = None
    bindings: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    archs: Mapping[str, Sequence[str]] = field(default_factory=dict)


def label_of(record: Record, *, labelled: bool = False) -> str:
    """The local part of a wheel's version: `cu130.torch213`.

    Args:
        record: the record of setup.py.
        labelled: whether it is a wheel variant, whose backend is a label after the tag instead.
    """
    torch = f"torch{record.torch.replace('.', '')}"
    label = torch if labelled else f"{record.backend}.{torch}"
    return f"{label}.{record.cxx_abi}" if record.cxx_abi == _OLDEST else label


def check_skeleton(record: Record, skeleton: Path, *, labelled: bool = False) -> None:
    """Check that a wheel can be written, before anything is compiled for it.

    Args:
        record: the record of setup.py.
        skeleton: the wheel that setup.py made.
        labelled: whether it is to be a wheel variant.

    Raises:
        DriverError: UNSUPPORTED if the project does not accept this torch, if its wheel lacks the libraries of its
            modules, has copies of them or symbolic links, or if no wheel variant is possible; FILE_KIND if the file is
            not a wheel.
    """
    found = read_skeleton(skeleton)
    check_libraries(record, found)
    if labelled and record.modules:
        properties_of(_configuration(record))
    for_torch(found.files[f"{found.stem}{INFO}/{METADATA}"], label_of(record), record.torch)


def _configuration(record: Record) -> Configuration:
    """The configuration of a record."""
    return Configuration(record.backend, record.torch, abi=record.cxx_abi, cpu=record.cpu, os="linux")


def make_extension_wheel(wheel: ExtensionWheel, directory: Path, *, labelled: bool = False) -> Path:
    """Write the wheel of a configuration; equal parts give equal bytes.

    Without modules it is the wheel of setup.py unchanged, since that fits every torch.

    Args:
        wheel: the parts of the wheel.
        directory: an existing directory.
        labelled: whether to write a wheel variant: the backend is a label after the tag, and not in the version.

    Returns:
        The file.

    Raises:
        DriverError: see `check_skeleton`; DUPLICATE_FILE if two files of the wheel have the same path.
        OSError: it cannot be written.
    """
    skeleton = read_skeleton(wheel.skeleton)
    check_libraries(wheel.record, skeleton)
    info = f"{skeleton.stem}{INFO}"
    files = {path: make_file(path, content) for path, content in skeleton.files.items()}
    executable, name, tags, end = skeleton.executable, skeleton.name, skeleton.tags, ""
    if wheel.record.modules:
        label = label_of(wheel.record, labelled=labelled)
        name, stem = local_version(skeleton.name, label), local_version(skeleton.stem, label)
        tags = (*skeleton.tags[:-3], *tag_of(wheel).split("-"))
        metadata = for_torch(skeleton.files[f"{info}/{METADATA}"], label, wheel.record.torch)
        texts = {
            f"{info}/{METADATA}": metadata,
            f"{info}/{WHEEL}": wheel_text(tags),
            f"{info}/{SBOM}": sbom(wheel, metadata),
        }
        if labelled:
            configuration = _configuration(wheel.record)
            end = f"-{variant_label(configuration)}"
            texts[f"{info}/{VARIANT}"] = variant_text(end.removeprefix("-"), properties_of(configuration))
        files = _with_libraries(files, wheel)
        files |= {path: make_file(path, content) for path, content in texts.items()}
        files = {_renamed(path, skeleton.stem, stem): file for path, file in files.items()}
        executable = frozenset(_renamed(path, skeleton.stem, stem) for path in executable)
        info = f"{stem}{INFO}"
        statement = f"{info}/{STATEMENT}"
        files[statement] = make_file(
            statement,
            wheel_statement(
                ordered(files, info), parameters_of(wheel, name.partition("-")[2]), wheel.source, wheel.archives
            ),
        )
    target = directory / f"{'-'.join((name, *tags))}{end}.whl"
    write_wheel(ordered(files, info), info, target, executable)
    return target


def _with_libraries(files: Mapping[str, File], wheel: ExtensionWheel) -> dict[str, File]:
    """The files of a wheel, with the built files in place of the empty libraries.

    Raises:
        DriverError: DUPLICATE_FILE.
    """
    replaced = {module.file for module in wheel.record.modules}
    found = {name: file for name, file in files.items() if name not in replaced}
    for module in wheel.record.modules:
        for name, path in wheel.modules[module.file].items():
            if name in found:
                message = f"the build makes {name} for the module `{module.name}`, and the project has that file"
                raise error(Code.DUPLICATE_FILE, message, help="rename the file")
            found[name] = make_file(name, path)
    return found


def _renamed(name: str, old: str, new: str) -> str:
    """The path of a file in the wheel after a change of the version, which is in the names of two directories."""
    top, _, rest = name.partition("/")
    return f"{new}{top.removeprefix(old)}/{rest}" if top in {f"{old}{INFO}", f"{old}{DATA}"} else name


def tag_of(wheel: ExtensionWheel) -> str:
    """The tag of the libraries: for one Python, or for any if no library uses its symbols."""
    if wheel.python is not None:
        return f"{wheel.python.wheel_tag}-{PLATFORM}_{wheel.record.cpu}"
    libraries = [path for paths in wheel.modules.values() for path in paths.values() if path.name.endswith(LIBRARY)]
    python = STABLE_ABI if any(map(needs_python, libraries)) else ANY_PYTHON
    return f"{python}-{PLATFORM}_{wheel.record.cpu}"


def needs_python(library: Path) -> bool:
    """Whether a library uses symbols of Python.

    Args:
        library: the file.
    """
    return any(name.startswith(_OF_PYTHON) for name in undefined(library))


def wheel_text(tags: Sequence[str]) -> bytes:
    """The text of WHEEL.

    Args:
        tags: a build number if there is one, then Python, ABI and platform.
    """
    lines = ["Wheel-Version: 1.0", f"Generator: {GENERATOR}", "Root-Is-Purelib: false"]
    lines += [f"Build: {number}" for number in tags[:-3]]
    return ("\n".join([*lines, f"Tag: {'-'.join(tags[-3:])}"]) + "\n").encode()


def sbom(wheel: ExtensionWheel, metadata: bytes) -> bytes:
    """The SBOM of the wheel: its sources, the tools that ran setup.py, and the compilers of the libraries."""
    values = {field.name: field.value for field in fields(metadata)}
    url = _package_url(values["name"], values["version"])
    subject: dict[str, Any] = {
        "type": "library",
        "bom-ref": url,
        "name": values["name"],
        "version": values["version"],
        "purl": url,
    }
    if expression := values.get("license-expression"):
        subject["licenses"] = [{"expression": expression}]
    elif license_name := values.get("license"):
        subject["licenses"] = [{"license": {"name": license_name}}]
    if not isinstance(wheel.source, Sources):
        ancestor = {
            "type": "library",
            "name": wheel.source.name,
            "version": wheel.source.version,
            "purl": package_url(wheel.source),
            "hashes": [{"alg": "SHA-256", "content": wheel.source.sha256}],
        }
        subject["pedigree"] = {"ancestors": [ancestor]}
    bill = bill_of(subject, wheel.archives)
    tools = list(_tools(wheel.record.requirements))
    bill["components"] += tools
    bill["dependencies"][0]["dependsOn"] += [tool["bom-ref"] for tool in tools]
    return (json.dumps(bill, indent=2) + "\n").encode()


def parameters_of(wheel: ExtensionWheel, version: str) -> dict[str, Any]:
    """The build parameters of a wheel, for its statement.

    Args:
        wheel: the parts of the wheel.
        version: the version of the wheel.
    """
    record = wheel.record
    return {
        "name": record.name,
        "version": version,
        "torch": record.torch,
        "cxx-abi": record.cxx_abi,
        "backend": record.backend,
        "cpu": record.cpu,
        "archs": record.arch_list,
        "build-requirements": list(record.requirements),
        **({"bindings": dict(wheel.bindings)} if wheel.bindings else {}),
        **wheel.choices,
        **({"python": wheel.python.key} if wheel.python else {}),
    }


def _tools(requirements: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The components of the tools that ran setup.py, such as `setuptools==80.9.0`."""
    for requirement in sorted(set(requirements)):
        name, _, version = requirement.partition("==")
        url = _package_url(name, version)
        yield {"type": "library", "bom-ref": url, "name": name, "version": version, "scope": "excluded", "purl": url}


def _package_url(name: str, version: str) -> str:
    return f"pkg:pypi/{normalized(name)}@{quote(version, safe='')}"
