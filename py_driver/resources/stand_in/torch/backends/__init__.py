"""Which backends torch was compiled with."""

from __future__ import annotations

from torch import version
from torch._facts import FACTS, lacks


class _Backend:
    """A backend that is there, or is not."""

    def __init__(self, name: str, *, there: bool) -> None:
        self._name = f"{__name__}.{name}"
        self._there = there

    def is_available(self) -> bool:
        """Whether it can be used."""
        return self._there

    def is_built(self) -> bool:
        """Whether torch has it."""
        return self._there

    def __getattr__(self, name: str) -> object:
        return lacks(self._name, name)


_GPU = version.cuda is not None or version.hip is not None

cuda = _Backend("cuda", there=_GPU)
cudnn = _Backend("cudnn", there=_GPU)
mps = _Backend("mps", there=False)
mkl = _Backend("mkl", there=True)
mkldnn = _Backend("mkldnn", there=True)
openmp = _Backend("openmp", there=FACTS["openmp"])
xeon = _Backend("xeon", there=False)


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
