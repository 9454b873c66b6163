"""A file of candidates, one JSON object on each line: read, and checked completely."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py_driver.errors import Code, Diagnostic, DriverError, Span
from py_driver.extensions.flags import is_device
from py_driver.matrix.facts import facts
from py_driver.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_NAME: Final = "candidate"
"""The default module of a candidate."""

_FILE: Final = re.compile(r"(?=.{1,200}$)\w[\w.-]*\.\w+", re.ASCII)
"""The pattern of a further file's name: short enough for a file system, and for the files that are written beside
it."""

_TAKEN: Final = ("main.cpp", "cuda.cu")
"""The files for `cpp_sources` and `cuda_sources`."""

_LITERALS: Final = (bool, int, float, str, type(None))


class Candidate(NamedTuple):
    """A candidate.

    Attributes:
        id: its author's id.
        line: its line in the file.
        arguments: the arguments of `rules_torch_kernels.cpp_extension.inline_of`.
        files: further sources and headers, by name.
        is_module: whether Python imports it; otherwise it registers ops.
        check: the inputs of its judgement, see `rules_torch_kernels.judging`; empty if it is only built.
    """

    id: str
    line: int
    arguments: Mapping[str, Any]
    files: Mapping[str, str]
    is_module: bool
    check: Mapping[str, Any]


class _Kind(NamedTuple):
    """A type of a value."""

    words: str
    fits: Callable[[object], bool]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: object) -> bool:
    docs = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return isinstance(value, str) or _is_texts(value) or docs


def _is_files(value: object) -> bool:
    return isinstance(value, dict) and all(
        _FILE.fullmatch(name) is not None and name not in _TAKEN and isinstance(text, str)
        for name, text in value.items()
    )


def is_source(name: str) -> bool:
    """Whether a file is compiled; other files are headers.

    Args:
        name: the name of the file.
    """
    return name.endswith(tuple(f".{extension}" for extension in facts("backends")["CXX_EXTENSIONS"])) or is_device(
        name, "cuda"
    )


def _is_tolerance(value: object) -> bool:
    pairs = value.items() if isinstance(value, dict) else ()
    numbers = [(number, key in {"rtol", "atol"}) for key, number in pairs] or [(value, True)]
    return all(known and _is_number(number) and number >= 0 for number, known in numbers)


def _is_inputs(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(map(_is_input, value)))


def _is_input(value: object) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, _LITERALS)
    shape = value.get("shape")
    sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    ends = all(_is_number(value.get(name, 0)) for name in ("low", "high"))
    return sizes and ends and isinstance(value.get("dtype", ""), str) and value.keys() <= _TENSOR


_TENSOR: Final = {"shape", "dtype", "low", "high"}
_TEXT: Final = _Kind("a text", lambda value: isinstance(value, str))
_TEXTS: Final = _Kind("a list of texts", _is_texts)
_SOURCES: Final = _Kind("a text or a list of texts", lambda value: isinstance(value, str) or _is_texts(value))
_FLAG: Final = _Kind("true or false", lambda value: isinstance(value, bool))
_ARGUMENTS: Final = {
    "name": _TEXT,
    "cpp_sources": _SOURCES,
    "cuda_sources": _SOURCES,
    "functions": _Kind("a name, a list of names, or an object of names and docs", _is_names),
    "extra_cflags": _TEXTS,
    "extra_cuda_cflags": _TEXTS,
    "extra_ldflags": _TEXTS,
    "extra_include_paths": _TEXTS,
    "with_cuda": _FLAG,
    "no_implicit_headers": _FLAG,
}
_CHECK: Final = {
    "call": _TEXT,
    "inputs": _Kind("code, or a list of tensors (`shape`, `dtype`, `low`, `high`) and plain values", _is_inputs),
    "reference": _TEXT,
    "tolerance": _Kind("a number from 0, or an object with `rtol` and `atol`", _is_tolerance),
    "seed": _Kind("a whole number from 0", lambda value: type(value) is int and value >= 0),
}
_OTHER: Final = {
    "id": _TEXT,
    "files": _Kind(
        "an object of names (such as `kernel.cu`, up to 200 letters, digits, `_`, `.`, `-`) and texts", _is_files
    ),
    "is_python_module": _FLAG,
}
_KEYS: Final = {**_OTHER, **_ARGUMENTS, **_CHECK}


def read_candidates(text: str, file: str) -> list[Candidate]:
    """The candidates of a file, in order; blank lines are ignored.

    Args:
        text: the text of the file.
        file: its path for messages.

    Raises:
        DriverError: all its errors: BAD_VALUE, WRONG_TYPE, UNKNOWN_KEY, MISSING_KEY, UNSUPPORTED.
    """
    found: list[Candidate] = []
    faults: list[Diagnostic] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        value, wrong = _read(line)
        wrong = wrong or [*_wrong(value)]
        if not wrong and (first := lines.setdefault(value["id"], number)) != number:
            wrong = [_Fault(Code.BAD_VALUE, f"the id `{value['id']}` is that of line {first}, too")]
        faults += [
            Diagnostic(fault.code, fault.message, Span(file, number, fault.column), help=fault.advice)
            for fault in wrong
        ]
        if not wrong:
            found.append(_candidate(value, number))
    if not found and not faults:
        faults = [Diagnostic(Code.MISSING_KEY, "there is no candidate", Span(file, 1, 1))]
    if faults:
        raise DriverError(faults)
    return found


class _Fault(NamedTuple):
    """An error in a line."""

    code: Code
    message: str
    advice: str = ""
    column: int = 1


def _read(line: str) -> tuple[dict[str, Any], list[_Fault]]:
    """The object of a line, or its error."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
        odd = next((found[0] for text in _texts_in(value) if (found := _NO_TEXT.search(text))), "")
    except json.JSONDecodeError as problem:
        message = f"this is not JSON: {problem.msg[0].lower()}{problem.msg[1:]}"
        return {}, [_Fault(Code.BAD_VALUE, message, "a candidate is one line", problem.colno)]
    except (ValueError, RecursionError) as problem:
        return {}, [_Fault(Code.BAD_VALUE, f"this is not JSON: {problem}")]
    if not isinstance(value, dict):
        return {}, [_Fault(Code.WRONG_TYPE, "a candidate is an object: `{...}`")]
    if odd:
        message = f"a text has U+{ord(odd):04X}, which no file or command line can have"
        return {}, [_Fault(Code.BAD_VALUE, message, "remove the character")]
    return value, []


_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
"""NUL, and halves of a character in UTF-16."""


def _texts_in(value: object) -> Iterator[str]:
    """All texts in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts_in(part)


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object with unique keys."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key `{key}`")
        found[key] = value
    return found


def _wrong(value: Mapping[str, Any]) -> Iterable[_Fault]:
    """The errors of an object."""
    for key, part in value.items():
        if key not in _KEYS:
            advice = did_you_mean(key, _KEYS) or f"known are {', '.join(_KEYS)}"
            yield _Fault(Code.UNKNOWN_KEY, f"`{key}` is not a key of a candidate", advice)
        elif not _KEYS[key].fits(part):
            yield _Fault(Code.WRONG_TYPE, f"`{key}` is not {_KEYS[key].words}")
    if "id" not in value:
        yield _Fault(Code.MISSING_KEY, "`id` is missing", "each candidate has one of its own")
    files = value.get("files", {})
    sources = [name for name in files if is_source(name)] if isinstance(files, dict) else [files]
    if not value.get("cpp_sources") and not value.get("cuda_sources") and not sources:
        advice = "`cpp_sources`, `cuda_sources` or `files` has the text"
        yield _Fault(Code.MISSING_KEY, "there is no source", advice)
    checked = [key for key in _CHECK if key in value]
    missing = [key for key in ("inputs", "reference") if key not in value]
    if checked and missing:
        advice = "a candidate is judged by `inputs` and `reference`, and only built without any such key"
        yield _Fault(Code.MISSING_KEY, f"`{checked[0]}` is there, and `{missing[0]}` is missing", advice)
    elif checked and "call" not in value and _is_names(value.get("functions", [])) and len(_functions(value)) != 1:
        yield _Fault(Code.MISSING_KEY, "`call` is missing", "name the function to judge; `functions` has not just one")


def _functions(value: Mapping[str, Any]) -> list[str]:
    """The names in `functions`."""
    functions = value.get("functions", ())
    return [functions] if isinstance(functions, str) else [*functions] if isinstance(functions, list | dict) else []


def _candidate(value: Mapping[str, Any], line: int) -> Candidate:
    """The candidate of a valid object."""
    check = {key: value[key] for key in _CHECK if key in value}
    if check and "call" not in check:
        [check["call"]] = _functions(value)
    return Candidate(
        id=value["id"],
        line=line,
        arguments={"name": _NAME, **{key: value[key] for key in _ARGUMENTS if key in value}},
        files=value.get("files", {}),
        is_module=value.get("is_python_module", True),
        check=check,
    )
