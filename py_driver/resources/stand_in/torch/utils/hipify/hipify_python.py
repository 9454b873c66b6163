"""The translation of CUDA to HIP: the build does that, file by file, and no setup.py."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._facts import Refused, lacks


def hipify(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401  (torch's own)
    """Translate the files of a project."""
    del args, kwargs
    raise Refused("`torch.utils.hipify` translates sources while setup.py runs")


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
