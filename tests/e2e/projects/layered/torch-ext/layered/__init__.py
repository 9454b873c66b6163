"""A package with all that packages may have."""

import importlib
import json
from pathlib import Path

from . import layers, sub
from .layers import Twice
from .sub.deep import LEVEL as _LEVEL

__all__ = ["Layered", "Twice", "layers", "lazy", "twice"]
__version__ = "1.2.3"

LIMITS = json.loads((Path(__file__).parent / "data" / "limits.json").read_text())


class Layered(Twice):
    """A class of the package itself."""

    level = _LEVEL


def twice(x):
    """Two times `x`, by the op: it is imported when it is needed first."""
    from ._op import twice as op

    return op(x)


def __getattr__(name):
    if name == "lazy":
        return importlib.import_module(".lazy", __name__)
    raise AttributeError(f"there is no {name} in {__name__}")


def __dir__():
    return [*__all__, "__version__"]
