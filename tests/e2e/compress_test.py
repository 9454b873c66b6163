"""Compressed device code: only what packs it runs again, what reads it reads the same, each choice has its bytes."""

from __future__ import annotations

import json
import struct
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest
from clone import BINDING, CU130, PROJECTS, Driver, action_counts, copy_project, cuda_actions, digests, planned

from py_driver.building import abi_check
from py_driver.inspecting.disassembler import Disassembler
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

_EVERY = 3 * cuda_actions(2) + cuda_actions(1) + 3 + BINDING
"""Those of `linked`: one of its sources is for one architecture; three link the device code of the others."""
_PACKS = 6
_LZ4, _ZSTANDARD = 1 << 13, 1 << 15
_FLAGS = {"none": {0}, "speed": {_LZ4}, "balance": {_ZSTANDARD}, "size": {_ZSTANDARD}}


class _Choice(NamedTuple):
    """What was built with a choice of `--compress`."""

    library: Path
    counts: tuple[int, int, int]
    planned: tuple[int, int, int]


def _build(clone: Driver, project: Path, *options: str) -> _Choice:
    result = json.loads(clone.run("build", project, "--json", f"--variant={CU130}", *options).stdout)
    [library] = (project / "build" / CU130).glob("*.so")
    return _Choice(library, action_counts(result), planned(result))


@pytest.fixture(scope="module")
def choices(clone: Driver, base: Path) -> dict[str, _Choice]:
    """The same project with each choice, the release's first, which is `balance`."""
    source = copy_project(PROJECTS / "linked", base / "compress" / "pressed")
    # Of another name: what is expected of a kernel's actions depends on its earlier builds.
    (source / "torch-ext" / "linked").rename(source / "torch-ext" / "pressed")
    manifest = source / "build.toml"
    manifest.write_text(manifest.read_text().replace('name = "linked"', 'name = "pressed"'))
    built = {}
    for choice in ("release", "none", "speed", "size", "balance"):
        made = _build(clone, source, *([] if choice == "release" else [f"--compress={choice}"]))
        kept = base / "compress" / choice / made.library.name
        kept.parent.mkdir()
        kept.write_bytes(made.library.read_bytes())
        built[choice] = made._replace(library=kept)
    return built


def _images(library: Path) -> list[tuple[int, int, int, int]]:
    """Kind, architecture, flags and stored bytes of each image in `.nv_fatbin`; see device.zig."""
    data, found = library.read_bytes(), []
    (start,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, start + 64 * i) for i in range(count)]
    titles = [data[headers[names][4] + header[0] :].split(b"\0", 1)[0] for header in headers]
    [(_, _, _, _, offset, size)] = [
        header for header, title in zip(headers, titles, strict=True) if title == b".nv_fatbin"
    ]
    at, end = offset, offset + size
    while (at := data.find(struct.pack("<IHH", 0xBA55ED50, 1, 16), at, end)) >= 0:
        (length,) = struct.unpack_from("<Q", data, at + 8)
        place, at = at + 16, at + 16 + length
        while place < at:
            kind, _, head, body = struct.unpack_from("<HHIQ", data, place)
            (arch,), (flags,) = struct.unpack_from("<I", data, place + 28), struct.unpack_from("<Q", data, place + 40)
            found.append((kind, arch, flags & (_LZ4 | _ZSTANDARD), body))
            place += head + body
    return found


def test_only_what_packs_device_code_runs_for_another_compression(choices: dict[str, _Choice]) -> None:
    """The fatbinary of each source, what registers linked code, and one link that reads what a fatbinary made."""
    assert choices["release"].counts == choices["release"].planned == (_EVERY, 0, 0)
    for choice in ("none", "speed", "size"):
        assert choices[choice].counts == choices[choice].planned == (_PACKS, 0, _EVERY - _PACKS)
    # What a release says is what the choice of that name makes, whose actions have run.
    assert choices["balance"].counts == (0, 0, _EVERY)
    assert digests(choices["balance"].library.parent) == digests(choices["release"].library.parent)


def test_each_choice_compresses_as_it_says(choices: dict[str, _Choice]) -> None:
    for choice, flags in _FLAGS.items():
        images = _images(choices[choice].library)
        assert {(kind, arch) for kind, arch, _, _ in images} == {(2, 80), (2, 90)}
        assert {flag for _, _, flag, _ in images} == flags
    sizes = {choice: sum(image[3] for image in _images(made.library)) for choice, made in choices.items()}
    assert sizes["size"] <= sizes["balance"] == sizes["release"] < sizes["speed"] < sizes["none"]


def test_readers_find_the_same_in_each(choices: dict[str, _Choice], tmp_path: Path) -> None:
    tools = Disassembler(Output())
    program = abi_check.build_program(Output())
    seen = {}
    for choice, made in choices.items():
        directory = tmp_path / choice
        directory.mkdir()
        command = [str(tools.program("cuobjdump")), "-xelf", "all", str(made.library)]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        cubins = sorted(digests(directory).values())
        checked = abi_check.check(program, made.library, {}, Releases())
        kernels = sorted((kernel.arch, kernel.symbol, kernel.sass) for kernel in tools.kernels(made.library.parent))
        seen[choice] = (cubins, checked.gpu_code, checked.findings, kernels)
    assert seen["none"][1] == ("sm_80", "sm_90")
    assert len(seen["none"][0]) >= 4
    for choice, found in seen.items():
        assert found == seen["none"], choice


def test_code_of_one_architecture_is_shown_from_a_compressed_library(clone: Driver, base: Path) -> None:
    project = copy_project(clone.root / "examples" / "relu", base / "compress-asm" / "relu")
    words = ("relu_kernel<float>", f"--variant={CU130}", "--archs=9.0", "--json")
    for form in ("--sass", "--ptx"):
        shown = [
            json.loads(clone.run("asm", project, *words, form, *options).stdout)["functions"]
            for options in ([], ["--compress=none"])
        ]
        assert shown[0] == shown[1]
        assert shown[0][0]["code"]
