"""Turn CUDA into HIP with torch's own hipify: the sources of a kernel section, or the headers of a torch wheel.

    python3 -I -S hipify.py sources MODULE OUT REPORT [-I DIRECTORY]... [-s SOURCE]... [-f NAME FILE]...
    python3 -I -S hipify.py headers MODULE INCLUDE

`sources` copies each FILE to OUT/NAME and rewrites them as `torch.utils.cpp_extension` does for a ROCm build of torch.
What is rewritten stands beside them under the name that hipify gives it; a SOURCE has that name in any case, also if
nothing of it was rewritten. REPORT is JSON: for each file its new name, how often each name was replaced, and the names
that look like CUDA's and stayed, with the first line of each; these are warned of. The compiler is told to call the
lines of what was made those of FILE.

`headers` rewrites the headers of a CUDA build of torch as tools/amd_build/build_amd.py of pytorch/pytorch rewrites the
sources of a ROCm build, in place. torch's `hip` headers then stand where a ROCm build has them. Only releases from 2.11
on are taken: before that, a ROCm build has hand-written headers besides.

MODULE is the directory that has torch's package `hipify` in it. Standard library alone; the first is run in an action.
"""

from __future__ import annotations

import argparse
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
from typing import Any

# Names of CUDA's libraries that no header of torch or HIP defines for a ROCm build.
_CUDA_NAME = re.compile(
    r"\b(?:cuda[A-Z]\w*|cu[A-Z][a-z]\w*|cu(?:blas|sparse|solver|fft|rand|dnn)(?:Lt)?[A-Z_]\w*|nv(?:rtc|tx|jitlink)\w*"
    r"|__nv_\w+|CU(?:DA_(?:SUCCESS|ERROR)|_)\w*)\b"
)
_SKIPPED = re.compile(r'//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"|^[ \t]*#[ \t]*include[^\n]*', re.MULTILINE)
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


def sources(options: argparse.Namespace) -> None:
    """The first form; see the top."""
    hipify = _hipify(options.module)
    out = Path(options.out).absolute()
    texts = {name: _read(name, Path(path)) for name, path in sorted(options.file)}
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


def _read(name: str, path: Path) -> bytes:
    """The bytes of a file as hipify takes them: UTF-8 without a mark, and includes spelled as it expects."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as wrong:
        sys.exit(f"{name}:{content.count(10, 0, wrong.start) + 1}: error: this is not UTF-8; save the file as UTF-8")
    return content if name.endswith(".hip") else _INCLUDE.sub(rb"\1#include ", content)


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
    code = _SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), new[len(_added(hipify, old, new)) :])
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
