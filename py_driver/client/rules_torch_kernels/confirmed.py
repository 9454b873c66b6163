"""Loads a published kernel only if builders that a policy names have rebuilt it, and the kernels that it depends on.

The client downloads, chooses and imports; this stands between. Tried with kernels 0.17.2, whose resolvers it wraps.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rules_torch_kernels.policies import read_policy
from rules_torch_kernels.rebuilders import Wanted, judge, statements_below

if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType

    from rules_torch_kernels.policies import Policy

_STATEMENTS: Final = "statements"
_BYTECODE: Final = "__pycache__"
_SIGNATURE: Final = "metadata.json.sigstore"


class NotConfirmedError(RuntimeError):
    """Too few of a policy's builders have confirmed a kernel; the message is one sentence."""


def get_confirmed(  # noqa: PLR0913  (those of `kernels.get_kernel`)
    repo_id: str,
    policy: str | PathLike[str],
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    check_arch: bool = True,
    trust_remote_code: bool | list[str] = False,
    user_agent: str | dict[str, str] | None = None,
) -> ModuleType:
    """A kernel from the Hub that enough builders have rebuilt, as have others every kernel that it depends on.

    Args:
        repo_id: `owner/name`.
        policy: the file of the policy.
        version: see `kernels.get_kernel`, as for the others.
        revision: a branch, tag or commit instead.
        backend: of the kernel.
        check_arch: whether it has to be for the GPU.
        trust_remote_code: which publishers are trusted besides.
        user_agent: what the Hub is told.

    Raises:
        NotConfirmedError: too few of them have; nothing of the kernel has run.
        PolicyError: the policy is wrong.
        Exception: what `kernels.get_kernel` raises.
    """
    from huggingface_hub import constants
    from kernels._rust import KernelDependency  # type: ignore[import-untyped]
    from kernels._versions import revision_or_version  # type: ignore[import-untyped]
    from kernels.hf_hub import _get_hf_api  # type: ignore[import-untyped]
    from kernels.load import get_kernel_with_resolver  # type: ignore[import-untyped]
    from kernels.resolver import HubCacheResolver, HubResolver  # type: ignore[import-untyped]
    from kernels.validate import (  # type: ignore[import-untyped]
        AllValidator,
        ArchValidator,
        default_metadata_validators,
    )

    asked = read_policy(Path(policy))
    resolver = HubCacheResolver if constants.HF_HUB_OFFLINE else HubResolver
    validators = [*default_metadata_validators(), *([ArchValidator()] if check_arch else [])]
    module: ModuleType = get_kernel_with_resolver(
        api=_get_hf_api(user_agent=user_agent),
        backend=backend,
        kernel=KernelDependency(repo_id=repo_id, version=revision_or_version(revision=revision, version=version)),
        resolver=_Confirming(asked, resolver(trust_remote_code=trust_remote_code), online=not constants.HF_HUB_OFFLINE),
        metadata_validator=AllValidator(validators=validators),
    )
    return module


class _Confirming:
    """A resolver of the client that downloads at once, and returns what a policy's builders have confirmed."""

    def __init__(self, policy: Policy, resolver: Any, *, online: bool) -> None:  # noqa: ANN401  (the client's)
        self._policy, self._resolver, self._online = policy, resolver, online

    def resolve(self, *, api: Any, backend: str | None, kernel: Any) -> Any:  # noqa: ANN401  (the client's types)
        from kernels._rust import Metadata
        from kernels.hf_hub import CACHE_DIR

        found = self._resolver.resolve(api=api, backend=backend, kernel=kernel).install(api=api)
        variant: Path = found.variant_path
        snapshot = variant.parents[1]
        if self._online:
            api.snapshot_download(
                kernel.repo_id,
                repo_type="kernel",
                revision=snapshot.name,
                allow_patterns=[f"{_STATEMENTS}/{variant.name}/*"],
                cache_dir=CACHE_DIR,
            )
        wanted = Wanted(kernel.repo_id, getattr(kernel.version, "version", None), variant.name, digests(variant))
        bundles = statements_below(snapshot / _STATEMENTS, variant.name, f"{kernel.repo_id}/{_STATEMENTS}")
        for directory in self._policy.statements:
            bundles |= statements_below(directory, variant.name)
        if problem := judge(self._policy, wanted, bundles).problem:
            raise NotConfirmedError(problem)
        # What was read before came from the Hub by itself.
        return replace(found, metadata=Metadata.read_from_file(variant / "metadata.json"))


def digests(variant: Path) -> dict[str, str]:
    """The SHA-256 of each file of a variant, in hexadecimal, by its path in the repository.

    What Python has left there, which it would run in the place of the sources, is removed.

    Args:
        variant: its directory.

    Raises:
        NotConfirmedError: it cannot be removed.
    """
    found = {}
    for path in sorted(variant.rglob("*")):
        name = path.relative_to(variant).as_posix()
        if (path.is_dir() and not path.is_symlink()) or name == _SIGNATURE:
            continue
        if path.is_dir():
            found[f"build/{variant.name}/{name}"] = "a link"  # to files that nobody has seen
            continue
        if _BYTECODE not in name.split("/"):
            found[f"build/{variant.name}/{name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as wrong:
            message = f"{path} cannot be removed ({wrong.strerror}), and Python would run it instead of the sources"
            raise NotConfirmedError(message) from None
    return found
