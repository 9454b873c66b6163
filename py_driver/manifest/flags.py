"""The compiler flags that a build.toml may have.

A flag is part of an action's key as a string, so it must not name a file, a program or the machine; and the rules
decide archs, outputs, the host compiler and the ABI. The admitted flags are listed. Flags that upstream's builder
accepts, but that have no meaning here, are ignored with a note; all others are refused.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from py_driver.errors import Code
from py_driver.manifest.flag_patterns import (
    ADVICE,
    CPP,
    CUDA,
    FLAGS,
    FORWARDING,
    HIP,
    HOST,
    IGNORED_CUDA,
    IGNORED_CXX,
    IGNORED_HIP,
    LLVM,
    LONE,
    LONG_NAMES,
    MLLVM,
    NO_QUOTES,
    OPENMP_CPP,
    PASSED_ON,
    SPLIT,
    TAKER,
)
from py_driver.manifest.model import values
from py_driver.manifest.openmp import asks_for_openmp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from py_driver.manifest.model import Text, Texts
    from py_driver.manifest.section import Findings


def read_cxx_flags(findings: Findings, flags: Texts) -> Texts:
    """The flags for C++ that are passed on; collects notes for ignored flags, BAD_FLAG for the others.

    The next flag is the value of a flag of `LONE`.
    """
    key = "cxx-flags"
    joined = tuple(_joined(findings, key, flags))
    admitted = OPENMP_CPP if asks_for_openmp(values(joined)) else CPP
    return tuple(flag for flag in joined if _is_passed_on(findings, key, flag, admitted, IGNORED_CXX))


def _joined(findings: Findings, key: str, flags: Texts) -> Iterator[Text]:
    """Flags, those of `LONE` together with their values."""
    for words in _complete(findings, key, flags, LONE.__contains__):
        yield words[0]._replace(value=LONE.get(words[0].value, "").join(values(words)))


def _complete(findings: Findings, key: str, flags: Texts, takes: Callable[[str], bool]) -> Iterator[Texts]:
    """The same as `with_values`; collects BAD_FLAG for a last flag that lacks its value, and leaves it out."""
    for words in with_values(flags, takes):
        if len(words) == 1 and takes(words[0].value):
            findings.add(Code.BAD_FLAG, f"`{words[0].value}` in {key} lacks its value", words[0].span)
        else:
            yield words


def with_values(flags: Texts, takes: Callable[[str], bool]) -> Iterator[Texts]:
    """Flags, each alone or together with the next one if that is its value.

    Args:
        flags: the flags of a compiler.
        takes: whether the next flag is the value of a flag.
    """
    left = iter(flags)
    for flag in left:
        yield (flag, *(islice(left, 1) if takes(flag.value) else ()))


def read_cuda_flags(findings: Findings, flags: Texts) -> Texts:
    """The same for nvcc, some of whose flags have the next one as their value."""
    kept: list[Text] = []
    flags = tuple(flag._replace(value=_short(flag.value)) for flag in flags)
    forwards = any(FORWARDING.fullmatch(flag.value) for flag in flags)
    ignored = (*IGNORED_CUDA, *(IGNORED_CXX if forwards else ()))
    for words in _complete(findings, "cuda-flags", flags, _takes_next):
        first, flag = words[0], words[-1]
        joint = "" if re.fullmatch("-[DUlL]", first.value) else "="
        word = flag._replace(value=joint.join(values(words)))
        name, equals, value = word.value.partition("=")
        if name in PASSED_ON and equals:
            parts = _passed_on_parts(findings, name, flag, value)
            if parts == value:
                kept += words
            elif parts:
                kept.append(flag._replace(value=f"{name}={parts}"))
        elif re.fullmatch("-f(no-)?openmp", word.value) or (forwards and _is_forwarded(word.value)):
            kept.append(flag._replace(value=f"{FLAGS['PASS_ON'][0]}={word.value}"))
        elif len(definitions := _definitions(word.value)) > 1:
            kept += _kept_definitions(findings, word, definitions)
        elif _is_passed_on(findings, "cuda-flags", word, CUDA, ignored, " ".join(values(words))):
            kept += words
    return tuple(kept)


def _short(flag: str) -> str:
    """An option of nvcc by its short name: `-DX=1` for `--define-macro=X=1`.

    nvcc escapes the quotes of a definition for a shell itself, and takes escaped ones as well.
    """
    name, _, value = flag.partition("=")
    short = f"{LONG_NAMES[name]}{value}" if name in LONG_NAMES else flag
    return re.sub(r'(?<!\\)\\"', '"', short) if short.startswith("-D") else short


def _is_forwarded(flag: str) -> bool:
    """Whether nvcc, if it forwards unknown options, passes an option to the host compiler alone."""
    return "," not in flag and not _matches(CUDA, flag) and _matches(HOST, flag)


def _takes_next(flag: str) -> bool:
    """Whether the next flag is the value of an option of nvcc."""
    return flag in PASSED_ON or re.fullmatch(TAKER, flag) is not None


def _definitions(flag: str) -> list[str]:
    """The definitions in a -D or -U of nvcc, which splits only at commas outside of double quotes."""
    if flag[:2] not in {"-D", "-U"}:
        return []
    parts = re.findall(r"""(?:"[^"]*"|[^,])+""", flag[2:])
    return [flag[:2] + part.strip() for part in parts if part.strip()]


def _kept_definitions(findings: Findings, flag: Text, definitions: Sequence[str]) -> Iterator[Text]:
    """The definitions of a flag that are passed on, each as a separate flag; collects errors about the others."""
    bad = []
    for definition in definitions:
        if _matches(CUDA, definition):
            yield flag._replace(value=definition)
        elif why := _why_ignored(IGNORED_CUDA, definition):
            _note_ignored(findings, "cuda-flags", flag, definition, why)
        else:
            bad.append(definition)
    if bad:
        _refuse(findings, "cuda-flags", flag, bad)


def _passed_on_parts(findings: Findings, name: str, flag: Text, value: str) -> str:
    """The flag with the part of its value that nvcc's option `name` passes on; empty if nothing remains."""
    ignored = IGNORED_CXX if PASSED_ON[name] is HOST else ()
    bad, left = [], []
    for part in re.split(r"[,\s]+", value.strip()):
        if not re.search(SPLIT, part) and _matches(PASSED_ON[name], part):
            left.append(part)
        elif why := _why_ignored(ignored, part):
            _note_ignored(findings, "cuda-flags", flag, part, why)
        else:
            bad.append(part)
    if bad:
        _refuse(findings, "cuda-flags", flag, bad)
    return ",".join(left)


def read_hip_flags(findings: Findings, flags: Texts) -> Texts:
    """The same for HIP; the next flag is also the value of `-mllvm`."""
    kept: list[Text] = []
    for words in _complete(findings, "hip-flags", tuple(_joined(findings, "hip-flags", flags)), MLLVM.__eq__):
        flag = words[-1]
        if words[0].value != MLLVM:
            kept += words if _is_passed_on(findings, "hip-flags", flag, HIP, IGNORED_HIP) else ()
        elif re.fullmatch(LLVM, flag.value, re.ASCII):
            kept += words
        else:
            _refuse(findings, "hip-flags", flag, [flag.value])
    return tuple(kept)


def _is_passed_on(  # noqa: PLR0913  (its position, and the patterns)
    findings: Findings,
    key: str,
    flag: Text,
    admitted: Mapping[str, str],
    ignored: Sequence[tuple[str, str]],
    spelled: str = "",
) -> bool:
    """Whether a flag, possibly `spelled` differently, is passed on; collects a note if it is ignored, else BAD_FLAG."""
    if _matches(admitted, flag.value):
        return True
    spelled = spelled or flag.value
    if why := _why_ignored(ignored, flag.value):
        _note_ignored(findings, key, flag, spelled, why)
    else:
        _refuse(findings, key, flag._replace(value=spelled), [flag.value])
    return False


def _why_ignored(ignored: Sequence[tuple[str, str]], flag: str) -> str:
    """Why a flag has no meaning here; "" if it is not ignored."""
    return next((why for pattern, why in ignored if re.fullmatch(pattern, flag, re.ASCII)), "")


def _note_ignored(findings: Findings, key: str, flag: Text, part: str, why: str) -> None:
    findings.note(f"the flag `{part}` in {key} is ignored: {why}", flag.span, Code.BAD_FLAG)


def _matches(patterns: Mapping[str, str], flag: str) -> bool:
    return re.fullmatch(patterns.get(flag[:2], patterns[""]), flag, re.ASCII) is not None


def _refuse(findings: Findings, key: str, flag: Text, parts: Sequence[str]) -> None:
    """Collect BAD_FLAG for a flag, with help for its first part that has a help."""
    advice = next((advice for part in parts for pattern, advice in ADVICE if re.match(pattern, part)), "")
    if any(re.search(SPLIT, part) for part in parts) and key == "cuda-flags" and not flag.value.startswith("-D"):
        advice = NO_QUOTES
    findings.add(Code.BAD_FLAG, f"the flag `{flag.value}` is not admitted in {key}", flag.span, advice=advice)
