"""A compiler reads its inputs and nothing else of the machine, whether a sandbox sees to that or we do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from clone import CPU, CU130, copy_project, stop_servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clone import Built

pytestmark = pytest.mark.e2e

_NO_NAMESPACES = ["unshare", "--user", "--map-root-user", "sh", "-c"]
_NO_NAMESPACES += ['echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "-"]
_WEAK = "note: this machine allows no user namespaces, so no sandbox"
_NO_LANDLOCK = """
import ctypes, errno, os, struct, sys
create_ruleset, load, equal, give, no, yes = 444, 0x20, 0x15, 0x06, 0x50000 | errno.ENOSYS, 0x7FFF0000
filters = [(load, 0, 0, 0), (equal, 0, 1, create_ruleset), (give, 0, 0, no), (give, 0, 0, yes)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filters))
program = ctypes.create_string_buffer(struct.pack("HP", len(filters), ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command to which the kernel has no Landlock: a filter of system calls says so."""


class Trick(NamedTuple):
    """A way to read a file that no action has as an input.

    Attributes:
        source: of the project, at the beginning of which the text is put.
        text: what reads; `HOST` is a directory of the machine, `UP` the way there from anywhere.
        hidden: what the compiler says where the sandbox hides the file; empty if it goes on without.
    """

    source: str
    text: str
    hidden: str


def _assembled(directive: str) -> str:
    return _asm(f".{directive} ")


def _asm(directive: str, name: str = "HOST/file", end: str = "") -> str:
    return f'asm(".section .rodata\\n{directive}\\"{name}\\"\\n{end}.text");\n'


def _stringised(path: str) -> str:
    name = f'#define S(x) #x\n#define T(x) S(x)\n#define NAME "{path}"\n'
    return f'{name}asm(".section .rodata\\n" T(.incbin) " " T(NAME) "\\n.text");\n'


_SPELLINGS = {
    "joined": _asm('.inc" "bin '),
    "octal": _asm(".inc\\142in "),
    "hexadecimal": _asm(".inc\\x62in "),
    "stringised": _stringised("HOST/file"),
    "macro-of-the-assembler": _asm(".macro m a b\\n.\\\\a\\\\b ", end=".endm\\nm inc bin\\n"),
    "repeated": _asm(".irp x, incbin\\n.\\\\x ", end=".endr\\n"),
    "included": _asm('.incl" "ude '),
}
"""Ways in which no text names what an assembler reads."""


_CPP, _CU, _BINDING = "csrc/one.cpp", "csrc/two.cu", "torch-ext/binding.cpp"
_MACRO = '#define FILE "HOST/file"\n#include FILE\n'
_EMBED = "extern const unsigned char bytes[];\nconst unsigned char bytes[] = {\n#embed FILE\n};\n"
_KEPT = '#define SIGN #\nSIGN include "HOST/file"\n'
_ESCAPED = _assembled("incbin").replace("HOST", "\\\\057HOST")
_TRICKS = {
    "kept-binding": Trick(_BINDING, _KEPT, "HOST/file is read, but is not an input"),
    "kept-cuda": Trick(_CU, _KEPT, "HOST/file is read, but is not an input"),
    "incbin-in-capitals": Trick(_CPP, _assembled("INCBIN"), "Could not find incbin file 'HOST/file'"),
    "incbin-with-an-escape": Trick(_CPP, _ESCAPED, "Could not find incbin file '/HOST/file'"),
    "macro": Trick(_CPP, _MACRO, "HOST/file' file not found"),
    "macro-binding": Trick(_BINDING, _MACRO, "HOST/file' file not found"),
    "macro-cuda": Trick(_CU, _MACRO, "HOST/file' file not found"),
    "has-include": Trick(_CPP, '#if __has_include("HOST/file")\n#define ANSWER 2\n#endif\n', ""),
    "proc": Trick(_CPP, '#if __has_include("/proc/self/cmdline")\n#define ANSWER 2\n#endif\n', ""),
    "embed": Trick(_CPP, _EMBED.replace("FILE", '"HOST/file"'), "HOST/file' file not found"),
    "upwards": Trick(_CPP, '#if 1\n#include "UP/file"\n#endif\n', "UP/file' file not found"),
    "include-next": Trick(_CU, '#if 1\n#include_next "HOST/file"\n#endif\n', "HOST/file' file not found"),
    "incbin": Trick(_CPP, _assembled("incbin"), "Could not find incbin file 'HOST/file'"),
    "assembler-include": Trick(_CPP, _assembled("include"), "Could not find include file 'HOST/file'"),
    "incbin-cuda": Trick(_CU, _assembled("incbin"), "HOST/file is read, but is not an input"),
    "ptx-joined": Trick(
        _CU,
        '__global__ void more() { asm volatile(".inc" "lude \\"HOST/file\\";"); }\n',
        "Parsing error near '.include'",
    ),
    "ptx": Trick(
        _CU,
        '__global__ void more() { asm volatile(".include \\"HOST/file\\""); }\n',
        "HOST/file is read, but is not an input",
    ),
}
_TRICKS |= {
    f"{name}-{Path(source).stem}": Trick(source, text, "Could not find inc")
    for name, text in _SPELLINGS.items()
    for source in (_CPP, _CU, _BINDING)
}


@pytest.fixture(scope="module")
def host(base: Path) -> Path:
    """A directory of the machine with a file in it."""
    (base / "host").mkdir()
    (base / "host" / "file").write_text("// of the machine\n")
    return base / "host"


def _tricked(tiny: Built, to: Path, trick: Trick, host: Path) -> tuple[Path, str]:
    """A project with a trick in it, and the variant that falls for it."""
    project = copy_project(tiny.project, to)
    source = project / trick.source
    source.write_text(_filled(trick.text, host) + source.read_text())
    return project, CU130 if trick.source == _CU else CPU


def _filled(text: str, host: Path) -> str:
    return text.replace("HOST", str(host)).replace("UP", "../" * 40 + str(host)[1:])


@pytest.mark.parametrize("name", _TRICKS)
def test_sandbox_hides_the_machine(tiny: Built, base: Path, host: Path, name: str) -> None:
    trick = _TRICKS[name]
    project, variant = _tricked(tiny, base / "hidden" / name, trick, host)
    done = tiny.driver.run("build", project, f"--variant={variant}", code=5 if trick.hidden else 0)
    assert _filled(trick.hidden, host) in done.stderr
    assert _WEAK not in done.stderr
    if not trick.hidden:
        [made], [plain] = ([*(directory / "build" / CPU).glob("*.so")] for directory in (project, tiny.project))
        assert len(made.read_bytes()) == len(plain.read_bytes())


@pytest.fixture(scope="module")
def weak(tiny: Built) -> Iterator[Sequence[str]]:
    """A command that runs commands where no process can make a user namespace; Bazel's server starts there."""
    done = subprocess.run([*_NO_NAMESPACES, "unshare", "--user", "true"], capture_output=True, check=False)
    if b"unshare failed" not in done.stderr:
        pytest.skip("this machine does not allow a namespace in which there are no further ones")

    _stop(tiny)
    yield _NO_NAMESPACES
    _stop(tiny)


def _stop(built: Built) -> None:
    """End Bazel's servers: the next ones start where the driver does then."""
    stop_servers(built.driver.output.iterdir())


@pytest.mark.parametrize("name", [name for name in _TRICKS if name not in {"has-include", "proc"}])
def test_without_a_sandbox_what_was_read_is_refused(
    tiny: Built, base: Path, host: Path, weak: Sequence[str], name: str
) -> None:
    trick = _TRICKS[name]
    project, variant = _tricked(tiny, base / "weak" / name, trick, host)
    done = tiny.driver.run("build", project, f"--variant={variant}", within=weak, code=5)
    path = f"{host}/file"[1:]  # the compiler says the way up as it looks from the source
    said = (
        f"{path} is read, but is not an input",
        f"{path}': Permission denied",
        _filled(trick.hidden, host),
    )
    assert any(text in done.stderr for text in said)
    assert done.stderr.count(_WEAK) == 1


@pytest.mark.parametrize("path", ["HOST/file", "/proc/self/cmdline"])
def test_without_a_sandbox_what_was_found_is_refused(
    tiny: Built, base: Path, host: Path, weak: Sequence[str], path: str
) -> None:
    text = f'#if __has_include("{path}")\n#endif\n'
    place = base / "weak" / path.rpartition("/")[2]
    project, _ = _tricked(tiny, place, Trick(_CPP, text, ""), host)
    done = tiny.driver.run("build", project, f"--variant={CPU}", within=weak, code=5)
    assert f"cannot open file '{_filled(path, host)}': Permission denied" in done.stderr


def test_what_was_made_without_a_sandbox_is_not_taken_with_one(
    tiny: Built, base: Path, host: Path, weak: Sequence[str]
) -> None:
    project, _ = _tricked(tiny, base / "weak" / "kept", Trick(_CPP, "int of_this_test;\n", ""), host)
    tiny.driver.run("build", project, f"--variant={CPU}", within=weak)
    again = tiny.driver.build(project, CPU, within=weak)
    assert sum(row["actions"]["run"] for row in again["variants"]) == 0
    _stop(tiny)
    better = tiny.driver.build(project, CPU)
    _stop(tiny)
    assert sum(row["actions"]["run"] for row in better["variants"]) > 0


@pytest.mark.slow
def test_without_landlock_texts_are_looked_at_and_no_more_is_claimed(
    tiny: Built, base: Path, host: Path, weak: Sequence[str]
) -> None:
    _stop(tiny)
    without = [sys.executable, "-c", _NO_LANDLOCK, *weak]
    place = base / "weak" / "without landlock"
    plain, _ = _tricked(tiny, place / "plain", Trick(_CPP, _assembled("incbin"), ""), host)
    done = tiny.driver.run("build", plain, f"--variant={CPU}", within=without, code=5)
    assert f"{host}/file is read, but is not an input" in done.stderr
    assert "has no Landlock, so nothing hides its files from compilers" in done.stderr
    joined, _ = _tricked(tiny, place / "joined", Trick(_CPP, _SPELLINGS["joined"], ""), host)
    tiny.driver.run("build", joined, f"--variant={CPU}", within=without)
    _stop(tiny)
    refused = tiny.driver.run("build", joined, f"--variant={CPU}", within=weak, code=5)
    assert f"Could not find incbin file '{host}/file'" in refused.stderr


@pytest.mark.parametrize("source", [_CPP, _CU, _BINDING])
@pytest.mark.parametrize("spelling", _SPELLINGS)
def test_toolchains_that_the_sandbox_mounts_are_not_read(
    tiny: Built, base: Path, host: Path, source: str, spelling: str
) -> None:
    [pack, *_] = tiny.driver.output.glob("*/external/*torch_kernels_cc/headers.pack")
    path = f"/mnt/{pack.parent.name}/headers.pack"
    trick = Trick(source, _SPELLINGS[spelling].replace("HOST/file", path), "")
    place = base / "mounted" / f"{spelling}-{Path(source).stem}"
    project, variant = _tricked(tiny, place, trick, host)
    done = tiny.driver.run("build", project, f"--variant={variant}", code=5)
    assert f"file '{path}'" in done.stderr


def test_library_that_an_object_names_is_not_linked(tiny: Built, base: Path, host: Path) -> None:
    text = '#pragma comment(lib, "HOST/file")\n'
    project, _ = _tricked(tiny, base / "named", Trick(_CPP, text, ""), host)
    tiny.driver.run("build", project, f"--variant={CPU}")


@pytest.mark.slow
def test_without_a_sandbox_the_bytes_are_the_same(tiny: Built, weak: Sequence[str]) -> None:
    done = tiny.driver.run("verify", tiny.project, within=weak)
    assert done.stderr.count(_WEAK) == 1
