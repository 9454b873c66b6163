"""A compiler, a linker or an archiver for the build tools of a project: each output says what it was made of.

Run as a program: the name it stands for, and its arguments. An output is `MAGIC` and a value in JSON, which has `kind`:

- `object`: `program`, `flags`, `source`, and `directory`, where the compiler ran.
- `module`: `name`, of an extension module of setuptools.
- `archive`: `members`, the values of its objects.
- `library`: `flags`, `directory`, and `inputs`: what it was linked from, values or paths of files that others made.
- `device-link`: nothing; what nvcc links of the device code of objects.
- `program`: nothing; it cannot be run.

A line of the file `$RECORDED_LOG` is for each library that was linked, and for each program that was run nevertheless.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Any

MAGIC = b"# recorded, not compiled\n"
"""What each output begins with."""

MODULE = "module"
"""The kind of a library that setuptools would link."""

LOG = "RECORDED_LOG"
"""The variable with the path of the log."""

LIBRARY, RAN = "library ", "ran "
"""What the lines of the log begin with; a path follows."""

_PROGRAM = "#!/bin/sh\n" + MAGIC.decode() + f'echo "{RAN}$0" >> "${LOG}"\nexit 127\n'
_SCRATCH = ("/CMakeFiles/CMakeScratch/", "/CMakeFiles/CMakeTmp/")
"""Where CMake tries whether something compiles."""

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".c++", ".C", ".hip", ".s", ".S", ".asm")
_INPUTS = (".o", ".obj", ".a", ".so", ".lo")
_WITH_VALUE = frozenset(
    "-I -isystem -iquote -idirafter -include -imacros -D -U -L -l -x -arch -gencode -code -Xcompiler -Xlinker -Xptxas "
    "-Xcudafe -Xfatbin -Xnvlink -ccbin -std -std-c -T -u -z -framework -soname -rpath --param -maxrregcount "
    "--diag-suppress -diag-suppress --options-file -optf --generate-code --compiler-options --threads -t".split()
)
"""The options whose value may be the next word."""

_DEPENDENCIES = frozenset(["-MF", "-MT", "-MQ", "-MJ"])
_QUIET = frozenset(["-MD", "-MMD", "-MP", "-c", "-dc", "--device-c", "-pipe", "-forward-unknown-to-host-compiler"])


def content(path: str) -> Any:  # noqa: ANN401  (a value in JSON)
    """What an output was made of; None for a file that this program did not make.

    Args:
        path: of a file.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (a program that starts for each source)
            text = file.read()
    except OSError:
        return None
    return value(text)


def value(text: bytes) -> Any:  # noqa: ANN401
    """What an output was made of; None for a file that this program did not make.

    Args:
        text: of the file.
    """
    if text == _PROGRAM.encode():
        return {"kind": "program"}
    return json.loads(text[len(MAGIC) :]) if text.startswith(MAGIC) else None


def output(made: dict[str, Any]) -> bytes:
    """The text of an output.

    Args:
        made: of what it was made.
    """
    return MAGIC + json.dumps(made).encode()


def _write(path: str, made: dict[str, Any]) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(output(made))


def _words(args: list[str]) -> list[str]:
    """The arguments, with those of response files."""
    found: list[str] = []
    words = iter(args)
    for word in words:
        name = ""
        if word.startswith("@"):
            name = word[1:]
        elif word in {"--options-file", "-optf"}:
            name = next(words, "")
        if name and os.path.isfile(name):  # noqa: PTH113
            with open(name, encoding="utf-8") as file:  # noqa: PTH123
                found += _words(shlex.split(file.read()))
        else:
            found.append(word)
    return found


def _archive(args: list[str]) -> int:
    """Add objects to an archive: `ar qc libx.a a.o b.o`."""
    files = [arg for arg in args[1:] if arg.endswith(_INPUTS)] if args else []
    if not files:
        return 0
    known = content(files[0])
    members = known["members"] if known and known["kind"] == "archive" and "q" in args[0] else []
    made = [content(path) for path in files[1:]]
    if any(member is None or member["kind"] != "object" for member in made):
        sys.stderr.write(f"recording: {files[0]} is made of files that no compiler of the build has made\n")
        return 1
    _write(files[0], {"kind": "archive", "members": [*members, *made]})
    return 0


def _compiled(program: str, args: list[str]) -> int:
    """Compile a source, or link."""
    flags: list[str] = []
    sources: list[str] = []
    inputs: list[Any] = []
    output = dependencies = ""
    is_object = False
    words = iter(_words(args))
    for word in words:
        if word == "-o":
            output = next(words, "")
        elif word in _DEPENDENCIES:
            file = next(words, "")
            dependencies = file if word == "-MF" else dependencies
        elif word in _QUIET:
            is_object = is_object or word in {"-c", "-dc", "--device-c"}
            flags += ["-rdc=true"] if word in {"-dc", "--device-c"} else []
        elif word in {"-E", "-M", "-MM", "-S", "-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin"}:
            sys.stderr.write(f"recording: {program} {word} has an output that nothing here can give\n")
            return 1
        elif word in _WITH_VALUE:
            flags += [word, next(words, "")]
        elif word.startswith("-"):
            flags.append(word)
        elif word.endswith(_SOURCES):
            sources.append(os.path.abspath(word))  # noqa: PTH100
        else:
            path = os.path.abspath(word)  # noqa: PTH100
            inputs.append(content(path) or path)
            flags.append(word)
    if dependencies:
        with open(dependencies, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{output}:\n")
    made = {"program": program, "flags": flags, "directory": os.getcwd()}  # noqa: PTH109
    if is_object:
        if len(sources) != 1:
            sys.stderr.write(f"recording: {program} compiles {len(sources)} sources at once\n")
            return 1
        output = output or f"{os.path.splitext(os.path.basename(sources[0]))[0]}.o"  # noqa: PTH119, PTH122
        _write(output, {"kind": "object", "source": sources[0], **made})
    elif sources:
        sys.stderr.write(f"recording: {program} compiles and links at once: {sources[0]}\n")
        return 1
    elif not inputs:
        sys.stderr.write(f"recording: {program} has nothing to compile: {' '.join(args)}\n")
        return 1
    elif "-dlink" in flags or "--device-link" in flags:
        _write(output or "a_dlink.o", {"kind": "device-link"})
    elif "-shared" in flags or "--shared" in flags:
        _write(output or "a.out", {"kind": "library", "inputs": inputs, **made})
        path = os.path.abspath(output or "a.out")  # noqa: PTH100
        if not any(part in path for part in _SCRATCH):
            with open(os.environ[LOG], "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{LIBRARY}{path}\n")
    else:
        with open(output or "a.out", "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(_PROGRAM)
        os.chmod(output or "a.out", 0o755)  # noqa: PTH101, S103  (a program)
    return 0


def main() -> int:
    """Stand in for a program; the exit code."""
    program, *args = sys.argv[1:]
    return _archive(args) if program == "ar" else _compiled(program, args)


if __name__ == "__main__":
    sys.exit(main())
