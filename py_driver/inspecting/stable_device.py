"""CUDA's device guards and streams, rewritten for torch's stable ABI."""

from __future__ import annotations

import re
from typing import Final

from py_driver.inspecting.cpp_operands import calls
from py_driver.plan.cpp_text import masked

_GUARD: Final = re.compile(r"\b(?:at|c10)::cuda::(?:Optional)?CUDAGuard\s+\w+\s*[({]")
_GUARD_NAME: Final = "torch::stable::accelerator::DeviceGuard"
_STREAM: Final = re.compile(r"(?<![\w:])(?:::)?(?:at|c10)::cuda::getCurrentCUDAStream\s*\(")
_CURRENT: Final = "torch::stable::accelerator::getCurrentDeviceIndex()"
_NAMED: Final = re.compile(r"\bauto\s*&?&?\s*(\w+)\s*=\s*\Z")


def _index(argument: str) -> str | None:
    """The device index in a guard's argument."""
    found = re.fullmatch(r"(.+)(\.|->)device\(\)", argument, re.DOTALL)
    of_tensor = re.fullmatch(r"(?:at::)?device_of\((\w+)\)", argument)
    if found:
        return f"{found[1]}{found[2]}get_device_index()"
    if of_tensor:
        return f"{of_tensor[1]}.get_device_index()"
    return argument if re.fullmatch(r"\d+|\w+(?:\.|->)(?:get_device|device\(\)\.index)\(\)", argument) else None


def rewrite_guards(text: str) -> str:
    """A text with guards of the stable ABI, where the device is a tensor's or an index."""
    for found, close, parts in calls(text, _GUARD):
        index = _index(parts[0]) if len(parts) == 1 else None
        if index:
            name = re.sub(r"\b(?:at|c10)::cuda::(?:Optional)?CUDAGuard", _GUARD_NAME, found[0])
            name = f"{name[:-1]}("
            text = f"{text[: found.start()]}{name}{index}){text[close + 1 :]}"
    return text


def rewrite_streams(text: str) -> str:
    """A text that gets the current stream from the C function of the stable ABI."""
    for found, close, parts in calls(text, _STREAM):
        if len(parts) <= 1:
            behind = re.compile(r"\s*\.\s*stream\(\)").match(text, close + 1)
            device = (_index(parts[0]) or parts[0]) if parts else _CURRENT
            new = (
                "[&] { void* stable_stream = nullptr; "
                f"TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream({device}, &stable_stream)); "
                "return static_cast<cudaStream_t>(stable_stream); }()"
            )
            rest = text[(behind.end() if behind else close + 1) :]
            name = _NAMED.search(masked(text), 0, found.start())
            text = text[: found.start()] + new + (_with_handle(rest, name[1]) if name and not behind else rest)
    return text


def _with_handle(rest: str, name: str) -> str:
    """The rest of a block behind the declaration of a stream, which is now CUDA's handle."""
    plain = masked(rest)
    depth, end = 0, len(plain)
    for index, letter in enumerate(plain):
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            end = index
            break
    calls = reversed([*re.finditer(rf"(?<![\w.>:]){name}\s*\.\s*stream\(\)", plain[:end])])
    for call in calls:
        rest = f"{rest[: call.start()]}{name}{rest[call.end() :]}"
    return rest
