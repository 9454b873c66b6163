"""The inputs of a backend's unique id: the files, and the configuration that all variants share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from py_driver.manifest.model import TVM_FFI, values
from py_driver.manifest.targets import binding_target
from py_driver.matrix.backends import BUILT
from py_driver.plan.compile_groups import listers
from py_driver.plan.staging import staged
from py_driver.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.manifest.model import Kernel, Manifest
    from py_driver.plan.project import Project


_FORMAT = b"rules_torch_kernels id 1"
_DIGITS = 12
"""Both as in rules/private/tools/assemble/identity.zig."""


class Identity(NamedTuple):
    """The inputs of a backend's unique id.

    Attributes:
        name: its target's name, e.g. `cuda_id`.
        backend: `cpu`, `cuda`, `rocm` or `universal`.
        settings: the configuration that is the same in every variant, ready for JSON.
        files: every file that belongs to the backend, sorted.
    """

    name: str
    backend: str
    settings: Mapping[str, Any]
    files: tuple[str, ...]

    @property
    def config(self) -> str:
        """SHA-256, in hex, of the settings."""
        return sha256(canonical(self.settings).encode("ascii"))

    def unique_id(self, module: str, contents: Mapping[str, bytes]) -> str:
        """The unique id, as the rule kernel_id computes it: `_<module>_<backend>_<hash>`.

        Args:
            module: the name of the Python package.
            contents: the contents of all its files.
        """
        names = {staged(name): name for name in self.files}
        named = (field for name in sorted(names, key=label_order) for field in (name.encode(), contents[names[name]]))
        fields = [_FORMAT, *(text.encode() for text in (self.backend, module, self.config)), *named]
        digest = sha256(b"".join(len(field).to_bytes(8, "little") + field for field in fields))
        return f"_{module}_{self.backend}_{digest[:_DIGITS]}"


def label_order(label: str) -> list[str]:
    """Buildifier's sort key of file names in a BUILD file: part by part between dots."""
    return label.split(".")


def canonical(value: object) -> str:
    """A value as JSON with sorted keys, no blanks and ASCII characters only: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_identity(project: Project, family: str, *, compiled: bool) -> Identity:
    """The identity of a backend.

    Args:
        project: the project.
        family: `cpu`, `cuda`, `rocm` or `universal`.
        compiled: whether its variants contain more than Python files.
    """
    manifest = project.manifest
    sections = manifest.sections(family) if compiled else ()
    binding = manifest.framework.src if compiled else ()
    files = {*project.python, *values(binding), *(name for section in sections for name in values(section.src))}
    reached = (binding_target(family), *(section.target for section in sections)) if compiled else ()
    files |= {name for target in reached for name in project.reach[target].files}
    framework = manifest.framework
    implied = {name: project.reach[name].depends for name in reached if project.reach[name].depends}
    settings = {
        "name": manifest.name.value,
        "version": manifest.version,
        "backend": family,
        "binding": [sorted(values(binding)), values(framework.include), values(framework.cxx_flags)],
        **({"stable-abi": stable.value} if compiled and (stable := framework.stable_abi.get(family)) else {}),
        **({"implied-depends": implied} if implied else {}),
        **({"framework": TVM_FFI} if framework.table == TVM_FFI else {}),
        **({"shared": shared} if (shared := _shared(manifest, family) if compiled else {}) else {}),
        **({"triton": ahead[0].settings} if (ahead := [own for own in project.triton if own.family == family]) else {}),
        "kernels": [_section_config(section) for section in sorted(sections, key=lambda section: section.name.value)],
    }
    return Identity(name=f"{family}_id", backend=family, settings=settings, files=tuple(sorted(files)))


def _shared(manifest: Manifest, family: str) -> dict[str, list[str]]:
    """The sources that several sections list, with the sections in the order of the file, and so of their flags."""
    by_source = sorted(listers(manifest, family).items())
    return {source: [section.name.value for section in sections] for source, sections in by_source if len(sections) > 1}


def _section_config(section: Kernel) -> dict[str, Any]:
    """Everything in a section that affects compilation, except the contents of files."""
    own = {
        "hip-flags": values(section.hip_flags),
        "rocm-archs": sorted(section.requested) if section.requested else None,
    }
    return {
        **{key: own[key] for key in BUILT[section.backend.value].identity_keys},
        "name": section.name.value,
        "depends": sorted(values(section.depends)),
        "src": sorted(values(section.src)),
        "include": values(section.include),
        "cxx-flags": values(section.cxx_flags),
        "cuda-flags": values(section.cuda_flags),
        "capabilities": sorted(values(section.capabilities.value)) if section.capabilities else None,
        "cuda-minver": section.cuda_minver.value if section.cuda_minver else None,
        **({"gencode": sorted(values(section.gencode))} if section.gencode else {}),
    }
