"""torch.cuda of a machine that has a GPU for each architecture of the run."""

from __future__ import annotations

from types import SimpleNamespace

from torch import version
from torch._facts import CAPABILITIES, FACTS, OLDEST, lacks

_ARCHS: list[str] = FACTS["archs"]


def _is_compiled() -> bool:
    """Whether torch has this backend."""
    return version.cuda is not None or version.hip is not None


def is_available() -> bool:
    """Whether torch has a GPU to work with: so it is for each backend that has some."""
    return _is_compiled()


def is_bf16_supported(including_emulation: bool = True) -> bool:  # noqa: FBT001, FBT002  (torch's own)
    """Whether the GPU computes with bfloat16."""
    return _is_compiled() and (including_emulation or get_device_capability() >= (8, 0))


def is_initialized() -> bool:
    """Whether something has used a GPU: nothing does."""
    return False


def init() -> None:
    """Nothing is initialized."""


def device_count() -> int:
    """How many GPUs there are: one for each capability, as if a machine had all that are asked for."""
    return max(len(CAPABILITIES), 1) if _is_compiled() else 0


def current_device() -> int:
    """The first GPU."""
    _some()
    return 0


def get_device_capability(device: object = None) -> tuple[int, int]:
    """The capability of a GPU; the newest for no number, as projects ask what they may use."""
    _some()
    major, minor = (CAPABILITIES or [OLDEST])[device if isinstance(device, int) else -1]
    return int(major), int(minor)


def get_device_name(device: object = None) -> str:
    """The name of a GPU."""
    return str(get_device_properties(device).name)


def get_device_properties(device: object = None) -> SimpleNamespace:
    """What is known of a GPU."""
    major, minor = get_device_capability(device)
    arch = _ARCHS[0] if version.hip and _ARCHS else ""
    return SimpleNamespace(name="stand-in", major=major, minor=minor, gcnArchName=arch, warp_size=64 if arch else 32)


def get_arch_list() -> list[str]:
    """The architectures that torch was compiled for."""
    return list(_ARCHS) if _is_compiled() else []


def _some() -> None:
    """Fail as torch does where it has no GPU."""
    if not _is_compiled():
        raise AssertionError("Torch not compiled with CUDA enabled")


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
