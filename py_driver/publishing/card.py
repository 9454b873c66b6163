"""The card of a kernel's repository, its README.md: what people want to know before they load it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tomli

from py_driver import __version__
from py_driver.building.variant_dir import BUILD
from py_driver.errors import DriverError
from py_driver.manifest.model import TVM_FFI
from py_driver.matrix.backends import ARCH, BUILT, arch_order
from py_driver.matrix.configurations import parse
from py_driver.publishing.card_files import BENCHMARKS
from py_driver.publishing.markdown import arguments, code
from py_driver.publishing.public_api import offers, schemas, summary
from py_driver.publishing.templates import render
from py_driver.publishing.timings import figures
from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.configurations import Configuration
    from py_driver.publishing.public_api import Offer
    from py_driver.publishing.release_record import Changed
    from py_driver.publishing.slices import SliceRow
    from py_driver.publishing.timings import Figures

CARD: Final = "README.md"
"""Its path in the repository."""

MADE: Final = "Made with rules_torch_kernels"
"""By this a card is known as one of these."""

_OTHER: Final = "other"
_ARCH: Final = re.compile(ARCH)


class Row(NamedTuple):
    """A variant in the table.

    Attributes:
        name: its identifier.
        configuration: what that says; None for one of a platform that is not built here.
        archs: GPU architectures, sorted.
    """

    name: str
    configuration: Configuration | None
    archs: tuple[str, ...]


class Facts(NamedTuple):
    """What a card says.

    Attributes:
        manifest: of the project.
        bound: what the kernel is bound to: PyTorch or tvm-ffi.
        licence: as the card's metadata has it.
        repo_id: where it is published; empty if nobody said.
        rows: the variants.
        compiled: whether one of them is compiled.
        python: the Python packages that it needs.
        summary: what it is, in the words of its package; empty if it says nothing.
        offers: its functions and classes.
        schemas: of its ops.
        reports: of its benchmarks.
        made: by what the card was made.
        changed: what changed since the last release; None if that was not recorded of this build.
        slices: those that are published or are to be.
    """

    manifest: Manifest
    bound: str
    licence: Mapping[str, str]
    repo_id: str
    rows: Sequence[Row]
    compiled: bool
    python: Sequence[str]
    summary: str
    offers: Sequence[Offer]
    schemas: Sequence[str]
    reports: Sequence[Figures]
    made: str
    changed: Changed | None
    slices: Sequence[SliceRow] = ()

    @property
    def loading(self) -> str:
        """The code that loads it: from the Hub, or from `build/` if nobody said where it is published."""
        module = self.manifest.module
        if self.repo_id:
            return f"import kernels\n\n{module} = kernels.get_kernel({self._arguments})"
        return f'from pathlib import Path\n\nimport kernels\n\n{module} = kernels.get_local_kernel(Path("{BUILD}"))'

    @property
    def loading_slice(self) -> str:
        """The code that loads a slice of it; empty if nobody said where it is published."""
        if not self.repo_id:
            return ""
        called = f"{self.manifest.module} = rules_torch_kernels.get_kernel({self._arguments})"
        return f"import rules_torch_kernels\n\n{called}"

    @property
    def _arguments(self) -> str:
        """With which `get_kernel` is called."""
        return f'"{self.repo_id}", version={self.manifest.version}, trust_remote_code=["{self.repo_id}"]'


def card_facts(  # noqa: PLR0913  (all that a card has)
    manifest: Manifest,
    repo_id: str,
    variants: Mapping[str, Mapping[str, Any]],
    files: Mapping[str, str],
    changed: Changed | None = None,
    slices: Sequence[SliceRow] = (),
) -> Facts:
    """What a card says.

    Args:
        manifest: of the project.
        repo_id: where it is published; empty if nobody said.
        variants: what the metadata.json of each variant says, by identifier.
        files: the texts of the project's binding, of its Python files and of its benchmarks' reports, by their paths.
        changed: what changed since the last release.
        slices: those that are published or are to be.
    """
    root = f"{manifest.python_root}/"
    python = {path.removeprefix(root): text for path, text in files.items() if path.startswith(root)}
    binding = [files[source.value] for source in manifest.framework.src if source.value in files]
    reports = [text for path, text in sorted(files.items()) if PurePosixPath(path).parent.name == BENCHMARKS]
    rows = [make_row(name, metadata) for name, metadata in sorted(variants.items())]
    return Facts(
        manifest=manifest,
        bound="tvm-ffi" if manifest.framework.table == TVM_FFI else "PyTorch",
        licence=_licence(manifest.license),
        repo_id=repo_id,
        rows=rows,
        compiled=any(row.configuration and not row.configuration.is_noarch for row in rows),
        python=[name for depends in manifest.depends.values() for name in depends.python],
        summary=summary(python),
        offers=offers(python),
        schemas=schemas(binding, manifest.built or BUILT),
        reports=[report for text in reports if (report := figures(text))],
        made=f"{MADE} {__version__}",
        changed=changed,
        slices=slices,
    )


def make_card(facts: Facts) -> bytes:
    """Make the card.

    Args:
        facts: what it says.
    """
    loading = {"loading": facts.loading, "loading_slice": facts.loading_slice}
    values = {**facts._asdict(), **loading, "code": code, "arguments": arguments}
    return render("card.md.j2", **values).encode(errors="replace")


def _licence(name: str) -> dict[str, str]:
    """The licence in the card's metadata; one that the Hub has no identifier for goes by its name."""
    known = tomli.loads(resource("licenses.toml"))
    if name.lower() in known["identifiers"]:
        return {"license": name.lower()}
    return {"license": _OTHER} if name.lower() == _OTHER else {"license": _OTHER, "license_name": name}


def make_row(name: str, metadata: Mapping[str, Any]) -> Row:
    """A variant in the table.

    Args:
        name: its identifier.
        metadata: what its metadata.json says.
    """
    backend = metadata.get("backend")
    archs = backend.get("archs") if isinstance(backend, dict) else None
    listed = archs if isinstance(archs, list) else []
    known = {arch for arch in listed if isinstance(arch, str) and _ARCH.fullmatch(arch)}
    try:
        configuration = parse(name)
    except DriverError:
        configuration = None
    return Row(name=name, configuration=configuration, archs=tuple(sorted(known, key=arch_order)))
