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
_WITH_VALUE = (
    *(
        "-I",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-include",
        "-imacros",
        "-D",
        "-U",
        "-L",
        "-l",
        "-x",
        "-std",
        "--param",
    ),
    *("-arch", "-gencode", "-code", "--generate-code", "-ccbin", "-maxrregcount", "-t", "--threads", "-T", "-u", "-z"),
    *("-Xcompiler", "--compiler-options", "-Xlinker", "-Xptxas", "-Xcudafe", "-Xfatbin", "-Xnvlink"),
    *("-diag-suppress", "--diag-suppress", "-soname", "-rpath"),
)
"""The options whose value may be the next word."""

_DEPENDENCIES = ("-MF", "-MT", "-MQ", "-MJ")
_COMPILES = ("-c", "-dc", "--device-c")
_QUIET = ("-MD", "-MMD", "-MP", "-pipe")
_DEVICE = ("-dc", "--device-c")
_OTHER_OUTPUT = ("-E", "-M", "-MM", "-S", "-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin")


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


class _Command:
    """The arguments of a compiler, sorted.

    Attributes:
        flags: all that decides what an output is, in their order.
        sources: as absolute paths.
        inputs: of a link.
        output: after `-o`.
        dependencies: the file for make.
        compiles: whether the output is an object.
        other: the flag that asks for another kind of output.
    """

    def __init__(self, args: list[str]) -> None:
        self.flags: list[str] = []
        self.sources: list[str] = []
        self.inputs: list[Any] = []
        self.output = self.dependencies = self.other = ""
        self.compiles = False
        words = iter(_words(args))
        for word in words:
            if word == "-o":
                self.output = next(words, "")
            elif word in _DEPENDENCIES:
                path = next(words, "")
                self.dependencies = path if word == "-MF" else self.dependencies
            elif word in _OTHER_OUTPUT:
                self.other = word
            elif word in _WITH_VALUE:
                self.flags += [word, next(words, "")]
            else:
                self._add(word)

    def _add(self, word: str) -> None:
        """Add a word that stands alone."""
        if word in _COMPILES:
            self.compiles = True
            self.flags += ["-rdc=true"] if word in _DEVICE else []
        elif word in _QUIET:
            pass
        elif word.startswith("-"):
            self.flags.append(word)
        elif word.endswith(_SOURCES):
            self.sources.append(os.path.abspath(word))  # noqa: PTH100
        else:
            path = os.path.abspath(word)  # noqa: PTH100
            self.inputs.append(content(path) or path)
            self.flags.append(word)

    @property
    def fault(self) -> str:
        """Why it has no output here; empty if it has."""
        if self.other:
            return f"{self.other} has an output that nothing here can give"
        if self.compiles:
            return "" if len(self.sources) == 1 else f"compiles {len(self.sources)} sources at once"
        if self.sources:
            return f"compiles and links at once: {self.sources[0]}"
        return "" if self.inputs else "has nothing to compile or link"


def _compiled(program: str, args: list[str]) -> int:
    """Compile a source, or link."""
    command = _Command(args)
    if command.fault:
        sys.stderr.write(f"recording: {program} {command.fault}\n")
        return 1
    if command.dependencies:
        with open(command.dependencies, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{command.output}:\n")
    made = {"program": program, "flags": command.flags, "output": command.output, "directory": os.getcwd()}  # noqa: PTH109
    if command.compiles:
        [source] = command.sources
        stem = os.path.splitext(os.path.basename(source))[0]  # noqa: PTH119, PTH122
        _write(command.output or f"{stem}.o", {"kind": "object", "source": source, **made})
        return 0
    output_path = command.output or "a.out"
    if "-dlink" in command.flags or "--device-link" in command.flags:
        _write(output_path, {"kind": "device-link"})
    elif "-shared" in command.flags or "--shared" in command.flags:
        _write(output_path, {"kind": "library", "inputs": command.inputs, **made})
        path = os.path.abspath(output_path)  # noqa: PTH100
        if not any(part in path for part in _SCRATCH):
            with open(os.environ[LOG], "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{LIBRARY}{path}\n")
    else:
        with open(output_path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(_PROGRAM)
        os.chmod(output_path, 0o755)  # noqa: PTH101, S103  (a program)
    return 0


def main() -> int:
    """Stand in for a program; the exit code."""
    program, *args = sys.argv[1:]
    return _archive(args) if program == "ar" else _compiled(program, args)


if __name__ == "__main__":
    sys.exit(main())
