"""Loads a published kernel by its slice for the GPU of this machine, or with all device code where none is meant.

`driver publish --slice` writes the index that is read here. What is loaded, the `kernels` client loads: this module
chooses the branch. Tried with kernels 0.17.2, of which it calls `kernels.variants` too.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from types import ModuleType

INDEX = "slices.json"
"""The index, in the branch of the variants."""

_SCHEMA = 1
_CUDA = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")


class NoSliceError(RuntimeError):
    """A kernel has no device code for the GPU of this machine; the message lists what it has."""


class Slice(NamedTuple):
    """A slice of a variant, as the index has it.

    Attributes:
        name: of its capability: `sm90`.
        branch: where it is.
        archs: the GPU architectures that it has code for: `9.0`, `12.0+PTX`, `gfx942`.
        digest: SHA-256 of its metadata.json, in hexadecimal.
        variant_digest: the same of the variant with all device code.
    """

    name: str
    branch: str
    archs: tuple[str, ...]
    digest: str
    variant_digest: str


def get_kernel(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    policy: str | PathLike[str] | None = None,
    **options: Any,  # noqa: ANN401  (the client's own, of whatever types)
) -> ModuleType:
    """A kernel from the Hub, as `kernels.get_kernel` loads it, but only the slice of it for this machine's GPU.

    The kernel with all device code is loaded where there is no GPU, where GPUs of several capabilities are, and where
    the repository has no slices of the variant that fits, or none with all of the code for the GPU. If what is
    published of the slices does not belong together, it is loaded as well, with a RuntimeWarning.

    Args:
        repo_id: `owner/name`.
        version: of the kernel; its branch is `v<version>`.
        revision: a branch instead.
        backend: see `kernels.get_kernel`.
        policy: a file that names builders: loads all device code, if enough of them have rebuilt it.
        options: further arguments of that.

    Raises:
        NoSliceError: the variant that fits has slices, and no code for this GPU; not with `check_arch=False`, which
            then loads all device code.
        NotConfirmedError: too few of the policy's builders have rebuilt it.
        PolicyError: the policy is wrong.
        Exception: what `kernels.get_kernel` raises.
    """
    if policy is not None:
        from rules_torch_kernels.confirmed import get_confirmed

        return get_confirmed(repo_id, policy, version=version, revision=revision, backend=backend, **options)
    import kernels  # type: ignore[import-untyped]

    branch = revision if revision is not None or version is None else f"v{version}"
    gpus = () if backend == "cpu" else here()
    if branch is not None and len(gpus) == 1:
        try:
            chosen = _chosen(repo_id, branch, backend, gpus[0])
        except NoSliceError:
            if options.get("check_arch", True):
                raise
            chosen = None
        if chosen:
            version, revision = None, chosen.branch
    module: ModuleType = kernels.get_kernel(repo_id, version=version, revision=revision, backend=backend, **options)
    return module


def here() -> tuple[str, ...]:
    """The capabilities of the GPUs that torch can use, each once: `9.0`, `gfx942`; none without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return ()
    found = []
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        named = about.gcnArchName.partition(":")[0] if torch.version.hip else f"{about.major}.{about.minor}"
        found.append(named)
    return tuple(dict.fromkeys(found))


def _chosen(repo_id: str, branch: str, backend: str | None, gpu: str) -> Slice | None:
    """The slice to load; None to load the kernel with all device code.

    Raises:
        NoSliceError: see `get_kernel`.
    """
    index = _content(repo_id, branch, INDEX)
    if index is None:
        return None
    variant = _variant(repo_id, branch, backend)
    slices = read_index(index, variant)
    if not slices:
        return None
    chosen = choose(slices, gpu)
    if chosen is None and any(fits(arch, gpu) > _NEVER for part in slices for arch in part.archs):
        return None
    if chosen is None:
        listed = ", ".join(f"{part.name} ({', '.join(part.archs)})" for part in slices)
        message = f"{repo_id} has no device code for the GPU of this machine ({gpu}) in {variant}; it has {listed}"
        raise NoSliceError(message)
    stated = f"build/{variant}/metadata.json"
    for source, digest in ((branch, chosen.variant_digest), (chosen.branch, chosen.digest)):
        content = _content(repo_id, source, stated)
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            message = f"{repo_id}: {variant} in {source} is of another build than {INDEX}: all device code is loaded"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return None
    return chosen


def _content(repo_id: str, revision: str, path: str) -> bytes | None:
    """A file of a repository, from the Hub or the client's cache; None if it has none there."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError, RepositoryNotFoundError
    from huggingface_hub.errors import RevisionNotFoundError as NoRevisionError
    from kernels.hf_hub import CACHE_DIR  # type: ignore[import-untyped]

    try:
        file = hf_hub_download(repo_id, path, revision=revision, repo_type="kernel", cache_dir=CACHE_DIR)
    except (EntryNotFoundError, LocalEntryNotFoundError, NoRevisionError, RepositoryNotFoundError):
        return None
    return Path(file).read_bytes()


def _variant(repo_id: str, revision: str, backend: str | None) -> str:
    """The variant that the client would load; empty if none fits."""
    from huggingface_hub import HfApi, constants
    from kernels.variants import get_variants, get_variants_local, resolve_variant  # type: ignore[import-untyped]

    variants = [] if constants.HF_HUB_OFFLINE else get_variants(HfApi(), repo_id=repo_id, revision=revision)
    if constants.HF_HUB_OFFLINE:
        from huggingface_hub import snapshot_download
        from kernels.hf_hub import CACHE_DIR

        snapshot = snapshot_download(
            repo_id, repo_type="kernel", revision=revision, cache_dir=CACHE_DIR, local_files_only=True
        )
        variants = get_variants_local(Path(snapshot, "build"))
    chosen, _ = resolve_variant(variants, backend)
    return chosen.variant_str if chosen else ""


def read_index(text: bytes, variant: str) -> list[Slice]:
    """The slices of a variant that an index lists; none if it is no index that this version reads.

    Args:
        text: of the index.
        variant: its identifier.
    """
    try:
        index: Mapping[str, Any] = json.loads(text)
        if index["schema"] != _SCHEMA:
            return []
        return [
            Slice(name, entry["branch"], tuple(about["archs"]), about["digest"], about["variant-digest"])
            for name, entry in index["slices"].items()
            if (about := entry["variants"].get(variant)) is not None
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def choose(slices: Sequence[Slice], gpu: str) -> Slice | None:
    """The slice that fits a GPU best; None if a GPU needs more than one slice, or if none fits.

    All code of a slice has to fit: its sections may be for other architectures each. Best is the code of the GPU's own
    capability, then that of the nearest older one of the same major version, then the newest PTX.

    Args:
        slices: of a variant.
        gpu: its capability: `9.0`, `gfx942`.
    """
    ranks = {part: sorted(fits(arch, gpu) for arch in part.archs) for part in slices if part.archs}
    fitting = [part for part, rank in ranks.items() if rank[0] > _NEVER]
    return max(fitting, key=lambda part: ranks[part][-1], default=None)


_NEVER = (0, 0, 0)


def fits(arch: str, gpu: str) -> tuple[int, int, int]:
    """How well device code fits a GPU, as a rank: more is better, and three zeros are code that it cannot run.

    SASS runs on GPUs of its major version from its minor version on; `9.0a` on 9.0 alone, `10.0f` on those of its
    family; PTX is compiled for any later GPU: NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities".

    Args:
        arch: `9.0`, `9.0a`, `12.0+PTX`, `gfx942`.
        gpu: `9.0`, `gfx942`.
    """
    if arch == gpu:
        return 4, 0, 0
    code, machine = _CUDA.fullmatch(arch), _CUDA.fullmatch(gpu)
    if code is None or machine is None:
        return _NEVER
    target, own = (int(code[1]), int(code[2])), (int(machine[1]), int(machine[2]))
    if target == own:
        return 4, 0, 0
    if code[3] == "a" or target > own:
        return _NEVER
    if target[0] == own[0]:
        return 3, *target
    return (2, *target) if code[4] and not code[3] else _NEVER
