"""Nothing of the machine gets into a build: no tool, no variable, no header, no library."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clone import (
    BINDING,
    CPU,
    CU130,
    PROJECTS,
    ROCM,
    SHARED,
    copy_project,
    cuda_actions,
    digests,
    hip_actions,
    make_cache,
    remove,
)

from py_driver.system.cache import cache_root

if TYPE_CHECKING:
    from clone import Built, Driver

pytestmark = pytest.mark.e2e

_C_LIBRARY = (
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
)
_FOLDERS = ("/lib/x86_64-linux-gnu", "/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
_HOST = re.compile(r"^(?:-[a-zA-Z-]+=?)?/(?!proc/self/cwd)")


def test_no_tool_of_the_machine_is_run(hostile: Built, traps: Path) -> None:
    assert (traps / "bin" / "gcc").is_file()
    assert hostile.build.is_dir()
    assert [path.name for path in (traps / "sprung").iterdir()] == []


def test_poisoned_variables_and_covered_host_headers_change_no_byte(lean: Built, hostile: Built) -> None:
    assert digests(hostile.build) == digests(lean.build)


@pytest.fixture(scope="module", params=[CU130, ROCM])
def graph(relu: Built, request: pytest.FixtureRequest) -> dict[str, Any]:
    options = ["--output=jsonproto", "--include_param_files"]
    query = f'mnemonic("Kernel.*|Cuda.*|Hip.*|ZigBuild", deps(//examples/relu:{request.param}))'
    found: dict[str, Any] = json.loads(relu.driver.bazel("aquery", *options, query))
    return found


def test_no_action_names_a_file_of_the_machine(graph: dict[str, Any]) -> None:
    assert len(graph["actions"]) >= 4 + BINDING + min(cuda_actions(6), hip_actions(4))
    for action in graph["actions"]:
        texts = action["arguments"] + [text for file in action.get("paramFiles", []) for text in file["arguments"]]
        assert [text for text in texts if _HOST.match(text)] == [], action["mnemonic"]


def test_every_input_is_a_file_of_the_workspace_or_of_a_pinned_archive(graph: dict[str, Any]) -> None:
    fragments = {fragment["id"]: fragment for fragment in graph["pathFragments"]}
    roots = set()
    for artifact in graph["artifacts"]:
        fragment = fragments[artifact["pathFragmentId"]]
        parts: list[str] = []
        while True:
            parts.insert(0, fragment["label"])
            if not fragment.get("parentId"):
                break
            fragment = fragments[fragment["parentId"]]
        roots.add("/".join(parts[:2]) if parts[0] == "external" else parts[0])
    allowed = {"bazel-out", "examples", "rules", "toolchains"}
    pinned = re.compile(r"external/.*torch_kernels_(cc|host_0_17_1|hipify|(cuda|rocm)_\d+_\d+|torch_\d+_\d+(_rocm)?)")
    assert {root for root in roots if root not in allowed and not pinned.fullmatch(root)} == set()


def _c_library(to: Path) -> Path:
    """What NVIDIA's programs need of the machine: a C library, and the part of gcc that every system has."""
    to.mkdir()
    for name in _C_LIBRARY:
        [found, *_] = [path for folder in _FOLDERS if (path := Path(folder, name)).exists()]
        shutil.copy(found, to)
    return to


@pytest.mark.parametrize("variant", [CPU, CU130, ROCM])
def test_all_actions_run_in_a_root_that_has_nothing_else(lean: Built, base: Path, variant: str) -> None:
    (base / f"nothing-{variant}").mkdir()
    library = base / f"nothing-{variant}"
    if variant == CU130:
        library = _c_library(base / "library")
    options = ["--platform_suffix=bare", *(f"--sandbox_add_mount_pair={library}:{name}" for name in ("/lib", "/lib64"))]
    label = f"//examples/lean:{variant}"
    ran = lean.driver.runners(base / f"bare-{variant}.json", *options, label)
    assert ran["linux-sandbox"] >= {CPU: 5, CU130: cuda_actions(2), ROCM: hip_actions(2)}[variant]
    assert ran.get("processwrapper-sandbox", 0) <= 1  # the rules' own program
    assert digests(lean.driver.place(label, *options)) == digests(lean.build / variant)


@pytest.mark.slow
def test_driver_below_tmp_and_a_bazel_below_a_name_with_a_blank_and_a_comma(
    clone: Driver, relu: Built, base: Path
) -> None:
    assert relu.build.is_dir()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        links = [f"bazel-{name}" for name in ("bin", "out", "testlogs", clone.root.name)]
        root = shutil.copytree(clone.root, Path(name, "checkout"), ignore=shutil.ignore_patterns("build", *links))
        place = base / "odd" / "a blank, a comma"
        cache = make_cache(place / "cache", {name: cache_root() / name for name in SHARED})
        command = (str(root / "driver"),)
        driver = replace(clone, command=command, root=root, cache=cache, output=place / "output")
        project = copy_project(PROJECTS / "tiny", Path(name, "tiny"))
        driver.build(project, CPU, CU130)
        assert {path.name for path in (project / "build").iterdir()} == {CPU, CU130}
        remove(base / "odd")


def test_undeclared_header_is_not_found(tiny: Built, base: Path) -> None:
    project = copy_project(tiny.project, base / "undeclared")
    (project / "csrc" / "hidden.h").write_text("#pragma once\n")
    (project / "csrc" / "one.cpp").write_text('#include "hidden.h"\n#include "one.h"\nint one() { return 1; }\n')
    refused = tiny.driver.run("build", project, f"--variant={CPU}", code=2)
    assert "error[E108]: `csrc/hidden.h` is included here" in refused.stderr
    # The driver leaves what stands in an #if to the compiler, which does not find it.
    guarded = '#if 1\n#include "hidden.h"\n#endif\n#include "one.h"\nint one() { return 1; }\n'
    (project / "csrc" / "one.cpp").write_text(guarded)
    failed = tiny.driver.run("build", project, f"--variant={CPU}", code=5)
    assert "one.cpp:2:10: fatal error: 'hidden.h' file not found" in failed.stderr
    assert "error[E401]" in failed.stderr
    assert not (project / "build").exists()


@pytest.mark.parametrize("header", ["X11/X.h", "zlib.h", "/usr/include/stdio.h"])
def test_header_of_the_machine_is_not_found(tiny: Built, base: Path, header: str) -> None:
    project = copy_project(tiny.project, base / "machine" / header.replace("/", "_"))
    (project / "csrc" / "one.cpp").write_text(
        f'#if 1\n#include "{header}"\n#endif\n#include "one.h"\nint one() {{ return 1; }}\n'
    )
    failed = tiny.driver.run("build", project, f"--variant={CPU}", code=5)
    assert f"'{header}' file not found" in failed.stderr


@pytest.mark.parametrize("source", ["csrc/one.cpp", "csrc/two.cu"])
@pytest.mark.parametrize(
    "line", ['#if 1\n#include "{}"\n#endif', '#if __has_include("{}")\n#endif', 'asm(".incbin \\"{}\\"");']
)
def test_header_of_a_toolchain_is_not_found_where_all_are_mounted(
    tiny: Built, base: Path, line: str, source: str
) -> None:
    project = copy_project(tiny.project, base / "mounted" / f"{Path(source).suffix}{len(line)}")
    [header, *_] = tiny.driver.output.glob("*/external/*torch_kernels_cc/gcc/include/c++/*/cstdlib")
    name = Path("/mnt", *header.parts[header.parts.index("external") + 1 :])
    with (project / source).open("a") as file:
        file.write(line.format(name) + "\n")
    failed = tiny.driver.run("build", project, f"--variant={CU130 if source.endswith('.cu') else CPU}", code=5)
    assert "cstdlib is read, but is not an input of the action" in failed.stderr


def test_a_header_that_was_changed_where_it_is_unpacked_is_not_read(tiny: Built, base: Path) -> None:
    """An action gets one file with all headers, which its key names, and reads them where they are unpacked."""
    project = copy_project(tiny.project, base / "unpacked")
    (project / "csrc" / "one.cpp").write_text('#include <cstdlib>\n#include "one.h"\nint one() { return 1; }\n')
    headers = [*tiny.driver.output.glob("*/external/*torch_kernels_cc/gcc/include/c++/*/cstdlib")]
    assert headers
    texts = {header: header.read_text() for header in headers}
    try:
        for header, text in texts.items():
            header.unlink()  # it may be a link to that of another server
            header.write_text("#define EDITED 1\n" + text)
        failed = tiny.driver.run("build", project, f"--variant={CPU}", code=5)
        assert "cstdlib was changed after it was unpacked: undo the change" in failed.stderr
    finally:
        for header, text in texts.items():
            header.write_text(text)
    tiny.driver.build(project, CPU)


def test_date_is_the_same_every_day(tiny: Built, base: Path) -> None:
    project = copy_project(tiny.project, base / "dated")
    dated = '#include "one.h"\nstatic const char* volatile when = __DATE__ " " __TIME__;\n'
    kept = "__attribute__((constructor)) static void keep() { when = when; }\nint one() { return 1; }\n"
    (project / "csrc" / "one.cpp").write_text(dated + kept)
    tiny.driver.run("build", project, f"--variant={CPU}")
    [extension] = (project / "build" / CPU).glob("*.so")
    assert b"Jan  1 1970 00:00:00" in extension.read_bytes()
