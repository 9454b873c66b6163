"""With which releases libraries load: as files, as a wheel, as an installed package."""

from __future__ import annotations

import json
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from py_driver import __main__
from py_driver.cli.load_tables import short_names, spans
from py_driver.inspecting.library_files import package_of
from py_driver.inspecting.library_needs import abi_of, is_torch, needs_of
from py_driver.inspecting.load_table import Build, load_table
from py_driver.inspecting.recorded_symbols import Recorded
from py_driver.matrix.releases import Releases
from py_driver.system.elf import mapped

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.inspecting.load_table import Loads

RECORDED = Recorded(Releases())
NEW = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
METADATA = b"Metadata-Version: 2.1\nName: thing\nVersion: 1\nRequires-Dist: torch>=2.9\nRequires-Python: >=3.10\n"
WHEEL = b"Wheel-Version: 1.0\nTag: cp310-abi3-manylinux_2_17_x86_64\n"


def compiled(directory: Path, name: str, symbols: list[str], *libraries: str) -> Path:
    """A library that takes symbols from others, and needs libraries of some names."""
    for library in libraries:
        stub = directory / library
        own = [symbol for symbol in symbols if library.startswith(("libcudart", "libc10.")) or symbol.startswith("Py")]
        (directory / "stub.c").write_text("".join(f"void {symbol}(void){{}}\n" for symbol in own))
        link = ["-shared", "-nostdlib", f"-Wl,-soname,{library}", "-o", str(stub)]
        subprocess.run(["gcc", str(directory / "stub.c"), *link], check=True)
    calls = "".join(f"void {symbol}(void);\nvoid call_{i}(void){{ {symbol}(); }}\n" for i, symbol in enumerate(symbols))
    (directory / "source.c").write_text(calls)
    path = directory / name
    needed = [str(directory / library) for library in libraries]
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", str(directory / "source.c")]
    subprocess.run([*command, *needed, "-o", str(path)], check=True)
    for library in libraries:
        (directory / library).unlink()
    return path


def loads_of(path: Path) -> Loads:
    with mapped(path) as elf:
        return load_table([needs_of(elf, path.name)], RECORDED)[0]


def test_a_library_loads_only_with_the_abi_that_its_symbols_name(tmp_path: Path) -> None:
    new = loads_of(compiled(tmp_path, "new.so", [NEW], "libc10.so"))
    old = loads_of(compiled(tmp_path, "old.so", [OLD], "libc10.so"))
    assert new.uses == {"torch"}
    assert not new.builds[Build("2.13", "cxx11", "cpu")]
    assert [missing.name for missing in new.builds[Build("2.4", "cxx98", "cpu")]] == [NEW]
    assert not old.builds[Build("2.4", "cxx98", "cpu")]
    assert [missing.name for missing in old.builds[Build("2.13", "cxx11", "cpu")]] == [OLD]


def test_what_is_not_recorded_of_the_other_abi_is_uncertain(tmp_path: Path) -> None:
    new = loads_of(compiled(tmp_path, "new.so", [NEW], "libc10.so"))
    assert Build("2.4", "cxx11", "cpu") in new.uncertain
    assert Build("2.13", "cxx11", "cpu") not in new.uncertain


def test_a_library_of_another_major_release_of_cuda_is_missing(tmp_path: Path) -> None:
    path = compiled(tmp_path, "gpu.so", [NEW, "cudaMalloc"], "libc10.so", "libcudart.so.12")
    builds = loads_of(path).builds
    assert not builds[Build("2.10", "cxx11", "cu126")]
    [missing] = builds[Build("2.10", "cxx11", "cu130")]
    assert (missing.name, missing.why) == ("libcudart.so.12", "cu130 has libcudart.so.13")
    assert "libcudart.so.12" in {missing.name for missing in builds[Build("2.10", "cxx11", "cpu")]}


def test_a_function_that_a_release_of_cuda_dropped_is_missing_there(tmp_path: Path) -> None:
    path = compiled(tmp_path, "gpu.so", ["cudaGetDeviceProperties_v2"])
    toolkits = loads_of(path).toolkits
    assert toolkits["cu126"] == ()
    assert [missing.name for missing in toolkits["cu130"]] == ["cudaGetDeviceProperties_v2"]


@pytest.mark.parametrize(
    ("name", "symbols", "good", "bad"),
    [
        ("m.cpython-312-x86_64-linux-gnu.so", ["PyList_New"], ["3.12"], ["3.11", "3.13", "3.13t"]),
        ("m.abi3.so", ["PyList_New"], ["3.9", "3.15"], ["3.13t"]),
        ("m.abi3.so", ["PyBuffer_Release"], ["3.11", "3.15"], ["3.9", "3.10"]),
        ("m.so", ["_PyObject_GetDictPtr", "_PyLong_AsByteArray"], ["3.11", "3.13"], []),
        ("m.so", [NEW], ["3.8", "3.15t"], []),
    ],
)
def test_pythons_are_judged_by_file_name_and_symbols(
    tmp_path: Path, name: str, symbols: list[str], good: list[str], bad: list[str]
) -> None:
    pythons = loads_of(compiled(tmp_path, name, symbols)).pythons
    assert [pythons[version] for version in good] == [()] * len(good)
    assert all(pythons[version] for version in bad)


def test_symbols_that_nothing_defines_are_named(tmp_path: Path) -> None:
    assert loads_of(compiled(tmp_path, "m.so", ["nobody_has_this"])).unknown == ("nobody_has_this",)


def test_mangled_names_know_their_abi_and_namespace() -> None:
    assert (abi_of(NEW), abi_of(OLD), abi_of("_ZN2at3SsaEv"), abi_of("_ZN2at4fourEiS_")) == ("cxx11", "cxx98", "", "")
    assert is_torch(NEW)
    assert is_torch("_ZTVN5torch3jit5GraphE")
    assert not is_torch("_ZNSt6vectorIN2at6TensorESaIS1_EE5clearEv")


def test_names_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    paths = ["a/x.so", "b/x.so", "a/b/x.so", "c.so", "d/c.so"]
    assert [*short_names(paths).values()] == ["a/x.so", "b/x.so", "a/b/x.so", "c.so", "d/c.so"]
    assert [*short_names(["a/x.so", "b/y.so"]).values()] == ["x.so", "y.so"]
    assert [*short_names(["p/a/x.so", "p/b/x.so"]).values()] == ["a/x.so", "b/x.so"]


def test_spans_are_those_of_the_whole_list() -> None:
    every = ["2.4", "2.5", "2.9", "2.10"]
    assert spans(["2.9", "2.10"], every) == "2.9 to 2.10"
    assert spans(["2.4", "2.9"], every) == "2.4, 2.9"
    assert spans([], every) == "none"


def wheel(tmp_path: Path, library: Path) -> Path:
    path = tmp_path / "thing-1-cp310-abi3-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(library, "thing/_C.abi3.so")
        archive.writestr("thing-1.dist-info/METADATA", METADATA)
        archive.writestr("thing-1.dist-info/WHEEL", WHEEL)
        archive.writestr("thing-1.dist-info/RECORD", "thing/_C.abi3.so,,\n")
    return path


def test_a_wheel_and_the_package_installed_from_it_have_the_same_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wheel(tmp_path, compiled(tmp_path, "_C.abi3.so", ["aoti_torch_abi_version", "torch_exception_get_what"]))
    site = tmp_path / "site-packages"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    found = []
    for directory in (path, site / "thing"):
        assert __main__.main(["abi-check", "--torch", "all", "--json", str(directory)]) == 0
        [package] = json.loads(capsys.readouterr().out)["packages"]
        assert package["stated"]["torch"] == ">=2.9"
        found.append(package)
    assert found[0]["libraries"] == found[1]["libraries"]
    [library] = found[0]["libraries"]
    good = {row["torch"] for row in library["torch"] if row["loads"]}
    assert "2.13" in good
    assert "2.10" not in good
    assert any("allows torch 2.9 to 2.12, with which none" in note for note in found[0]["notes"])


def test_a_library_that_loads_nowhere_is_exit_code_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = compiled(tmp_path, "m.so", ["_ZN2at9no_such_oEv"])
    code = __main__.main(["abi-check", "--torch", "all", str(path)])
    assert "no  " in capsys.readouterr().out
    assert code not in {0, 70}


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"text"])
def test_a_file_that_is_no_library_has_one_error(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.so"
    path.write_bytes(content)
    assert __main__.main(["abi-check", "--torch", "all", str(path)]) not in {0, 70}
    assert "E103" in capsys.readouterr().err


def test_the_table_takes_no_other_requirement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["abi-check", "--torch", "all", "--archs", "9.0", str(tmp_path)]
    assert __main__.main(arguments) not in {0, 70}
    assert "`--torch all` excludes --archs" in capsys.readouterr().err


def test_a_truncated_library_is_named(tmp_path: Path) -> None:
    path = compiled(tmp_path, "m.so", [NEW])
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(Exception, match="is not a complete shared library"):
        package_of(path)
