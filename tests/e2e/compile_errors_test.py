"""What an author is told of a mistake: the compiler's lines at the path that they typed, once for all variants."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, PROJECTS, copy_project

from py_driver import __main__

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CU132 = CU130.replace("cu130", "cu132")
BOTH = ("--torch=2.13", "--backend=cuda", "--keep-going")
ONE = ("--torch=2.13", "--backend=cpu", "--keep-going")
HEAD = re.compile(r"^([^\s:<>][^:]*):(\d+)(?::(\d+))?: ((?:fatal )?error|warning|note): ", re.MULTILINE)


class Author:
    """Someone who builds a project from the directory above it.

    Attributes:
        project: as they name it.
    """

    def __init__(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self._capsys = capsys

    def write(self, name: str, text: str) -> None:
        """Make a file what it is after a mistake."""
        (self.project / name).write_text(text, encoding="utf-8")

    def told(self, *words: str, code: int = 5) -> str:
        """What a build says after it has begun; each place in it is one of the author's files.

        With --verbose there are also those that Bazel names.
        """
        assert __main__.main(["build", str(self.project), *words]) == code
        said = self._capsys.readouterr().err
        said = re.sub(r"(?ms)^.*?^building mistakes \.\.\.\n(?:  [^\n]*\[\d+ s\]\n)*", "", said)
        said = re.sub(r"(?m)^warning: Build option .*\n(?:  .*\[\d+ s\]\n)*", "", said)  # of what was built before
        for file, line, *_ in HEAD.findall(said) if "--verbose" not in words else ():
            assert 0 < int(line) <= len((self.project.parent / file).read_text(encoding="utf-8").splitlines()), said
        return said

    def json(self, *words: str) -> list[dict[str, object]]:
        """The errors of a build as JSON."""
        assert __main__.main(["build", str(self.project), "--json", *words]) == 5
        errors: list[dict[str, object]] = json.loads(self._capsys.readouterr().out)["errors"]
        return errors


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Author:
    project = copy_project(PROJECTS / "mistakes", tmp_path / "kernels" / "mistakes")
    monkeypatch.chdir(project.parent)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return Author(project.relative_to(project.parent), capsys)


ALL = " = help: --verbose shows the commands\n"
FIRST = ALL.replace("--verbose", "--keep-going shows all errors, and all variants that have them; --verbose")


def ending(*variants: str, advice: str = ALL) -> str:
    return f"error[E401]: the build failed: {', '.join(variants)}\n{advice}more: `driver explain E401`\n"


DEVICE = """\
#include "device.cuh"

__global__ void device(int* out) {
    *out = halve(4)
}
"""


def test_cuda_source_in_two_variants(author: Author) -> None:
    author.write("csrc/device.cu", DEVICE)
    assert author.told(*BOTH) == (
        'mistakes/csrc/device.cu:5:1: error: expected a ";"\n'
        "  }\n"
        "  ^\n"
        f"  (in 2 variants: {CU130}, {CU132})\n" + ending(CU130, CU132)
    )
    stopped = author.told(*BOTH[:-1])
    assert "\n  (first seen in 1 variant: torch213-" in stopped
    assert re.search(rf"; 1 more was not finished\n{re.escape(FIRST)}more: ", stopped)
    first, summary = author.json(*BOTH)
    assert {key: first[key] for key in ("code", "message", "file", "line", "column", "variants")} == {
        "code": "E401",
        "message": 'expected a ";"',
        "file": "mistakes/csrc/device.cu",
        "line": 5,
        "column": 1,
        "variants": [CU130, CU132],
    }
    assert summary["message"] == f"the build failed: {CU130}, {CU132}"


def test_header_of_a_cuda_source(author: Author) -> None:
    author.write("csrc/device.cuh", "#pragma once\n\ntemplate <class T> __device__ T halve(T t) { return t.half(); }\n")
    assert author.told("--torch=2.13", "--backend=cu130", "--keep-going") == (
        'mistakes/csrc/device.cuh:3: error: expression must have class type but it has type "int"\n'
        "  template <class T> __attribute__((device)) T halve(T t) { return t.half(); }\n"
        "                                                                   ^\n"
        '          detected during instantiation of "T halve(T) [with T=int]" at line 4 of mistakes/csrc/device.cu\n'
        "  (compiling mistakes/csrc/device.cu; for 8.0 and 9.0)\n" + ending(CU130)
    )


def test_header_of_a_cxx_source(author: Author) -> None:
    author.write(
        "csrc/host.h", "#pragma once\n\ntemplate <class T> T twice(T t) { return t + nothing; }\nint host();\n"
    )
    assert author.told(*ONE) == (
        "In file included from mistakes/csrc/host.cpp:1:\n"
        "mistakes/csrc/host.h:3:46: error: use of undeclared identifier 'nothing'\n"
        "    3 | template <class T> T twice(T t) { return t + nothing; }\n"
        "      |                                              ^\n"
        "  (compiling mistakes/csrc/host.cpp)\n" + ending(CPU)
    )


def test_binding(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (author.project / "torch-ext" / "torch_binding.cpp").read_text(encoding="utf-8")
    author.write("torch-ext/torch_binding.cpp", f"{text}int wrong = nothing;\n")
    head = "mistakes/torch-ext/torch_binding.cpp:4:13: error: use of undeclared identifier 'nothing'\n"
    lines = "    4 | int wrong = nothing;\n      |             ^\n"
    assert author.told(*ONE) == head + lines + ending(CPU)
    verbose = author.told(*ONE, "--verbose")
    assert verbose.endswith(head + lines + ending(CPU, advice=""))
    assert re.search(r"^ERROR: .*: Compiling torch-ext/torch_binding\.cpp .*$", verbose, re.MULTILINE)
    [command] = re.findall(r"^command: (cd .* && env -i .*)$", verbose, re.MULTILINE)
    copied = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert copied.returncode == 1
    assert copied.stderr.endswith(f"{head.partition('/')[2]}{lines}1 error generated.\n")
    monkeypatch.setenv("FORCE_COLOR", "1")
    place, word, message = head.partition("error")
    assert f"\033[1m{place}\033[0m\033[1;31m{word}\033[0m{message}" in author.told(*ONE)


def test_symbol_that_nothing_defines(author: Author) -> None:
    author.write("csrc/host.cpp", '#include "host.h"\n\nint elsewhere();\nint host() { return elsewhere(); }\n')
    binding = '#include "registration.h"\n\nint host();\nint used = host();\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n'
    author.write("torch-ext/torch_binding.cpp", binding)
    assert author.told(*ONE).startswith(
        "error[E402]: the extension fails the ABI check: 1 finding\n"
        "  undefined-symbol: elsewhere(): no library defines it\n"
        "    referenced by mistakes/csrc/host.cpp, of [kernel.host] (lines 3, 4) in host()\n"
        "    help: add the source that defines it to `src`, or remove the call\n"
        f"error[E401]: the build failed: {CPU}\n"
    )


def test_symbol_with_other_parameters(author: Author) -> None:
    author.write(
        "csrc/host.h", "#pragma once\nint host();\nnamespace own {\nlong scale(float *x, const float *y, long n);\n}\n"
    )
    author.write(
        "csrc/host.cpp",
        '#include "host.h"\n\nnamespace own {\nlong scale(float *, const float *, int) { return 1; }\n}\n'
        "int host() { return 1; }\n",
    )
    binding = '#include "../csrc/host.h"\n#include "registration.h"\n\nlong used = own::scale(nullptr, nullptr, 3);\n'
    author.write("torch-ext/torch_binding.cpp", f"{binding}REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n")
    assert author.told(*ONE).startswith(
        "error[E402]: the extension fails the ABI check: 1 finding\n"
        "  undefined-symbol: own::scale(float*, float const*, long): no library defines it\n"
        "    referenced by mistakes/torch-ext/torch_binding.cpp, of [torch] (line 4) in "
        "_GLOBAL__sub_I_torch_binding.cpp\n"
        "    did you mean: own::scale(float*, float const*, int), which mistakes/csrc/host.cpp, of [kernel.host] "
        "defines\n"
        "    help: add the source that defines it to `src`, or remove the call\n"
    )


def test_device_code_of_another_source(author: Author) -> None:
    author.write("csrc/device.cuh", "#pragma once\n__device__ float curve(float x);\n")
    author.write(
        "csrc/device.cu",
        '#include "device.cuh"\n__global__ void shape(float *x) { *x = curve(*x); }\n',
    )
    assert author.told("--torch=2.13", "--backend=cu130", "--archs=8.0").startswith(
        "mistakes/csrc/device.cu:2: error: `curve` is device code that this source calls and does not define: that "
        "requires relocatable device code (`-rdc=true`)\n"
        "    ptxas fatal   : Unresolved extern function '_Z5curvef'\n"
        "    mistakes/csrc/device.cuh has it too\n"
    )


def test_device_variable_of_another_source(author: Author) -> None:
    """nvcc makes another one of it, all zeros, and takes that for a warning; one that is not used is none."""
    one = ("--torch=2.13", "--backend=cu130", "--archs=8.0")
    author.write("csrc/device.cuh", "#pragma once\nextern __constant__ int device[4], table_of_all[4];\n")
    author.write("csrc/device.cu", '#include "device.cuh"\n__global__ void shape(int *x) { *x = 1; }\n')
    assert "error" not in author.told(*one, code=0)
    author.write("csrc/device.cu", '#include "device.cuh"\n__global__ void shape(int *x) { *x = table_of_all[1]; }\n')
    assert author.told(*one).startswith(
        "mistakes/csrc/device.cu:2: error: `table_of_all` is a separate variable here, all zeros, not that of another "
        "source: that requires relocatable device code (`-rdc=true`)\n"
    )


def test_symbol_that_two_define(author: Author) -> None:
    # The link changes an object with a type of its own, and the message names the object as it was.
    own = "struct Own { virtual ~Own() = default; } own;"
    binding = (
        f'#include "registration.h"\n{own}\nint host() {{ return 1; }}\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n'
    )
    author.write("torch-ext/torch_binding.cpp", binding)
    assert author.told(*ONE) == (
        "mistakes/torch-ext/torch_binding.cpp: ld.lld: error: duplicate symbol: host()\n"
        ">>> defined at torch_binding.cpp\n"
        ">>>            mistakes/torch-ext/torch_binding.cpp, of [torch]:(host())\n"
        ">>> defined at host.cpp\n"
        ">>>            mistakes/csrc/host.cpp, of [kernel.host]:(.text+0x0)\n" + ending(CPU)
    )


def test_flags_that_clang_lacks_are_no_errors(author: Author) -> None:
    text = (author.project / "build.toml").read_text(encoding="utf-8")
    flags = '"-Wall", "-Werror", "-Wno-maybe-uninitialized", "-fgcse", "-fipa-pta"'
    author.write("build.toml", text.replace('"-Wall"', flags))
    assert "error" not in author.told(*ONE, code=0)


def test_warning(author: Author) -> None:
    """Of an action that runs, of one that a cache has, and of one that is up to date."""
    text = (author.project / "csrc" / "host.cpp").read_text(encoding="utf-8")
    unseen = f"{text}// {time.time_ns()}: no cache has this\n"
    warned = unseen.replace("    return", "    int unused = 0;\n    return")
    shown = (
        "mistakes/csrc/host.cpp:4:9: warning: unused variable 'unused' [-Wunused-variable]\n"
        "    4 |     int unused = 0;\n"
        "      |         ^~~~~~\n"
    )
    for source, words, expected in (
        (warned, (), "1 warning; --warnings shows it\n"),
        (warned, ("--warnings",), shown),
        (unseen, ("--warnings",), ""),
        (warned, ("--warnings",), shown),
    ):
        author.write("csrc/host.cpp", source)
        told = author.told(*ONE, *words, code=0)
        assert re.sub(r"(?m)^(?:1 variant (?:in|not loaded)|loading) .*\n(?:  [^\n]*\[.* s\]\n)*", "", told) == expected
