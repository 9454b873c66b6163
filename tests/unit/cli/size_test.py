"""`driver size` on real libraries: what it prints, and what it refuses."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from wheels import small_wheel

from py_driver import __main__
from py_driver.cli import size
from py_driver.inspecting import compression

LIBRARIES = Path(__file__).parents[2] / "abi" / "libraries"
GPU, HIP, GOOD = (str(LIBRARIES / f"{name}.so") for name in ("gpu", "hip", "good"))


@pytest.fixture(autouse=True)
def no_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No toolkit is in the store; tests/e2e/size_test.py compresses with one."""
    monkeypatch.setattr(compression, "cache_root", lambda: tmp_path / "cache")


def found(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:  # noqa: ANN401  (JSON)
    assert __main__.main(["size", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_sums_of_several_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    told = found(capsys, GPU, HIP, GOOD)
    sizes = [Path(path).stat().st_size for path in (GPU, HIP, GOOD)]
    assert told["bytes"] == sum(sizes) == sum(group["stored"] for group in told["sections"])
    assert [library["bytes"] for library in told["libraries"]] == sizes
    assert [library["file"] for library in told["libraries"]] == [GPU, HIP, GOOD]
    for library in told["libraries"]:
        assert sum(group["stored"] for group in library["sections"]) == library["bytes"]
        assert sum(group["stored"] for group in library["archs"]) == sum(i["stored"] for i in library["images"])
    one, two = found(capsys, GPU), found(capsys, str(LIBRARIES / "good.so"))
    assert two["archs"] == two["kernels"] == []
    assert one["kernels"] == told["libraries"][0]["kernels"]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_a_table_shows_what_it_leaves_out(capsys: pytest.CaptureFixture[str], count: int) -> None:
    assert __main__.main(["size", GPU, "--by", "section", "--rows", str(count)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == min(count + 1, len(lines))
    numbers = [int(line.split()[-2].replace(",", "")) for line in lines]
    assert sum(numbers) == Path(GPU).stat().st_size
    assert lines[-1].endswith("%")
    assert (" more" in lines[-1]) == (count < 50)


def test_without_a_choice_the_tables_that_matter_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["size", GPU]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{GPU}: {Path(GPU).stat().st_size:,} bytes\n\nsection ")
    for head in ("\narch ", "\nkernel ", "\nto save "):
        assert head in shown
    assert __main__.main(["size", GOOD]) == 0
    shown = capsys.readouterr().out
    assert "\nfunction " in shown
    assert "\narch " not in shown
    assert "\nkernel " not in shown


def test_slices_are_told_from_whole_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "build.toml").touch()
    places = {"": tmp_path / "build" / "a", "sm90": tmp_path / "build-slices" / "sm90" / "a"}
    for part, library in (("", GPU), ("sm90", GOOD)):
        places[part].mkdir(parents=True)
        shutil.copy(library, places[part])
        (places[part] / "metadata.json").write_text(json.dumps({"slice": part} if part else {}))
    told = found(capsys, str(tmp_path))
    assert [group["name"] for group in told["slices"]] == ["whole"]
    told = found(capsys, str(tmp_path), "--slice")
    assert [(group["name"], group["members"], group["stored"]) for group in told["slices"]] == [
        (name, 1, Path(library).stat().st_size) for name, library in (("whole", GPU), ("sm90", GOOD))
    ]
    assert [library["slice"] for library in told["libraries"]] == ["", "sm90"]
    assert __main__.main(["size", str(tmp_path), "--slice"]) == 0
    assert "\nslice  libraries  archs" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "build-slices")
    assert __main__.main(["size", str(tmp_path), "--slice"]) == 2
    assert "has no slices" in capsys.readouterr().err


def test_a_wheel_says_of_which_slice_a_library_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relu-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(GOOD, "relu/_variants/a/good.so")
        archive.writestr("relu/_variants/a/metadata.json", '{"slice": "sm90"}')
    assert [group["name"] for group in found(capsys, str(path))["slices"]] == ["sm90"]


def test_what_would_save_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    savings = found(capsys, GPU)["savings"]
    by = {(saving["kind"], saving["subject"]): saving for saving in savings}
    assert by["ptx", "12.0"]["bytes"] == by["ptx", "9.0a"]["bytes"] == 176
    assert by["arch", "8.0"]["bytes"] == 3048
    assert "compile the PTX for 12.0" in by["arch", "12.0"]["how"]
    assert "have no code" in by["arch", "8.0"]["how"]
    for choice, level in (("balance", 3), ("size", 19)):
        packed = by["compression", choice]
        assert f"Zstandard, level {level}" in packed["how"]
        assert 8000 < packed["bytes"] < 17000  # of 17,152; fatbinary of CUDA 13.0 saves 12,816 with `size`


def test_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "gpu.svg"
    assert __main__.main(["size", GPU, "--svg", str(picture), "--by", "arch"]) == 0
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<svg ")
    assert f"gpu.so: {Path(GPU).stat().st_size:,} bytes" in text
    assert "10.0f SASS, k: 1," in text
    assert capsys.readouterr().out.startswith("arch ")
    assert __main__.main(["size", GPU, "--svg", str(tmp_path / "no" / "gpu.svg")]) == 4
    assert "error[E309]: cannot write" in capsys.readouterr().err


def test_two_builds(capsys: pytest.CaptureFixture[str]) -> None:
    told = found(capsys, HIP, "--compare", GPU, code=1)
    sizes = [Path(path).stat().st_size for path in (GPU, HIP)]
    assert [told["before"], told["after"], told["difference"]] == [*sizes, sizes[1] - sizes[0]]
    assert {change["verdict"] for change in told["archs"]} == {"added", "removed"}
    same = found(capsys, GPU, "--compare", GPU)
    assert same["difference"] == 0
    assert {change["verdict"] for change in same["instances"]} == {"same"}
    assert __main__.main(["size", HIP, "--compare", GPU, "--by", "arch"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{sizes[0]:,} bytes before, {sizes[1]:,} bytes after: {sizes[1] - sizes[0]:+,}"
    assert lines[2].split() == ["arch", "has", "change", "before", "after", "bytes"]
    assert all(line.split()[2] in {"added", "removed"} for line in lines[3:])
    assert __main__.main(["size", HIP, "--compare", GPU, "--by", "kernel"]) == 2
    assert "--compare has no table `kernel`\n = help: its tables are section, arch, instance" in capsys.readouterr().err


def wheel_of(directory: Path, *libraries: str) -> Path:
    path = directory / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for library in libraries:
            archive.write(library, f"thing/{Path(library).name}")
        archive.writestr("thing/__init__.py", "")
    return path


def test_a_wheel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, GPU, GOOD)
    told = found(capsys, str(wheel))
    assert told["bytes"] == Path(GPU).stat().st_size + Path(GOOD).stat().st_size
    assert [library["file"] for library in told["libraries"]] == [f"{wheel}/thing/gpu.so", f"{wheel}/thing/good.so"]
    with zipfile.ZipFile(wheel) as archive:
        sizes = [archive.getinfo(f"thing/{name}.so").compress_size for name in ("gpu", "good")]
    assert [library["packed"] for library in told["libraries"]] == sizes
    assert any(saving["kind"] == "compression" for saving in told["savings"])


def test_a_project_means_its_built_variants(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    variant = tmp_path / "build" / "torch213-cxx11-cu130-x86_64-linux"
    (tmp_path / "build.toml").write_text("")
    assert __main__.main(["size", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"error[E101]: {tmp_path} has no built variants\n = help: build it first: driver build {tmp_path}" in said
    variant.mkdir(parents=True)
    assert __main__.main(["size", str(tmp_path)]) == 2
    assert f"{tmp_path / 'build'} contains no shared library" in capsys.readouterr().err
    shutil.copy(GPU, variant / "_thing.abi3.so")
    shutil.copy(GOOD, tmp_path / "other.so")
    [library] = found(capsys, str(tmp_path))["libraries"]
    assert library["file"] == str(variant / "_thing.abi3.so")


def test_bad_input_has_an_error_for_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("INPUT(libother.so)\n")
    (tmp_path / "short.so").write_bytes(Path(GPU).read_bytes()[:9000])
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.whl").write_text("no zip")
    python = small_wheel(tmp_path, "plain", "1.0")
    words = [str(tmp_path / name) for name in ("text.so", "short.so", "empty", "no.whl", python.name, "not-there")]
    assert __main__.main(["size", *words, str(LIBRARIES / "i386.so")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for line in (
        f"error[E103]: {tmp_path}/text.so is not an ELF file",
        f"error[E103]: {tmp_path}/short.so cannot be read: truncated or malformed: the section headers",
        f"error[E101]: {tmp_path}/empty contains no shared library",
        f"error[E103]: {tmp_path}/no.whl cannot be read as a wheel",
        f"error[E101]: {python} contains no shared library",
        f"error[E101]: {tmp_path}/not-there does not exist",
        "i386.so cannot be read: truncated or malformed: the header",
        "7 errors",
    ):
        assert line in said.err


def test_the_words_of_the_tables_are_their_own() -> None:
    assert [*size._tables()] == [word for word in size._WORDS if word != "saving"]  # noqa: SLF001
