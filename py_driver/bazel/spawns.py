"""The processes of a build, from the execution log that Bazel writes.

The log is binary, in the order in which processes end: for a text log, most of the time goes into formatting and
sorting the inputs, of which little is needed here.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_REMOTE = "remote"
"""Bazel's name of the runner of a process on an executor."""

_DEDUPLICATED = "deduplicated"
"""Bazel's name of the runner of a process that waited for an equal one, whose time its record repeats."""

# Numbers of fields in Bazel's src/main/protobuf/spawn.proto (7.7.1): of SpawnExec, ...
_ARGUMENTS, _ENVIRONMENT, _INPUTS = 1, 2, 4
_LISTED_OUTPUTS, _MNEMONIC, _ACTUAL_OUTPUTS, _RUNNER, _CACHE_HIT, _DIGEST, _METRICS = 5, 10, 11, 12, 13, 19, 20
_EXIT_CODE = 15
# ... of EnvironmentVariable,
_NAME, _VALUE = 1, 2
# ... of File, of Digest, of SpawnMetrics, and of google.protobuf.Duration and Timestamp.
_PATH, _FILE_DIGEST = 1, 2
_HASH = 1
_TOTAL_TIME, _FETCH_TIME, _START_TIME = 1, 4, 20
_WORKER_TIMES = (6, 8, 9)  # its inputs, itself, its outputs
_SECONDS, _NANOSECONDS = 1, 2

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types (protocol buffers, encoding)."""

_MORE = 0x80
"""The continuation bit of a byte of a number."""


_REPOSITORY = re.compile(r"(?:bazel-out/[^/]+/bin/)?external/([^/]+)/")
_OUTPUT = re.compile(r"bazel-out/[^/]+/bin/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """The call of a process, and its inputs.

    Attributes:
        command: program and arguments.
        environment: its variables.
        inputs: the SHA-256 of each file by path; an external repository counts as one file, with a shorter digest.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spawn:
    """A process in Bazel's log.

    Attributes:
        mnemonic: its action's mnemonic, e.g. `KernelLink`.
        key: the digest of command and inputs, equal for equal processes; empty if Bazel names none.
        runner: the runner or the cache, e.g. `linux-sandbox`, `disk cache hit`.
        seconds: its duration, on an executor only the worker's; None if it did not run.
        start: its start in seconds of Unix time; None if it did not run, or Bazel does not report it.
        outputs: the SHA-256 of each output by path, or an empty digest if Bazel names none; empty if it failed.
        call: its call; None if not requested.
    """

    mnemonic: str = ""
    key: str = ""
    runner: str = ""
    seconds: float | None = None
    start: float | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    call: Call | None = None


def without_configuration(path: str) -> str:
    """The path of an output in `Call.inputs`: without the directory of its configuration."""
    return _OUTPUT.sub("", path)


_LOG = "--execution_log_binary_file="


def options(log: Path) -> list[str]:
    """Bazel's options for the log."""
    return [f"{_LOG}{log}", "--noexecution_log_sort"]


def keep_log(args: Iterable[str], tried: int) -> None:
    """Save the log of a call of Bazel for `read_spawns`: the next call writes a new file.

    Args:
        args: the arguments of the call.
        tried: the number of logs of the build that were saved before.
    """
    for log in (Path(arg.removeprefix(_LOG)) for arg in args if arg.startswith(_LOG)):
        with suppress(FileNotFoundError):
            log.replace(f"{log}.{tried}")


def read_spawns(log: Path, *, calls: bool = False) -> Iterator[Spawn]:
    """The processes in a log, one in memory at a time, without an incomplete last record.

    Args:
        log: the log, the last one of a build with retries.
        calls: whether to include their calls, which takes much longer.
    """
    for part in [*sorted(log.parent.glob(f"{log.name}.[0-9]*")), log]:
        yield from _read(part, calls=calls)


def _read(log: Path, *, calls: bool) -> Iterator[Spawn]:
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return
    with file:
        while (size := _size(file)) is not None and len(content := file.read(size)) == size:
            spawn = _spawn(content)
            yield replace(spawn, call=_call(content)) if calls else spawn


def _size(file: IO[bytes]) -> int | None:
    """The length of the next record; None at the end."""
    number = bytearray()
    while byte := file.read(1):
        number += byte
        if byte[0] < _MORE:
            return _varint(number, 0)[0]
    return None


def _spawn(content: bytes) -> Spawn:
    texts = {_MNEMONIC: "", _RUNNER: ""}
    outputs: dict[str, str] = {}
    listed: list[str] = []
    key, hit, failed, seconds, start = "", False, False, 0.0, None
    metrics = slice(0, 0)
    for number, value in _fields(content, 0, len(content)):
        if isinstance(value, int):
            hit = bool(value) if number == _CACHE_HIT else hit
            failed = bool(value) if number == _EXIT_CODE else failed
        elif number in texts:
            texts[number] = _text(content, value)
        elif number == _LISTED_OUTPUTS:
            listed.append(_text(content, value))
        elif number == _ACTUAL_OUTPUTS:
            outputs[_string(content, value, _PATH)] = _string(content, value, _FILE_DIGEST, _HASH)
        elif number == _DIGEST:
            key = _string(content, value, _HASH)
        elif number == _METRICS:
            metrics = value
            seconds = _seconds(content, value, _TOTAL_TIME) or 0.0
            start = _seconds(content, value, _START_TIME)
    worker = sum(_seconds(content, metrics, number) or 0.0 for number in _WORKER_TIMES)
    if texts[_RUNNER] == _REMOTE and 0.0 < worker <= seconds:
        # Before these times, Bazel sends inputs and the action waits for a worker; after them, Bazel fetches outputs.
        before = max(seconds - worker - (_seconds(content, metrics, _FETCH_TIME) or 0.0), 0.0)
        seconds, start = worker, None if start is None else start + before
    again = hit or texts[_RUNNER] == _DEDUPLICATED
    return Spawn(
        mnemonic=texts[_MNEMONIC],
        key=key,
        runner=texts[_RUNNER],
        seconds=None if again else seconds,
        start=None if again else start,
        outputs={} if failed else {**dict.fromkeys(listed, ""), **outputs},
    )


def _call(content: bytes) -> Call:
    command: list[str] = []
    environment: dict[str, str] = {}
    inputs: dict[str, str] = {}
    repositories: dict[str, Any] = {}
    for number, value in _fields(content, 0, len(content)):
        if isinstance(value, int):
            continue
        if number == _ARGUMENTS:
            command.append(_text(content, value))
        elif number == _ENVIRONMENT:
            environment[_string(content, value, _NAME)] = _string(content, value, _VALUE)
        elif number == _INPUTS:
            path = _string(content, value, _PATH)
            if external := _REPOSITORY.match(path):
                repositories.setdefault(external[1], hashlib.sha256()).update(content[value])
            else:
                inputs[without_configuration(path)] = _string(content, value, _FILE_DIGEST, _HASH)
    inputs |= {name: digest.hexdigest()[:20] for name, digest in repositories.items()}
    return Call(command=tuple(command), environment=environment, inputs=inputs)


def _fields(content: bytes, at: int, end: int) -> Iterator[tuple[int, int | slice]]:
    """The fields of a message: the number, and the value or its range in the content."""
    while at < end:
        tag, at = _varint(content, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield tag >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _BYTES:
            size, at = _varint(content, at)
        yield tag >> 3, slice(at, at + size)
        at += size


def _varint(content: bytes | bytearray, at: int) -> tuple[int, int]:
    """A number of variable length, and the offset behind it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7


def _text(content: bytes, span: slice) -> str:
    return content[span].decode(errors="replace")


def _part(content: bytes, span: slice, number: int) -> slice | None:
    """The range of the last field with a number in a message."""
    found = None
    for own, value in _fields(content, span.start, span.stop):
        if own == number and isinstance(value, slice):
            found = value
    return found


def _string(content: bytes, span: slice, *way: int) -> str:
    """A text in a message, or in a nested one; empty if absent."""
    for number in way:
        inner = _part(content, span, number)
        if inner is None:
            return ""
        span = inner
    return _text(content, span)


def _seconds(content: bytes, metrics: slice, number: int) -> float | None:
    """A duration or a point in time; None if absent."""
    span = _part(content, metrics, number)
    if span is None:
        return None
    parts = {own: value for own, value in _fields(content, span.start, span.stop) if isinstance(value, int)}
    return parts.get(_SECONDS, 0) + parts.get(_NANOSECONDS, 0) / 1e9
