"""A setup.py that fails, or means harm: each gives an error that says what it did and where, and leaves nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clone import make_cache
from setup_projects import CPU, SETUP, fault, record, write_project

from py_driver.errors import Code
from py_driver.recording import sandbox
from py_driver.system.cache import CACHE_VARIABLE, cache_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e
HEAD = "import os, sys, subprocess\n"


@pytest.fixture(autouse=True, params=["namespaces", "landlock"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, with the packages that were installed before; each test runs confined in both ways."""
    if sandbox.isolation() != request.param:
        if request.param == "namespaces":
            pytest.skip("no user namespaces here")
        monkeypatch.setattr(sandbox, "isolation", lambda: "landlock")
    shared = {name: cache_root() / name for name in ("venvs", "build-requirements")}
    made = make_cache(tmp_path / "cache", shared)
    monkeypatch.setenv(CACHE_VARIABLE, str(made))
    yield made
    left = [path for path in (made / "recordings").glob("*") if path.suffix != ".lock"] if made.exists() else []
    assert not [path for path in left if path.name.startswith(".")], "a scratch directory is left"


def project(directory: Path, text: str) -> Path:
    return write_project(directory / "project", f"{HEAD}{text}\n")


def test_an_exception_has_its_line(tmp_path: Path) -> None:
    found = fault(project(tmp_path, 'def check():\n    raise RuntimeError("no compiler")\ncheck()'))
    assert (found.code, found.message) == (Code.SETUP_FAILED, "setup.py raises RuntimeError: no compiler")
    assert found.span is not None
    assert (found.span.line, found.span.text) == (3, '    raise RuntimeError("no compiler")')


def test_an_exception_in_another_file_of_the_project_has_its_place(tmp_path: Path) -> None:
    directory = write_project(
        tmp_path / "project", "import sys; sys.path.insert(0, '.')\nimport tools.helper", {"tools/helper.py": "1 / 0\n"}
    )
    found = fault(directory)
    assert found.message == "tools/helper.py raises ZeroDivisionError: division by zero"
    assert found.span is not None
    assert found.span.file.endswith("/tools/helper.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sys.exit(3)", "setup.py ends with sys.exit: 3"),
        ("sys.exit('needs a GPU')", "setup.py ends with sys.exit: needs a GPU"),
        ("os._exit(4)", "setup.py ended its process with the exit code 4, and built no wheel"),
        ("os._exit(0)", "setup.py ended its process with the exit code 0, and built no wheel"),
        ("os.kill(os.getpid(), 11)", "setup.py was ended by SIGSEGV"),
        ("input('continue? ')", "setup.py asks a question, which nobody can answer"),
        ("print(x", "setup.py raises SyntaxError: '(' was never closed"),
        ("bytearray(1 << 40)", "setup.py runs out of memory"),
        ("import nothing_at_all", "setup.py imports `nothing_at_all`, which is not installed"),
        ("import torch.nn", "setup.py imports `torch.nn`, which a recording does not have"),
        ("import triton", "setup.py imports `triton`, which a recording does not have"),
        ("import torch; torch.compile", "setup.py uses `torch.compile`, which a recording does not have"),
        (
            "from torch.utils.cpp_extension import Nothing",
            "setup.py uses `torch.utils.cpp_extension.Nothing`, which a recording does not have",
        ),
        (
            "from torch.utils import cpp_extension; cpp_extension.load('it', ['a.cpp'])",
            "`torch.utils.cpp_extension.load` compiles `it` while setup.py runs",
        ),
        ("subprocess.check_call(['bazel', 'build'])", "setup.py builds with `bazel`, not through setuptools"),
        (
            "subprocess.check_call(['nvcc', '-c', 'b.cu'])",
            "setup.py runs `nvcc -c b.cu`, which fails: Command '['nvcc', "
            "'-c', 'b.cu']' returned non-zero exit status 1.",
        ),
        (
            "subprocess.check_call(['no-such-program'])",
            "setup.py runs `no-such-program`, which fails: [Errno 2] No such file or directory: 'no-such-program'",
        ),
    ],
)
def test_what_a_setup_py_does_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    found = fault(project(tmp_path, text))
    assert found.message == message
    assert found.help
    if "_exit" not in text and "kill" not in text:
        assert found.span is not None
        assert found.span.line == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import urllib.request\nurllib.request.urlretrieve('https://example.invalid/a.whl', 'a.whl')",
            "setup.py tries to download https://example.invalid/a.whl; builds have no network",
        ),
        (
            "import socket\nsocket.create_connection(('192.0.2.1', 80))",
            "setup.py tries to download 192.0.2.1:80; builds have no network",
        ),
    ],
)
def test_a_download_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    found = fault(project(tmp_path, text))
    assert found.message == message
    assert found.span is not None
    assert found.span.line == 3


def test_a_download_that_is_caught_is_noted(tmp_path: Path) -> None:
    text = "import urllib.request\ntry: urllib.request.urlopen('https://example.invalid/')\nexcept OSError: pass\n"
    recorded = record(write_project(tmp_path / "project", text + "\n".join(map(str.strip, SETUP.splitlines()))))
    assert recorded.record.asked == ("https://example.invalid/: no network",)


def test_a_server_of_this_machine_is_not_reached(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = fault(project(tmp_path, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"))
        server.setblocking(False)  # noqa: FBT003  (its own signature)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "builds have no network" in found.message


def test_an_endless_loop_ends(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = fault(project(tmp_path, "while True: pass"), limits={"seconds": 3})
    assert found.message == "setup.py has not ended after 3 s"
    assert time.monotonic() - begun < 20


def test_a_fork_bomb_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING_MARK", str(tmp_path))
    text = "os.getenv('THING_MARK')\nimport time\nwhile True:\n    if os.fork() == 0: time.sleep(600)"
    found = fault(project(tmp_path, text))
    assert found.message == "setup.py starts more than 256 processes"
    assert not _processes(str(tmp_path))


def test_too_much_memory_ends_it(tmp_path: Path) -> None:
    text = "kept = []\nwhile True: kept.append(b'1' * (16 << 20))"
    found = fault(project(tmp_path, text), limits={"memory-bytes": 1 << 30})
    assert found.message == "setup.py uses more than 1 GiB of memory"


def test_too_large_a_file_is_not_written(tmp_path: Path) -> None:
    text = "with open('large', 'wb') as file:\n    while True: file.write(bytes(1 << 20))"
    found = fault(project(tmp_path, text), limits={"file-bytes": 8 << 20})
    assert "File too large" in found.message


def test_too_many_bytes_end_it(tmp_path: Path) -> None:
    text = "import itertools\nfor number in itertools.count():\n    open(f'f{number}', 'wb').write(bytes(1 << 20))"
    found = fault(project(tmp_path, text), limits={"disk-bytes": 1 << 30, "seconds": 60})
    assert found.message == "setup.py writes more than 1 GiB"


def test_a_daemon_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING_MARK", str(tmp_path))
    sleeps = "    if os.fork() == 0:\n        import time; time.sleep(600)\n"
    text = f"os.getenv('THING_MARK')\nif os.fork() == 0:\n    os.setsid()\n{sleeps}    os._exit(0)\n"
    record(write_project(tmp_path / "project", HEAD + text + "\n".join(map(str.strip, SETUP.splitlines()))))
    assert not _processes(str(tmp_path))


@pytest.mark.parametrize("place", ["HOME", "TMP", "PROJECT", "CACHE"])
def test_nothing_outside_is_written_or_read(tmp_path: Path, cache: Path, place: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    outside = {"HOME": home, "TMP": tmp_path, "PROJECT": tmp_path / "project", "CACHE": cache}[place] / "secret"
    text = f"""
for mode in 'r', 'w':
    try:
        print(open({str(outside)!r}, mode).read(), 'LEAKED')
    except OSError as problem:
        print(problem)
sys.exit(os.path.exists({str(outside)!r}))
"""
    directory = project(tmp_path, text)
    outside.write_text("hush", encoding="utf-8")
    found = fault(directory)
    assert outside.read_text(encoding="utf-8") == "hush"
    assert "LEAKED" not in found.help


def test_the_home_of_the_user_is_not_there(tmp_path: Path) -> None:
    text = (
        f"sys.exit(str([os.path.expanduser('~') == {os.path.expanduser('~')!r}, os.listdir(os.path.expanduser('~'))]))"  # noqa: PTH111
    )
    assert fault(project(tmp_path, text)).message == "setup.py ends with sys.exit: [False, []]"


def test_no_secret_of_the_environment_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "hush-hush")
    monkeypatch.setenv("THING_OPTION", "on")
    monkeypatch.setenv("UNNAMED", "hush-hush")
    text = "sys.exit(' '.join([os.getenv('THING_OPTION', ''), os.getenv('HUB_TOKEN', 'none'), str(dict(os.environ))]))"
    message = fault(project(tmp_path, text)).message
    assert message.startswith("setup.py ends with sys.exit: on none ")
    assert "hush" not in message


def test_the_environment_of_other_processes_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "hush-hush")
    text = """
import glob
found = []
for path in glob.glob('/proc/*/environ'):
    try:
        found.append(b'hush' in open(path, 'rb').read())
    except OSError:
        pass
sys.exit(str(any(found)))
"""
    assert fault(project(tmp_path, text)).message == "setup.py ends with sys.exit: False"


def test_the_original_is_not_changed(tmp_path: Path) -> None:
    text = "import os\nopen('a.cpp', 'a').write('changed')\nos.remove('b.cu')\nopen('b.cu', 'w').write('// new')\n"
    directory = write_project(tmp_path / "project", text + "\n".join(map(str.strip, SETUP.splitlines())))
    before = {path: path.read_bytes() for path in directory.rglob("*")}
    recorded = record(directory)
    assert {path: path.read_bytes() for path in directory.rglob("*")} == before
    assert recorded.record.files == ("a.cpp", "b.cu")
    assert (recorded.directory / "tree" / "b.cu").read_text(encoding="utf-8") == "// new"


def test_cuda_without_cuda_fails_as_with_torch(tmp_path: Path) -> None:
    found = fault(write_project(tmp_path / "project"), CPU)
    assert found.message.startswith("setup.py raises OSError: CUDA_HOME environment variable is not set")
    assert found.span is not None
    assert found.span.line == 7


def test_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    directory = write_project(tmp_path / "project")
    (tmp_path / "secret").write_text("hush", encoding="utf-8")
    (directory / "data").symlink_to(tmp_path / "secret")
    found = fault(directory)
    assert (found.code, found.message) == (
        Code.PATH_ESCAPES,
        f"`data` of the project is a link that leads out of it, to {tmp_path / 'secret'}",
    )


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    directory = write_project(tmp_path / "project")
    (directory / "b.cu").unlink()
    found = fault(directory)
    assert (found.code, found.message) == (Code.FILE_MISSING, "`b.cu`, a source of `thing_cuda`, does not exist")
    assert found.span is not None
    assert found.span.line == 7


@pytest.mark.parametrize(
    "forged", ['{"wheel": "../../x", "asked": [], "arch_list": ""}', '{"failure": 1}', '{"needs": 2}', "[]", "x"]
)
def test_a_forged_result_is_no_recording(tmp_path: Path, forged: str) -> None:
    text = f"open(os.path.dirname(os.getcwd()) + '/out/result.json', 'w').write({forged!r})\nos._exit(0)"
    found = fault(project(tmp_path, text))
    assert found.code is Code.SETUP_FAILED


def _processes(mark: str) -> list[str]:
    """The processes that have a variable with this value: other recordings may run on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_text(encoding="utf-8"))
        except OSError:
            continue
    return found
