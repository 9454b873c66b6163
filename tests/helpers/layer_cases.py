"""Valid and invalid texts of layers, to compare `driver check` with the `kernels` client."""

from __future__ import annotations

from typing import NamedTuple

_FLAGS = "    can_torch_compile = True\n    has_backward = True\n"
_FORWARD = "    def forward(self, x):\n        return x\n"
_INIT = "    def __init__(self):\n        super().__init__()\n"
_REPR = "    def extra_repr(self):\n        return ''\n"


class Case(NamedTuple):
    """The text of a class `L`, whether `kernelize` rejects it, and a part of each note."""

    text: str
    refused: bool
    notes: tuple[str, ...]


CASES = {
    "right": Case(f"class L(nn.Module):\n{_FLAGS}{_FORWARD}", refused=False, notes=()),
    "annotated": Case(f"class L(nn.Module):\n    weight: torch.Tensor\n{_FLAGS}{_FORWARD}", refused=False, notes=()),
    "own-name-of-torch": Case(f"class L(nn.Module):\n{_FLAGS}{_FORWARD}{_REPR}", refused=False, notes=()),
    "derived": Case(f"class _B(nn.Module):\n{_FLAGS}\nclass L(_B):\n{_FORWARD}", refused=False, notes=()),
    "no-flags": Case(
        f"class L(nn.Module):\n{_FORWARD}", refused=False, notes=("no `can_torch_compile`", "no `has_backward`")
    ),
    "computed-flag": Case(
        f"class L(nn.Module):\n    can_torch_compile = bool(1)\n    has_backward = False\n{_FORWARD}",
        refused=False,
        notes=("not plainly True or False",),
    ),
    "no-forward": Case(f"class L(nn.Module):\n{_FLAGS}", refused=True, notes=("has no `forward`",)),
    "constructor": Case(
        f"class L(nn.Module):\n{_FLAGS}{_INIT}{_FORWARD}",
        refused=True,
        notes=("a layer has no state",),
    ),
    "constructor-of-base": Case(
        f"class _B(nn.Module):\n{_FLAGS}{_INIT}\nclass L(_B):\n{_FORWARD}",
        refused=True,
        notes=("a layer has no state",),
    ),
    "torch-layer": Case(f"class L(nn.Linear):\n{_FLAGS}{_FORWARD}", refused=True, notes=("has a constructor",)),
    "method": Case(
        f"class L(nn.Module):\n{_FLAGS}{_FORWARD}    def more(self):\n        return 1\n",
        refused=True,
        notes=("not `more`",),
    ),
    "constant": Case(f"class L(nn.Module):\n{_FLAGS}    eps = 1e-5\n{_FORWARD}", refused=True, notes=("not `eps`",)),
    "no-layer": Case(f"class L:\n{_FLAGS}{_FORWARD}", refused=True, notes=("derive it from `torch.nn.Module`",)),
}

HEAD = "import torch\nfrom torch import nn\n\n"
