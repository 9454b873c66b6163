"""CUTLASS: which releases are locked, what they are locked to, and what a section gets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sections import CPU, GENERAL, TORCH, failure, make

from py_driver.building.selection import archives, other_openmp
from py_driver.fetch.entry import parse_entry
from py_driver.manifest.model import DEPENDS
from py_driver.matrix.releases import Releases, openmp_file
from py_driver.matrix.torch_openmp import read_file
from py_driver.plan.buildfile import render

if TYPE_CHECKING:
    from pathlib import Path

# What upstream's kernel-builder takes each name for (nix-builder/lib/deps.nix, August 2026).
_RELEASES = {
    "cutlass_2_10": "2.10.0",
    "cutlass_3_5": "3.5.1",
    "cutlass_3_6": "3.6.0",
    "cutlass_3_8": "3.8.0",
    "cutlass_3_9": "3.9.2",
    "cutlass_4_0": "4.0.0",
    "cutlass_4_4": "4.4.2",
    "cutlass_4_5": "4.5.2",
}


def test_locked_are_the_releases_that_upstream_takes() -> None:
    assert set(_RELEASES) == {name for name in DEPENDS if name.startswith("cutlass")}
    assert set(Releases().lock.libraries) == set(_RELEASES) - {"cutlass_2_10"}
    for name, entry in Releases().lock.parts["cutlass"].items():
        assert entry.get("upstream", entry["release"]) == _RELEASES[f"cutlass_{name.replace('.', '_')}"]
        if "vendored_by" in entry:
            assert entry["vendored_by"] == "{name} {version}".format_map(entry["archive"])
        else:
            assert entry["archive"]["version"] == f"{entry['release']}.0"


def test_another_release_than_upstream_takes_gives_a_note(tmp_path: Path) -> None:
    made = make(tmp_path, GENERAL + TORCH + CPU.replace("[]", '["cutlass_4_5", "cutlass_4_4"]'))
    said = "`cutlass_4_5` is CUTLASS 4.5.0, as flashinfer-python 0.6.14 has it; kernel-builder uses 4.5.2"
    assert [note.message for note in made.notes if "CUTLASS" in note.message] == [said]


def test_entries_come_once_and_torch_has_none() -> None:
    entries = Releases().lock.library_entries(["torch", "cutlass_3_6", "cutlass_3_5", "cutlass_3_6"])
    assert [entry.version for entry in entries] == ["3.5.1.0", "3.6.0.0"]
    assert all(entry.include for entry in entries)


def test_build_needs_the_releases_that_its_sections_name(tmp_path: Path) -> None:
    made = make(tmp_path, GENERAL + TORCH + CPU.replace("[]", '["torch", "cutlass_3_8"]'))
    chosen = made.variants[:1]
    extra = set(archives(made, chosen, Releases().lock)) - set(
        Releases().lock.entries_for(variant.needs for variant in chosen)
    )
    assert {entry.label for entry in extra} == {"nvidia-cutlass 3.8.0.0"}
    assert 'depends = [\n        "cutlass_3_8",\n        "torch",\n    ],' in render(made, "")


@pytest.mark.parametrize(("flags", "all_cxx"), [('cxx-flags = ["-fopenmp"]', False), ("", True)])
def test_build_needs_gcc_for_openmp_or_if_it_is_chosen(tmp_path: Path, flags: str, all_cxx: bool) -> None:  # noqa: FBT001
    made, lock = make(tmp_path, GENERAL + TORCH + CPU + flags + "\n"), Releases().lock
    found = archives(made, made.variants[:1], lock, gcc=all_cxx)
    assert {"g++-12", "libisl23", "libgomp1"} <= {entry.name for entry in found}
    assert len(found) == len({entry.key for entry in found})
    plain = make(tmp_path, GENERAL + TORCH + CPU)
    assert set(archives(plain, plain.variants[:1], lock)) == set(found) - set(lock.gcc_entries(["x86_64"])) | {
        parse_entry(entry) for entry in lock.parts["cc"]["gcc"]
    }


def test_a_torch_that_calls_its_runtime_otherwise_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, GENERAL + TORCH + 'cxx-flags = ["-fopenmp"]\n' + CPU)
    assert other_openmp(made, made.variants) == {"2.9 aarch64": "libgomp-a49a47f9.so.1.0.0"}
    recorded = read_file(openmp_file())
    other = {**recorded, "2.13": {**recorded["2.13"], "soname": "libgomp-0123.so.1"}}
    del other["2.14"]
    monkeypatch.setattr("py_driver.building.selection.read_file", lambda _path: other)
    assert other_openmp(made, made.variants) == {
        "2.9 aarch64": "libgomp-a49a47f9.so.1.0.0",
        "2.13": "libgomp-0123.so.1",
        "2.14": "",
    }
    plain = make(tmp_path, GENERAL + TORCH + CPU)
    assert other_openmp(plain, plain.variants) == {}


def test_release_that_is_not_locked(tmp_path: Path) -> None:
    [found] = failure(tmp_path, GENERAL + TORCH + CPU.replace("[]", '["cutlass_2_10"]')).diagnostics
    assert found.message.startswith("CUTLASS 2.10 is not locked: ")
    assert "cutlass_3_6" in found.help


def test_every_cuda_release_has_the_headers_of_its_libraries() -> None:
    parts = "cublas cuda-cccl cuda-nvrtc cuda-profiler-api cuda-runtime cufft curand cusolver cusparse nvjitlink nvtx"
    for version, release in Releases().lock.parts["cuda"].items():
        major = version.partition(".")[0]
        suffix = "" if major == "13" else f"-cu{major}"
        wanted = {f"nvidia-{part}{suffix}" for part in parts.split() if (part, version) != ("nvjitlink", "11.8")}
        assert wanted <= {archive["name"] for archive in release["archives"]}, version
