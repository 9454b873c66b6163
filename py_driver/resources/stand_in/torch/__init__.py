"""A stand-in for torch while a setup.py is recorded: what setup.py files ask of it, and no library."""

from __future__ import annotations

from torch import _C, __config__, backends, cuda, distributed, mps, utils, version, xpu
from torch._facts import lacks
from torch.torch_version import TorchVersion

__version__ = TorchVersion(version.__version__)

__all__ = ["_C", "__config__", "__version__", "backends", "cuda", "distributed", "mps", "utils", "version", "xpu"]


def compiled_with_cxx11_abi() -> bool:
    """Whether torch was compiled with the C++11 ABI."""
    return bool(_C._GLIBCXX_USE_CXX11_ABI)  # noqa: SLF001  (public as far as projects know)


_OLD = {
    "has_cuda": backends.cuda.is_built,
    "has_cudnn": backends.cudnn.is_available,
    "has_mkldnn": backends.mkldnn.is_available,
    "has_mps": backends.mps.is_built,
}
"""What each torch still has, and warns of."""


def __getattr__(name: str) -> object:
    return _OLD[name]() if name in _OLD else lacks(__name__, name)
