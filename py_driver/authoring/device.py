"""This machine's equipment for kernels: GPUs, their capabilities, the installed torch, and tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import tomli

from py_driver.resources import resource
from py_driver.system.environment import curated

_QUERY: Final = {
    "name": "name",
    "capability": "compute_cap",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "max_clock_mhz": "clocks.max.sm",
    "max_memory_clock_mhz": "clocks.max.mem",
    "power_limit_w": "power.limit",
    "throttled_by": "clocks_event_reasons.active",
}
"""The queries of nvidia-smi, by the driver's name."""

_TOOLS: Final = {
    "ncu": "profiles kernels",
    "nsys": "records time lines",
    "compute-sanitizer": "finds wrong accesses and races",
    "cuda-gdb": "stops in kernels",
    "cuobjdump": "shows code",
    "nvidia-smi": "asks the driver",
    "rocminfo": "queries the driver of AMD GPUs",
}
_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_PATIENCE: Final = 60

_THROTTLES: Final = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Reasons for lower clocks that make times incomparable, by their bits in `clocks_event_reasons.active` (nvml.h)."""


def gpus() -> list[dict[str, Any]]:
    """The facts about each NVIDIA GPU of this machine; empty without a driver."""
    facts = tomli.loads(resource("gpus.toml"))
    found = []
    for line in _said(
        "nvidia-smi", f"--query-gpu={','.join(_QUERY.values())}", "--format=csv,noheader,nounits"
    ).splitlines():
        values = dict(zip(_QUERY, (part.strip() for part in line.split(",")), strict=False))
        if not re.fullmatch(r"\d+\.\d", values.get("capability", "")):
            continue
        gpu: dict[str, Any] = {key: _number(value) for key, value in values.items()}
        gpu["capability"] = values["capability"]
        gpu["throttled_by"] = throttled_by(values.get("throttled_by", ""))
        can = facts["capability"].get(values["capability"], {})
        gpu["architecture"] = can.get("name", "")
        gpu["registers_per_multiprocessor"] = can.get("registers")
        gpu["shared_kib"] = can.get("shared-kib", [])
        gpu["note"] = can.get("note", "")
        gpu["instructions"] = {
            family: {"types": can["types"].get(family, []), "what": facts["families"][family]["what"]}
            for family in can.get("families", ())
        }
        found.append(gpu)
    return found


def throttled_by(bits: str) -> list[str]:
    """The reasons for reduced clocks, from nvidia-smi's bit field.

    Args:
        bits: the field, e.g. `0x0000000000000004`.
    """
    try:
        value = int(bits, 16)
    except ValueError:
        return []
    return [reason for bit, reason in _THROTTLES.items() if value & bit]


def tools() -> dict[str, dict[str, str]]:
    """The tools on PATH, each with its path and version; the version is empty if the tool does not report one."""
    found = {}
    for name, use in _TOOLS.items():
        if path := shutil.which(name):
            version = re.search(r"\d+(?:\.\d+)+", _said(name, "--version"))
            found[name] = {"path": path, "version": version[0] if version else "", "use": use}
    return found


def counters() -> str:
    """Who may read the GPU's performance counters: `everyone`, `root`, or an empty text if unknown."""
    try:
        text = _PARAMETERS.read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^RmProfilingAdminOnly: (\d)", text, re.MULTILINE)
    if not found:
        return ""
    return "root" if found[1] == "1" else "everyone"


def may_count() -> bool:
    """Whether this process may read the GPU's performance counters."""
    return counters() == "everyone" or (counters() == "root" and os.geteuid() == 0)


def _number(value: str) -> Any:  # noqa: ANN401  (a number if it is one)
    return float(value) if re.fullmatch(r"\d+\.\d+", value) else int(value) if value.isdigit() else value


def _said(*command: str) -> str:
    """The output of a program; empty if it is missing or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=curated(), timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if not done.returncode else ""
