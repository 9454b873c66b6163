"""Drivers of GPUs, compared with the installed torch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

from py_driver.authoring.device import gpus
from py_driver.authoring.machine_check import RIGHT, UNKNOWN, WRONG, Check

_NAME: Final = "GPU driver"
_NVIDIA: Final = Path("/proc/driver/nvidia/version")
"""A file that NVIDIA's kernel module creates."""

_AMD: Final = Path("/sys/module/amdgpu")
"""A directory that AMD's kernel module creates."""

_COMPUTE: Final = Path("/dev/kfd")
"""The device file through which ROCm runs kernels."""


def check_gpu(facts: dict[str, Any], backend: str) -> Check:
    """Whether the driver of this machine's GPUs supports the toolkit of the installed torch.

    Args:
        facts: the content of doctor.toml.
        backend: the backend of the installed torch, e.g. `cu130`; empty without torch.
    """
    if _AMD.is_dir() and backend.startswith("rocm"):
        return amd_check(_AMD, _COMPUTE, backend)
    if found := gpus():
        return driver_check(str(found[0]["driver"]), str(found[0]["name"]), backend, facts)
    if _NVIDIA.exists() or shutil.which("nvidia-smi"):
        return Check(_NAME, WRONG, "nvidia-smi lists no GPU", "run `nvidia-smi`: it says why")
    if _AMD.is_dir():
        return amd_check(_AMD, _COMPUTE, backend)
    return Check(_NAME, UNKNOWN, "no GPU is found", "builds need none")


def amd_check(module: Path, device: Path, backend: str) -> Check:
    """Whether AMD's driver is usable for ROCm.

    The ROCm releases of a module's version are not documented: AMD's table has names of driver releases, such as
    30.20.1, and the module's file has another number, such as 6.16.6 (github.com/ROCm/rocm-install-on-linux, issue
    684).

    Args:
        module: the directory of the kernel module; a module of Linux itself has no version in it.
        device: the device file of ROCm.
        backend: the backend of the installed torch.
    """
    try:
        version = (module / "version").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        version = ""
    shown = f"amdgpu {version or 'as Linux has it'}"
    if not backend.startswith("rocm"):
        return Check(_NAME, UNKNOWN, shown, "install a torch for ROCm to run kernels on its GPUs")
    if not device.exists():
        return Check(_NAME, WRONG, f"{shown}, without {device}", f"give this machine or container {device}")
    if not os.access(device, os.R_OK | os.W_OK):
        advice = "add yourself to the group `render` and log in again"
        return Check(_NAME, WRONG, f"{shown}; {device} is not accessible", advice)
    advice = f"compare it with AMD's user and kernel-space support matrix for {backend}"
    return Check(_NAME, UNKNOWN, f"{shown}; {device} is accessible", advice)


def driver_check(driver: str, gpu: str, backend: str, facts: dict[str, Any]) -> Check:
    """Whether a driver runs code of a CUDA release.

    Args:
        driver: its version, e.g. `580.65.06`.
        gpu: the name of the GPU.
        backend: the backend of the installed torch, e.g. `cu130`; empty without torch.
        facts: the content of doctor.toml.
    """
    shown = f"{driver} for {gpu}"
    major, _, _ = driver.partition(".")
    needed = facts["drivers"].get(backend[2:-1]) if backend.startswith("cu") else None
    if not major.isdigit():
        return Check(_NAME, UNKNOWN, shown)
    if needed is None:
        runs = max((int(cuda) for cuda, least in facts["drivers"].items() if int(major) >= least), default=0)
        return Check(_NAME, RIGHT if runs else WRONG, f"{shown}, which runs CUDA {runs} and older")
    if int(major) < needed:
        advice = f"install driver {needed} or newer, or a torch for an older CUDA"
        return Check(_NAME, WRONG, f"{shown}, too old for torch's {backend}", advice)
    return Check(_NAME, RIGHT, f"{shown}, which runs torch's {backend}")
