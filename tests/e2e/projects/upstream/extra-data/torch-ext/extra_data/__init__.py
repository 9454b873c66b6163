import json
from pathlib import Path

import torch

from ._ops import ops

EXTRA = json.loads((Path(__file__).parent / "extra.json").read_text())


def relu(x):
    out = torch.empty_like(x)
    ops.relu(out, x)
    return out
