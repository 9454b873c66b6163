"""The JSON files that `driver tune --apply` writes for kernels in Triton, in the form of the Hub's kernels.

`configs/N=4096,K=4096,device_name=NVIDIA_H200.json` has the chosen configuration for each value of the varying size:
https://huggingface.co/docs/kernels/builder/triton-autotune. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py_driver.tuning.space import Case, Configuration, Space


def config_files(space: Space, gpu: str, chosen: Mapping[Case, Configuration]) -> dict[str, str]:
    """The files of a GPU: texts by name, one file for all cases that differ only in the key.

    Args:
        space: the tuning space.
        gpu: torch's name of the GPU.
        chosen: the configuration for each case.
    """
    at = space.sizes.index(space.key)
    tables: dict[str, dict[str, dict[str, int]]] = {}
    for case, config in sorted(chosen.items(), key=lambda item: item[0][at]):
        sizes = [f"{name}={value}" for name, value in zip(space.sizes, case, strict=True) if name != space.key]
        name = ",".join([*sizes, f"device_name={gpu.replace(' ', '_')}"])
        tables.setdefault(f"{name}.json", {})[str(case[at])] = space.named(config)
    return {name: json.dumps(table, indent=4) + "\n" for name, table in tables.items()}


def is_of(space: Space, text: str) -> bool:
    """Whether a file has only configurations of a space, so that it may be overwritten."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and all(
        isinstance(config, dict) and config.keys() == {*space.parameters} for config in table.values()
    )
