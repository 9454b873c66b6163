"""Turn CUDA into HIP with torch's own hipify: the sources of a kernel section, or the headers of a torch wheel.

    python3 -I -S hipify.py sources MODULE OUT REPORT [-I DIRECTORY]... [-s SOURCE]... [-f NAME FILE]...
    python3 -I -S hipify.py headers MODULE INCLUDE

`sources` copies each FILE to OUT/NAME and rewrites it as `torch.utils.cpp_extension` does for a ROCm build of torch,
except for replacements that change the meaning of a text: see `_keep_meaning`. A rewritten file stands beside its
original under hipify's name for it; a SOURCE always exists under that name, even if it is unchanged. REPORT is JSON:
for each file its new name, how often each name was replaced, and the remaining names that look like CUDA's, each with
its first line. They get a warning, and so does a result with a bit for each of 64 lanes of which the code keeps 32
bits. `#line` in rewritten files refers to FILE's lines.

`headers` rewrites the headers of a CUDA build of torch in place, as tools/amd_build/build_amd.py of pytorch/pytorch
rewrites the sources of a ROCm build. torch's `hip` headers then stand where a ROCm build has them. Only releases from
2.11 on are supported: before that, a ROCm build also has hand-written headers.

MODULE is the directory that contains torch's package `hipify`. Uses the standard library alone; an action runs
`sources`.
"""

from __future__ import annotations

import argparse
import bisect
import codecs
import contextlib
import importlib
import io
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Names of CUDA's libraries that no header of torch or HIP defines for a ROCm build.
_CUDA_NAME = re.compile(
    r"\b(?:cuda[A-Z]\w*|cu[A-Z][a-z]\w*|cu(?:blas|sparse|solver|fft|rand|dnn)(?:Lt)?[A-Z_]\w*|nv(?:rtc|tx|jitlink)\w*"
    r"|__nv_\w+|CU(?:DA_(?:SUCCESS|ERROR)|_)\w*)\b"
)
_NO_CODE = re.compile(
    r"(?P<header>^[ \t]*#[ \t]*include[^\n]*|\b__has_include\s*\(\s*\"[^\"\n]*\")"
    r"|//(?:[^\\\n]|\\[\s\S])*|/\*[\s\S]*?(?:\*/|\Z)"
    r'|(?P<data>(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)'
    r"|\"(?:[^\"\\\n]|\\[\s\S])*\"|(?<!\w)(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')",
    re.MULTILINE,
)
"""Text that is not code: names of headers, comments, and strings, which are data."""

_LOOKED_UP = re.compile(r"\b(?:nvrtc\w+|dlsym|cuGetProcAddress\w*|cudaGetDriverEntryPoint\w*)\b")
"""Calls that read names and code from strings, so that strings are rewritten too."""

_COMMON_NAMES = ("MAJOR_VERSION", "MINOR_VERSION", "PATCH_LEVEL")
"""CUDA names that authors use for their own macros, which a flag defines, such as `-DMAJOR_VERSION=2`."""

_CALL = r"\s*(?P<call>__(?:ballot(?:_sync)?|activemask|match_(?:any|all)(?:_sync)?))\s*\("
"""A call whose result has a bit for each of 64 lanes."""

_HALF = r"(?<!\w)(?:unsigned(?:[ \t]+int)?|int|u?int32_t)"
"""A type of 32 bits."""

_LANES = re.compile(
    rf"(?:{_HALF}(?:[ \t]+const)?[ \t]+\w+\s*[={{(]|\b__(?:popc|ffs|clz|brev)\s*\("
    rf"|\(\s*{_HALF}\s*\)|<\s*{_HALF}\s*>\s*\(|{_HALF}\s*[({{]"
    rf"|{_HALF}\s+\w+\s*\([^;{{}}()]*\)\s*\{{[^;{{}}]*\breturn\b){_CALL}"
)
"""A result with a bit for each of 64 lanes, of which the code keeps 32 bits."""

_KEPT = re.compile(rf"(?<![\w.>])(?P<name>\w+)\s*[&|^]?={_CALL}")
"""A result with a bit for each of 64 lanes in a variable."""

_UNDEFINED_ARCH = re.compile(r"^(?!.*(?:HIP|ROCM))[ \t]*#[ \t]*(?:el)?if.*\b__CUDA_ARCH__\b", re.MULTILINE)
"""A condition that is false in HIP's device code, and does not name HIP."""

_RUNTIME = '#include "hip/hip_runtime.h"\n'
"""The line that hipify adds to a text with device code that does not include it."""

_BECOMES = ('#include "cuda_runtime.h"\n', '#include "cuda.h"\n')
"""Includes that hipify turns into the same line."""

_INCLUDE = re.compile(r"^([ \t]*)#[ \t]*include[ \t]*(?=[\"<])")
"""An include; hipify recognises it only with one blank behind the word and none before it."""

_QUOTED = re.compile(r'"([^"\n]+)"')
"""The name of a header in quotes."""

_OLDEST = 2
"""The version of hipify that does not rename torch's own classes."""

# The includes and ignores of build_amd.py that match headers of a wheel.
_REWRITTEN = (
    "aten/src/ATen/cuda/*",
    "aten/src/ATen/native/cuda/*",
    "aten/src/ATen/native/cudnn/*",
    "aten/src/ATen/native/nested/cuda/*",
    "aten/src/ATen/native/quantized/cuda/*",
    "aten/src/ATen/native/quantized/cudnn/*",
    "aten/src/ATen/native/sparse/cuda/*",
    "aten/src/ATen/native/transformers/cuda/*",
    "c10/cuda/*",
    "torch/*",
)
_LEFT = ("*/hip/*", "aten/src/ATen/core/*")
_LAYOUT = {"ATen": "aten/src/ATen", "c10": "c10", "torch": "torch"}
"""The paths in torch's sources of the directories of a wheel's headers."""


def _hipify(module: str) -> Any:  # noqa: ANN401  (torch's, without types)
    """The module of torch that rewrites."""
    sys.path.insert(0, module)
    version = importlib.import_module("hipify.version").__version__
    if int(version.partition(".")[0]) < _OLDEST:
        sys.exit(f"hipify {version} is from a torch before 2.11, whose ROCm headers are not all rewritten from CUDA's")
    return importlib.import_module("hipify.hipify_python")


def _run(hipify: Any, root: Path, **arguments: Any) -> None:  # noqa: ANN401  (torch's, without types)
    """Rewrite the files below a directory."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        hipify.hipify(str(root), output_directory=str(root), show_progress=False, **arguments)


class _Sparing:
    """A pattern of hipify that does not match in some parts of a text.

    Args:
        pattern: hipify's.
        is_spared: whether a match of `_NO_CODE` is spared.
    """

    def __init__(self, pattern: re.Pattern[str], is_spared: Callable[[re.Match[str]], bool]) -> None:
        self._pattern = pattern
        self._is_spared = is_spared

    def sub(self, replace: Callable[[re.Match[str]], str], text: str) -> str:
        """The text with each name replaced, also at its beginning and its end, where hipify does not match."""
        lines = f"\n{text}\n"
        data = [part.span() for part in _NO_CODE.finditer(lines) if self._is_spared(part)]
        starts = [start for start, _ in data]

        def replaced(name: re.Match[str]) -> str:
            before = bisect.bisect_right(starts, name.start()) - 1
            return name[0] if before >= 0 and name.start() < data[before][1] else replace(name)

        return self._pattern.sub(replaced, lines)[1:-1]

    def findall(self, text: str) -> list[str]:
        """The names."""
        found: list[str] = []

        def kept(name: re.Match[str]) -> str:
            found.append(name[0])
            return name[0]

        self.sub(kept, text)
        return found


def _keep_meaning(hipify: Any, texts: Mapping[str, bytes]) -> None:  # noqa: ANN401  (torch's, without types)
    """Have hipify replace only the names of CUDA.

    Args:
        hipify: torch's module.
        texts: the files, by name.

    - `std::max` and similar names stay: hipify's replacement is `::max(int, int)` in host code, which truncates doubles
      and 64-bit integers. HIP has in device code all names of `std` that hipify replaces.
    - The names of Caffe2's files and `HIP_CHECK` stay: an author's `GpuDefs` would become `hip/GpuDefs`.
    - The section's own headers stay: an author's `"vector_types.h"` would become HIP's.
    - Strings stay, unless the code looks up names or compiles code at run time.
    """
    mappings = sys.modules["hipify.cuda_to_hip_mappings"]
    hipify.MATH_TRANSPILATIONS.clear()
    paths = getattr(mappings, "CAFFE2_PATH_MAPPINGS", {})
    for name in (*getattr(mappings, "CAFFE2_SPECIFIC_MAPPINGS", ()), *paths, *_COMMON_NAMES):
        if name in hipify.PYTORCH_MAP:
            hipify.PYTORCH_MAP[name] = name
    paths.clear()
    is_looked_up = any(_LOOKED_UP.search(_code(text.decode())) for text in texts.values())

    def is_data(part: re.Match[str]) -> bool:
        return bool(part["data"]) and not is_looked_up

    def is_own(part: re.Match[str]) -> bool:
        quoted = _QUOTED.search(part["header"] or "")
        return quoted is not None and any(f"/{path}".endswith(f"/{quoted[1].lstrip('./')}") for path in texts)

    hipify.RE_PYTORCH_PREPROCESSOR = _Sparing(
        hipify.RE_PYTORCH_PREPROCESSOR, lambda part: is_data(part) or is_own(part)
    )
    for pattern in ("RE_QUOTE_HEADER", "RE_ANGLE_HEADER"):
        setattr(hipify, pattern, _Sparing(getattr(hipify, pattern), is_data))


def sources(options: argparse.Namespace) -> None:
    """The command `sources`; see the top."""
    hipify = _hipify(options.module)
    out = Path(options.out).absolute()
    texts = {name: _read(name, Path(path)) for name, path in sorted(options.file)}
    _keep_meaning(hipify, texts)
    for name, text in texts.items():
        to = out / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(text)
    names = [name for name in texts if not name.endswith(".hip")]
    rewrite = [str(out / name) for name in sorted(names, key=lambda name: (name not in options.source, name))]
    # A kernel launch stays unchanged: clang supports it, and hipify's replacement is sometimes wrong.
    _run(
        hipify,
        out,
        extra_files=rewrite,
        includes=[f"{out}/*"],
        header_include_dirs=options.include,
        hipify_extra_files_only=True,
        is_pytorch_extension=True,
        hip_clang_launch=True,
    )
    made = {name: Path(hipify.HIPIFY_FINAL_RESULT[str(out / name)].hipified_path or out / name) for name in names}
    for name in filter(options.source.__contains__, names):
        taken = hipify.get_hip_file_path(name, is_pytorch_extension=True)
        if made[name] != out / taken and taken not in texts:
            (out / taken).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made[name], out / taken)
        made[name] = out / taken
    _refuse_overwritten(out, texts, made)
    report = {name: _told(hipify, out / name, to, str(to.relative_to(out))) for name, to in made.items()}
    for name in texts:
        _number_lines(hipify, name, out / name, made.get(name, out / name))
    Path(options.report).write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for name, told in report.items():
        for left, line in told["left"].items():
            sys.stderr.write(f"{name}:{line}: warning: hipify has no HIP name for `{left}`\n")
    for name, text in texts.items():
        _warn(name, _code(text.decode()))


def _read(name: str, path: Path) -> bytes:
    """The bytes of a file as hipify expects them: UTF-8 without a byte order mark, and includes with one blank."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as wrong:
        sys.exit(f"{name}:{content.count(10, 0, wrong.start) + 1}: error: this is not UTF-8; save the file as UTF-8")
    if name.endswith(".hip"):
        return content

    def with_one_blank(part: re.Match[str]) -> str:
        return _INCLUDE.sub(r"\1#include ", part[0]) if part["header"] else part[0]

    return _NO_CODE.sub(with_one_blank, content.decode()).encode()


def _code(text: str) -> str:
    """A text with everything but code replaced by blanks."""
    return _NO_CODE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)


def _lanes(code: str) -> Iterator[tuple[int, str]]:
    """The position and the call of each result with a bit for each of 64 lanes, of which the code keeps 32 bits."""
    yield from ((found.start(), found["call"]) for found in _LANES.finditer(code))
    for kept in _KEPT.finditer(code):
        name = kept["name"]
        if re.search(rf"\b(?:auto|long|u?int64_t)[ \t]+(?:const[ \t]+)?{name}\b", code):
            counts = re.finditer(rf"\b__(?:popc|ffs|clz|brev)\s*\(\s*{name}\s*\)", code)
            yield from ((count.start(), kept["call"]) for count in counts)
        elif re.search(rf"{_HALF}[ \t]+{name}\b", code):
            yield kept.start(), kept["call"]


def _warn(name: str, code: str) -> None:
    """Warn of code with another meaning in HIP: 32 kept bits of 64 lanes, and tests of `__CUDA_ARCH__`."""
    advice = "keep it in an `unsigned long long`, and count with `__popcll` and `__ffsll`"
    found = {
        code.count("\n", 0, start) + 1: f"`{call}` has 64 bits in HIP, and 32 are kept here; {advice}"
        for start, call in _lanes(code)
    }
    for test in _UNDEFINED_ARCH.finditer(code):
        message = "HIP does not define `__CUDA_ARCH__`, also in device code; it defines `__HIP_DEVICE_COMPILE__`"
        found[code.count("\n", 0, test.start()) + 1] = message
    for line, message in sorted(found.items()):
        sys.stderr.write(f"{name}:{line}: warning: {message}\n")


def _refuse_overwritten(out: Path, texts: dict[str, bytes], made: dict[str, Path]) -> None:
    """End with an error if hipify's output has overwritten a file of the section."""
    for name, to in made.items():
        taken = str(to.relative_to(out))
        if taken != name and taken in texts:
            sys.exit(f"{name}: error: hipify's output for this is `{taken}`, which exists already: rename one of them")


def _told(hipify: Any, before: Path, after: Path, name: str) -> dict[str, Any]:  # noqa: ANN401  (torch's)
    """The report's entry of a file."""
    old, new = (path.read_text(encoding="utf-8", errors="replace") for path in (before, after))
    replaced = Counter(
        f"{found} -> {hipify.PYTORCH_MAP[found]}"
        for found in hipify.RE_PYTORCH_PREPROCESSOR.findall(old)
        if hipify.PYTORCH_MAP[found] != found
    )
    code = _code(new[len(_added(hipify, old, new)) :])
    left: dict[str, int] = {}
    for found in _CUDA_NAME.finditer(code):
        left.setdefault(found[0], code.count("\n", 0, found.start()) + 1)
    return {"name": name, "rewritten": dict(sorted(replaced.items())), "left": left}


def _added(hipify: Any, old: str, new: str) -> str:  # noqa: ANN401  (torch's)
    """The lines that hipify added in front of a text."""
    added = ""
    for line, own in ((hipify.HIPIFY_C_BREADCRUMB, ()), (_RUNTIME, (_RUNTIME, *_BECOMES))):
        if new.startswith(added + line) and not old.startswith(own):
            added += line
    return added


def _number_lines(hipify: Any, name: str, source: Path, made: Path) -> None:  # noqa: ANN401  (torch's)
    """Add a `#line` for the original's lines, behind the lines that hipify added."""
    old, new = (path.read_text(encoding="utf-8") for path in (source, made))
    added = _added(hipify, old, new)
    made.write_text(f'{added}#line 1 "{name}"\n{new[len(added) :]}', encoding="utf-8")


def headers(options: argparse.Namespace) -> None:
    """The command `headers`; see the top."""
    hipify = _hipify(options.module)
    include = Path(options.include).absolute()
    work = include.with_name("hipify-work")
    for name, place in _LAYOUT.items():
        (work / place).parent.mkdir(parents=True, exist_ok=True)
        (include / name).rename(work / place)
    _run(
        hipify,
        work,
        includes=[f"{work}/{pattern}" for pattern in _REWRITTEN],
        ignores=[f"{work}/{pattern}" for pattern in _LEFT],
        extensions=(".h", ".cuh", ".hpp"),
        hip_clang_launch=True,
    )
    for before, result in hipify.HIPIFY_FINAL_RESULT.items():
        if result.hipified_path and result.hipified_path != before:
            Path(before).unlink()
            with contextlib.suppress(OSError):
                Path(before).parent.rmdir()
    for name, place in _LAYOUT.items():
        (work / place).rename(include / name)
    shutil.rmtree(work)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_subparsers(dest="form", required=True)
    section = forms.add_parser("sources", help="of a kernel section")
    section.add_argument("module", help="the directory that contains torch's package `hipify`")
    section.add_argument("out", help="the directory to write")
    section.add_argument("report", help="the JSON file to write")
    section.add_argument("-I", dest="include", action="append", default=[], help="an include directory")
    section.add_argument("-s", dest="source", action="append", default=[], help="the name of a file that is compiled")
    section.add_argument(
        "-f", dest="file", action="append", nargs=2, default=[], metavar=("NAME", "FILE"), help="a file"
    )
    wheel = forms.add_parser("headers", help="of a torch wheel")
    wheel.add_argument("module", help="the directory that contains torch's package `hipify`")
    wheel.add_argument("include", help="torch's include directory")
    return parser.parse_args()


if __name__ == "__main__":
    options = _arguments()
    (sources if options.form == "sources" else headers)(options)
