"""Machine code on a device of CUDA: loaded and launched by the driver's own interface, without a compiler."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Numbers of cuda.h.
_INVALID_CONTEXT = 201
_STATIC_SHARED = 1
_DYNAMIC_SHARED = 8
_PREFER_SHARED = 1
_USUAL_SHARED = 48 * 1024

_CONFIG = "@IIIIIIIPPI"
"""CUlaunchConfig: grid, block, bytes of shared memory, stream, attributes and how many there are."""

_CODES = "i1=b i8=b i16=h i32=i i64=q u1=B u8=B u16=H u32=I u64=Q fp32=f fp64=d"
_FORMATS = dict(code.split("=") for code in _CODES.split())
"""How `struct` spells Triton's types; those of pointers begin with `*`."""


@functools.cache
def _library() -> ctypes.CDLL:
    """The driver's library, which torch has loaded."""
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    """Raise the driver's own words for an error."""
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorString(code, ctypes.byref(text))
        words = text.value.decode() if text.value else "unknown"
        raise RuntimeError(f"{what}: CUDA error {code}: {words}")


def _use_context(device: int) -> None:
    """Make a device's primary context, which is torch's, current in this thread if no context is."""
    library = _library()
    context, handle = ctypes.c_void_p(), ctypes.c_int()
    if library.cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
        _check(library.cuInit(0), "cuInit")
        _check(library.cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
        _check(library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "cuDevicePrimaryCtxRetain")
        _check(library.cuCtxSetCurrent(context), "cuCtxSetCurrent")


class _Slot(NamedTuple):
    """Memory for the arguments of a launch, and pointers to it that the driver reads.

    Attributes:
        buffer: the configuration of the launch, and the arguments.
        config: where it begins.
        parameters: an array of pointers to the arguments.
    """

    buffer: Any
    config: ctypes.c_void_p
    parameters: Any


def load(device: int, code: bytes, facts: Mapping[str, Any], names: Sequence[str]) -> Callable[..., None] | str:
    """What launches machine code, with a grid, a stream and a value for each parameter; or why it cannot.

    Args:
        device: its number.
        code: a cubin.
        facts: what the compile says of it.
        names: of all parameters of the function.

    Raises:
        RuntimeError: the driver does not take the code.
    """
    if facts["ctas"] != 1 or facts["cooperative"] or facts["pdl"] or facts["scratch"]:
        return "a launch that needs Triton: a cluster, a cooperative grid, dependent launches or scratch memory"
    library = _library()
    _use_context(device)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(library.cuModuleLoadData(ctypes.byref(module), code), f"loading {facts['name']}")
    named = facts["name"].encode()
    _check(library.cuModuleGetFunction(ctypes.byref(function), module, named), f"finding {facts['name']}")
    if facts["shared"] > _USUAL_SHARED:
        what = f"shared memory of {facts['name']}"
        _check(library.cuFuncSetCacheConfig(function, _PREFER_SHARED), what)
        _check(library.cuFuncSetAttribute(function, _DYNAMIC_SHARED, facts["shared"]), what)
    return _launcher(device, function, facts, names)


def _launcher(
    device: int, function: ctypes.c_void_p, facts: Mapping[str, Any], names: Sequence[str]
) -> Callable[..., None]:
    """A function of a grid, a stream and the values, written for the types of the arguments."""
    # Triton adds pointers to memory that this code does not use.
    types = [*(type_ for _, type_ in facts["parameters"]), *["*scratch"] * facts["hidden"]]
    formats = [_CONFIG]
    offsets = []
    for type_ in types:
        code = "P" if type_.startswith("*") else _FORMATS[type_]
        offsets.append(struct.calcsize(f"{''.join(formats)}0{code}"))
        formats.append(code)
    packing = struct.Struct("".join(formats))

    def slot() -> _Slot:
        buffer = ctypes.create_string_buffer(packing.size)
        start = ctypes.addressof(buffer)
        pointers = (ctypes.c_void_p * len(offsets))(*(start + offset for offset in offsets))
        return _Slot(buffer, ctypes.c_void_p(start), pointers)

    positions = {name: f"v{index}" for index, name in enumerate(names)}
    values = ", ".join([*(positions[name] for name, _ in facts["parameters"]), *["0"] * facts["hidden"]])
    # A slot is of one launch at a time: it is taken from the list and put back, also if another thread, or what the
    # garbage collector runs, launches meanwhile.
    text = f"""
def launch(grid, stream, {", ".join(positions.values())}):
    dimensions = len(grid)
    x = grid[0]
    y = grid[1] if dimensions > 1 else 1
    z = grid[2] if dimensions > 2 else 1
    if not x * y * z:
        return
    try:
        free = take()
    except IndexError:
        free = slot()
    buffer, config, parameters = free
    pack_into(buffer, 0, x, y, z, {facts["threads"]}, 1, 1, {facts["shared"]}, stream, 0, 0, {values})
    code = start(config, function, parameters, None)
    if code:
        retry(code, config, parameters)
    put(free)
"""
    begin = _library().cuLaunchKernelEx

    def retry(code: int, config: ctypes.c_void_p, parameters: object) -> None:
        """Launch once more if the thread has had no context."""
        if code == _INVALID_CONTEXT:
            _use_context(device)
            code = begin(config, function, parameters, None)
        _check(code, f"launching {facts['name']}")

    slots = [slot()]
    scope = {
        "function": function,
        "pack_into": packing.pack_into,
        "put": slots.append,
        "retry": retry,
        "slot": slot,
        "start": begin,
        "take": slots.pop,
    }
    exec(text, scope)  # noqa: S102  (names of parameters)
    return cast("Callable[..., None]", scope["launch"])
