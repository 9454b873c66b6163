"""What goes wrong in a project or on a disk: one clear message, the right exit code, and nothing half done."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from clone import CPU, CU130, TWO, action_counts, another, copy_project, digests, wait_for_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clone import Built, Driver

pytestmark = [pytest.mark.e2e, pytest.mark.core]


@pytest.fixture
def project(tiny: Built, base: Path, tmp_path: Path) -> Path:
    """A copy of tiny, with what was built of it."""
    project = copy_project(tiny.project, base / "faults" / tmp_path.name)
    for path in tiny.build.rglob("*"):
        if path.is_file():
            to = project / "build" / path.relative_to(tiny.build)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    return project


def _edit(project: Path, old: str, new: str) -> None:
    text = (project / "build.toml").read_text()
    assert old in text
    (project / "build.toml").write_text(text.replace(old, new))


def _link_out(project: Path) -> None:
    (project / "csrc" / "one.h").unlink()
    (project / "csrc" / "one.h").symlink_to("/etc/hostname")


_BROKEN: dict[str, tuple[Callable[[Path], None], int, str, str]] = {
    "source-missing": (lambda p: (p / "csrc" / "one.cpp").unlink(), 2, "E101", "csrc/one.cpp"),
    "manifest-missing": (lambda p: (p / "build.toml").unlink(), 2, "E105", "build.toml"),
    "bad-toml": (lambda p: _edit(p, "[torch]", "[torch"), 2, "E001", "build.toml:"),
    "bad-name": (lambda p: _edit(p, '"tiny"', '"../tiny"'), 2, "E007", "build.toml:2:"),
    "escaping-path": (lambda p: _edit(p, "csrc/two.cu", "../two.cu"), 2, "E102", "../two.cu"),
    "unknown-key": (lambda p: _edit(p, "cuda-capabilities", "cuda-capabilites"), 2, "E003", "cuda-capabilities"),
    "link-out": (_link_out, 2, "E102", "csrc/one.h"),
}


@pytest.mark.parametrize("fault", _BROKEN)
def test_broken_project_is_refused_and_nothing_is_written(installed: Driver, project: Path, fault: str) -> None:
    break_it, code, number, text = _BROKEN[fault]
    break_it(project)
    before = digests(project)
    workspaces = sorted(installed.cache.glob("workspaces/*/*"))
    failed = installed.run("build", project, code=code)
    assert f"error[{number}]" in failed.stderr
    assert text in failed.stderr
    assert failed.stdout == ""
    assert digests(project) == before
    assert sorted(installed.cache.glob("workspaces/*/*")) == workspaces


@pytest.mark.parametrize("glob", ["torch99-*", "torch213-cxx98-*", "torch213-cxx11-cpu-x86_64-windows"])
def test_variant_that_does_not_exist_is_refused(installed: Driver, project: Path, glob: str) -> None:
    before = digests(project)
    failed = installed.run("build", project, f"--variant={glob}", code=3)
    assert "error[E201]" in failed.stderr
    assert digests(project) == before


@pytest.mark.parametrize(
    ("file", "variant"), [("csrc/one.cpp", CPU), ("csrc/two.cu", CU130), ("torch-ext/binding.cpp", CU130)]
)
def test_compile_error_is_shown_and_the_old_build_is_kept(
    installed: Driver, project: Path, file: str, variant: str
) -> None:
    before = digests(project / "build")
    source = project / file
    source.write_text(source.read_text() + "\nint broken() { return no_such_name; }\n")
    line = source.read_text().count("\n")
    failed = installed.run("build", project, f"--variant={variant}", code=5)
    assert "error[E401]" in failed.stderr
    assert "no_such_name" in failed.stderr
    assert f"{project / file}:{line}:" in failed.stderr
    assert "undeclared identifier" in failed.stderr or "is undefined" in failed.stderr
    assert failed.stdout == ""
    assert digests(project / "build") == before


def test_fixed_compile_error_builds(installed: Driver, project: Path) -> None:
    source = project / "csrc" / "one.cpp"
    text = source.read_text()
    source.write_text("int one() { return }\n")
    installed.run("build", project, f"--variant={CPU}", code=5)
    source.write_text(text)
    assert action_counts(installed.build(project, CPU))[1] == 0


def test_compiler_that_is_killed(installed: Driver, project: Path) -> None:
    """As the kernel does when memory is short."""
    source = project / "csrc" / "two.cu"
    text = source.read_text()
    source.write_text(f"{text}\n#include <cub/cub.cuh>\n")
    with installed.start("build", project, f"--variant={CU130}", "--ram=2") as process:
        os.kill(wait_for_process("/cicc", "csrc/two.cu"), signal.SIGKILL)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 5
    assert f"{project}/csrc/two.cu: error: the device compile for 9.0 was killed, or ran out of memory\n" in err
    assert "; a compiler was killed\n" in err
    assert "lower --ram or --jobs" in err
    assert "Traceback" not in err
    source.write_text(text)
    installed.build(project, CU130)


def test_undefined_symbol_fails_the_check(installed: Driver, project: Path) -> None:
    source = project / "csrc" / "one.cpp"
    source.write_text('#include "one.h"\nint elsewhere();\nint one() { return elsewhere(); }\n')
    binding = project / "torch-ext" / "binding.cpp"
    binding.write_text(binding.read_text() + "\nint one();\nint used = one();\n")
    before = digests(project / "build")
    failed = installed.run("build", project, f"--variant={CPU}", code=5)
    assert "undefined-symbol: elsewhere(): no library defines it" in failed.stderr
    assert digests(project / "build") == before


def test_symbol_of_other_releases_fails_the_check_which_names_them(installed: Driver, project: Path) -> None:
    binding = project / "torch-ext" / "binding.cpp"
    old = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    body = f'\nextern "C" void old() __asm__("{old}");\nint called = (old(), 0);\n'
    binding.write_text(binding.read_text() + body)
    failed = installed.run("build", project, f"--variant={CPU}", code=5)
    called = "c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&)"
    finding = "torch 2.13 does not define it; these releases do: 2.4, 2.5, 2.6"
    assert f"undefined-symbol: {called}: {finding}" in failed.stderr


_FULL = """
mount -t tmpfs -o size=96k none "$1" && cp -r "$2" "$1" && cd "$1" && before=$(cat */* | sha256sum) && shift 2 || exit 9
cd / && "$@"
code=$?
[ "$before" = "$(cat "$OLDPWD"/*/* | sha256sum)" ] && [ -z "$(ls -A "$OLDPWD" | grep '^[.]')" ] && exit $code
exit 8
"""
_FULL_OUTPUT = """
out=$1; mount -t tmpfs -o size=300m none "$out" && shift || exit 9
"$@"
code=$?
kill $(cat "$out"/*/server/server.pid.txt)
exit $code
"""
_SMALL = 'mount -t tmpfs -o size=16k none "$1" && shift && exec "$@"'
_READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def test_no_space_for_the_build_directory(installed: Driver, project: Path, namespace: list[str]) -> None:
    (project / "csrc" / "one.h").write_text("#pragma once\nint one();\n// changed\n")
    within = [*namespace, _SMALL, "-", str(project / "build")]
    failed = installed.run("build", project, within=within, code=4)
    assert "error[E304]" in failed.stderr
    assert f"{project}/build" in failed.stderr
    assert action_counts(installed.build(project, TWO))[0] == 0


def test_old_variant_stays_when_there_is_no_space_for_the_new_one(
    installed: Driver, project: Path, namespace: list[str]
) -> None:
    kept = project.parent / f"{project.name}.kept"
    copy_project(project / "build" / CPU, kept / CPU)
    within = [*namespace, _FULL, "-", str(project / "build"), str(kept / CPU)]
    data = project / "torch-ext" / "tiny" / "data.json"
    _edit(project, 'src = ["torch-ext/binding.cpp"]', 'src = ["torch-ext/binding.cpp"]\npyext = ["py", "json"]')
    data.write_text(json.dumps("x" * 100_000))
    failed = installed.run("build", project, f"--variant={CPU}", within=within, code=4)
    assert "error[E304]" in failed.stderr


def test_no_space_for_the_cache(empty: Driver, project: Path, mirror: Path, namespace: list[str]) -> None:
    (empty.cache / "store").mkdir()
    within = [*namespace, _SMALL, "-", str(empty.cache / "store")]
    before = digests(project)
    environ = {"RULES_TORCH_KERNELS_MIRROR": str(mirror)}
    failed = empty.run("build", project, f"--variant={CPU}", within=within, env=environ, code=4)
    assert "error[E304]" in failed.stderr
    assert "RULES_TORCH_KERNELS_CACHE" in failed.stderr
    assert digests(project) == before
    empty.build(project, CPU, env=environ)


@pytest.mark.slow
def test_no_space_for_what_bazel_writes(installed: Driver, project: Path, base: Path, namespace: list[str]) -> None:
    driver = another(installed, base / "full-output")
    driver.output.mkdir(parents=True)
    for path in sorted((project / "build").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    within = [*namespace, _FULL_OUTPUT, "-", str(driver.output)]
    failed = driver.run("build", project, f"--variant={CPU}", within=within, code=4)
    assert "error[E304]" in failed.stderr
    assert not list((project / "build").iterdir())
    assert action_counts(driver.build(project, CPU))[0] > 0


def test_read_only_project(installed: Driver, project: Path, namespace: list[str]) -> None:
    (project / "csrc" / "one.h").write_text("#pragma once\nint one();\n// read only\n")
    within = [*namespace, _READ_ONLY, "-", str(project)]
    for path in sorted((project / "build").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (project / "build").rmdir()
    failed = installed.run("build", project, f"--variant={CPU}", within=within, code=4)
    assert "error[E309]" in failed.stderr
    assert str(project / "build") in failed.stderr
    assert not (project / "build").exists()


def test_project_whose_build_is_there_may_be_read_only(tiny: Built, namespace: list[str]) -> None:
    within = [*namespace, _READ_ONLY, "-", str(tiny.project)]
    assert action_counts(tiny.driver.build(tiny.project, TWO, within=within))[0] == 0


def test_two_builds_at_once_both_succeed(installed: Driver, project: Path) -> None:
    source = project / "csrc" / "one.cpp"
    source.write_text(source.read_text() + "\nint another() { return 3; }\n")
    both = [installed.start("build", project, f"--variant={TWO}", "--json") for _ in range(2)]
    answers = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    ran = [action_counts(json.loads(out))[0] for out, _ in answers]
    assert sorted(ran)[0] == 0
    assert sum(ran) > 0
    assert sorted(path.name for path in (project / "build").iterdir()) == [CPU, CU130]


def test_reader_never_sees_half_a_variant(universal: Built, base: Path) -> None:
    project = copy_project(universal.project, base / "read")
    driver = universal.driver
    package = project / "torch-ext" / "silu_and_mul" / "__init__.py"
    text = package.read_text()
    driver.build(project)
    variant = project / "build" / "torch-universal"
    stop = threading.Event()
    seen: dict[str, set[tuple[str, ...]]] = {}
    absent: list[int] = []

    def read() -> None:
        while not stop.is_set():
            try:
                before = variant.stat().st_ino
                metadata = json.loads((variant / "metadata.json").read_text())
                names = tuple(sorted(path.name for path in variant.iterdir()))
                after = variant.stat().st_ino
            except FileNotFoundError:
                absent.append(1)
                continue
            if before == after:  # else it was exchanged while it was read, and the old one is being removed
                seen.setdefault(metadata["id"], set()).add(names)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(5):
            package.write_text(f"{text}# {number}\n")
            driver.build(project)
    finally:
        stop.set()
        reader.join()
    assert len(seen) >= 5
    assert {len(names) for all_names in seen.values() for names in all_names} == {4}
    assert absent == []
