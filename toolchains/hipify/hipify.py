"""Turn CUDA into HIP with torch's own hipify: the sources of a kernel section, or the headers of a torch wheel.

    python3 -I -S hipify.py sources MODULE OUT REPORT [-I DIRECTORY]... [-s SOURCE]... [-f NAME FILE]...
    python3 -I -S hipify.py headers MODULE INCLUDE

`sources` copies each FILE to OUT/NAME and rewrites them as `torch.utils.cpp_extension` does for a ROCm build of torch,
but for what changes the meaning of a text: see `_keep_meaning`. What is rewritten stands beside them under the name
that hipify gives it; a SOURCE has that name in any case, also if nothing of it was rewritten. REPORT is JSON: for each
file its new name, how often each name was replaced, and the names that look like CUDA's and stayed, with the first line
of each. These are warned of, and so is a bit for each of 64 lanes of which a text keeps 32. The compiler is told to
call the lines of what was made those of FILE.

`headers` rewrites the headers of a CUDA build of torch as tools/amd_build/build_amd.py of pytorch/pytorch rewrites the
sources of a ROCm build, in place. torch's `hip` headers then stand where a ROCm build has them. Only releases from 2.11
on are taken: before that, a ROCm build has hand-written headers besides.

MODULE is the directory that has torch's package `hipify` in it. Standard library alone; the first is run in an action.
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
    from collections.abc import Callable, Iterable

# Names of CUDA's libraries that no header of torch or HIP defines for a ROCm build.
_CUDA_NAME = re.compile(
    r"\b(?:cuda[A-Z]\w*|cu[A-Z][a-z]\w*|cu(?:blas|sparse|solver|fft|rand|dnn)(?:Lt)?[A-Z_]\w*|nv(?:rtc|tx|jitlink)\w*"
    r"|__nv_\w+|CU(?:DA_(?:SUCCESS|ERROR)|_)\w*)\b"
)
_NO_CODE = re.compile(
    r"^[ \t]*#[ \t]*include[^\n]*"
    r"|//(?:[^\\\n]|\\[\s\S])*|/\*[\s\S]*?(?:\*/|\Z)"
    r'|(?P<data>(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)'
    r"|\"(?:[^\"\\\n]|\\[\s\S])*\"|(?<!\w)(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')",
    re.MULTILINE,
)
"""What is no code: names of headers, comments, and strings, which are data."""

_LOOKED_UP = re.compile(r"\b(?:nvrtc\w+|dlsym|cuGetProcAddress\w*|cudaGetDriverEntryPoint\w*)\b")
"""Calls that read names and code out of strings, so that strings are rewritten too."""

_COMMON_NAMES = ("MAJOR_VERSION", "MINOR_VERSION", "PATCH_LEVEL")
"""Names of CUDA's that an author uses for something else, and defines with a flag, such as `-DMAJOR_VERSION=2`."""

_LANES = re.compile(
    r"(?:\b(?:unsigned(?:[ \t]+int)?|int|u?int32_t)(?:[ \t]+const)?[ \t]+\w+\s*[={(]|\b__(?:popc|ffs|clz|brev)\s*\()\s*"
    r"(?P<call>__(?:ballot(?:_sync)?|activemask|match_(?:any|all)(?:_sync)?))\s*\("
)
"""A result with a bit for each of 64 lanes where 32 bits of it are kept."""

_RUNTIME = '#include "hip/hip_runtime.h"\n'
"""What hipify puts before a text with device code that does not include it."""

_BECOMES = ('#include "cuda_runtime.h"\n', '#include "cuda.h"\n')
"""What hipify makes the same of."""

_INCLUDE = re.compile(rb"^([ \t]*)#[ \t]*include[ \t]*(?=[\"<])", re.MULTILINE)
"""An include; hipify takes it only with one blank behind the word and none before it."""

_OLDEST = 2
"""The version of hipify that does not rename torch's own classes."""

# Of the includes and ignores of build_amd.py, those that a wheel has headers of.
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
"""Where the directories of a wheel's headers stand in torch's sources."""


def _hipify(module: str) -> Any:  # noqa: ANN401  (torch's, without types)
    """The module of torch that rewrites."""
    sys.path.insert(0, module)
    version = importlib.import_module("hipify.version").__version__
    if int(version.partition(".")[0]) < _OLDEST:
        sys.exit(f"hipify {version} is of a torch before 2.11; headers for ROCm of such a one are not only rewritten")
    return importlib.import_module("hipify.hipify_python")


def _run(hipify: Any, root: Path, **arguments: Any) -> None:  # noqa: ANN401  (torch's, without types)
    """Rewrite the files below a directory."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        hipify.hipify(str(root), output_directory=str(root), show_progress=False, **arguments)


class _CodeAlone:
    """hipify's pattern of names, which finds them in code and in the names of headers, not in strings."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def sub(self, replace: Callable[[re.Match[str]], str], text: str) -> str:
        """The text with each name replaced."""
        data = [part.span() for part in _NO_CODE.finditer(text) if part["data"]]
        starts = [start for start, _ in data]

        def replaced(name: re.Match[str]) -> str:
            before = bisect.bisect_right(starts, name.start()) - 1
            return name[0] if before >= 0 and name.start() < data[before][1] else replace(name)

        return self._pattern.sub(replaced, text)

    def findall(self, text: str) -> list[str]:
        """The names."""
        found: list[str] = []

        def kept(name: re.Match[str]) -> str:
            found.append(name[0])
            return name[0]

        self.sub(kept, text)
        return found


def _keep_meaning(hipify: Any, texts: Iterable[bytes]) -> None:  # noqa: ANN401  (torch's, without types)
    """Have hipify replace the names of CUDA, and no more.

    - `std::max` and its kin stay: what hipify makes of it is `::max(int, int)` in host code, which cuts doubles and
      64-bit integers. HIP has all of `std` that it replaces in device code.
    - What Caffe2's files were called stays, and `HIP_CHECK`: an author's `GpuDefs` would become `hip/GpuDefs`.
    - Strings stay, but where a text looks up names or compiles code at run time.
    """
    mappings = sys.modules["hipify.cuda_to_hip_mappings"]
    hipify.MATH_TRANSPILATIONS.clear()
    paths = getattr(mappings, "CAFFE2_PATH_MAPPINGS", {})
    for name in (*getattr(mappings, "CAFFE2_SPECIFIC_MAPPINGS", ()), *paths, *_COMMON_NAMES):
        if name in hipify.PYTORCH_MAP:
            hipify.PYTORCH_MAP[name] = name
    paths.clear()
    if not any(_LOOKED_UP.search(text.decode()) for text in texts):
        hipify.RE_PYTORCH_PREPROCESSOR = _CodeAlone(hipify.RE_PYTORCH_PREPROCESSOR)


def sources(options: argparse.Namespace) -> None:
    """The first form; see the top."""
    hipify = _hipify(options.module)
    out = Path(options.out).absolute()
    texts = {name: _read(name, Path(path)) for name, path in sorted(options.file)}
    _keep_meaning(hipify, texts.values())
    for name, text in texts.items():
        to = out / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(text)
    names = [name for name in texts if not name.endswith(".hip")]
    rewrite = [str(out / name) for name in sorted(names, key=lambda name: (name not in options.source, name))]
    # A kernel launch stays as it is: clang knows it, and what hipify makes of one is not always right.
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
        _warn_of_lanes(name, _code(text.decode()))


def _read(name: str, path: Path) -> bytes:
    """The bytes of a file as hipify takes them: UTF-8 without a mark, and includes spelled as it expects."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as wrong:
        sys.exit(f"{name}:{content.count(10, 0, wrong.start) + 1}: error: this is not UTF-8; save the file as UTF-8")
    return content if name.endswith(".hip") else _INCLUDE.sub(rb"\1#include ", content)


def _code(text: str) -> str:
    """A text with blanks for what is no code."""
    return _NO_CODE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)


def _warn_of_lanes(name: str, code: str) -> None:
    """Warn of each result with a bit for each lane that the text keeps 32 bits of."""
    for found in _LANES.finditer(code):
        line = code.count("\n", 0, found.start()) + 1
        advice = "keep it in an `unsigned long long`, and count with `__popcll` and `__ffsll`"
        sys.stderr.write(
            f"{name}:{line}: warning: `{found['call']}` has 64 bits in HIP, and 32 are kept here; {advice}\n"
        )


def _refuse_overwritten(out: Path, texts: dict[str, bytes], made: dict[str, Path]) -> None:
    """End with an error where a file that hipify made has taken the place of one of the section's own."""
    for name, to in made.items():
        taken = str(to.relative_to(out))
        if taken != name and taken in texts:
            sys.exit(f"{name}: error: hipify calls what it makes of this `{taken}`, which is there: rename one of them")


def _told(hipify: Any, before: Path, after: Path, name: str) -> dict[str, Any]:  # noqa: ANN401  (torch's)
    """What the report says of a file."""
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
    """The lines that hipify put before a text."""
    added = ""
    for line, own in ((hipify.HIPIFY_C_BREADCRUMB, ()), (_RUNTIME, (_RUNTIME, *_BECOMES))):
        if new.startswith(added + line) and not old.startswith(own):
            added += line
    return added


def _number_lines(hipify: Any, name: str, source: Path, made: Path) -> None:  # noqa: ANN401  (torch's)
    """Have the compiler name the lines of a file as those that it was made from."""
    old, new = (path.read_text(encoding="utf-8") for path in (source, made))
    added = _added(hipify, old, new)
    made.write_text(f'{added}#line 1 "{name}"\n{new[len(added) :]}', encoding="utf-8")


def headers(options: argparse.Namespace) -> None:
    """The second form; see the top."""
    hipify = _hipify(options.module)
    include = Path(options.include).absolute()
    work = include.with_name("hipify-work")
    for name, place in _LAYOUT.items():
        (work / place).parent.mkdir(parents=True, exist_ok=True)
        (include / name).rename(work / place)
    _run(
        hipify,
        work,
        includes=[f"{work}/{one}" for one in _REWRITTEN],
        ignores=[f"{work}/{one}" for one in _LEFT],
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
    one = forms.add_parser("sources", help="of a kernel section")
    one.add_argument("module", help="the directory that has torch's package `hipify` in it")
    one.add_argument("out", help="the directory to write")
    one.add_argument("report", help="the JSON file to write")
    one.add_argument("-I", dest="include", action="append", default=[], help="an include directory")
    one.add_argument("-s", dest="source", action="append", default=[], help="the name of a file that is compiled")
    one.add_argument("-f", dest="file", action="append", nargs=2, default=[], metavar=("NAME", "FILE"), help="a file")
    other = forms.add_parser("headers", help="of a torch wheel")
    other.add_argument("module", help="the directory that has torch's package `hipify` in it")
    other.add_argument("include", help="torch's include directory")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    (sources if given.form == "sources" else headers)(given)
