"""What torch's wheels export: the table in the lock, how it is written, and what `driver lock` does to it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fetch_server import Server, wheel
from hypothesis import given
from hypothesis import strategies as st

from py_driver import __main__
from py_driver.errors import Code, DriverError
from py_driver.matrix.lock_update import read
from py_driver.matrix.releases import Releases, exports_file
from py_driver.matrix.torch_symbols import (
    LIBRARIES,
    Column,
    columns_of,
    defined,
    hash_of,
    read_table,
    update,
    write_table,
)

ABI = Path(__file__).parents[2] / "abi" / "libraries"
OLD_STRING = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
NEW_STRING = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def releases(symbol: str) -> dict[str, set[str]]:
    """For each part of torch the releases that define a symbol."""
    columns, table = read_table(exports_file())
    mask = table.get(hash_of(symbol), 0)
    found: dict[str, set[str]] = {}
    for i, column in enumerate(columns):
        if mask >> i & 1:
            found.setdefault(column.backend, set()).add(column.torch)
    return found


def test_every_locked_release_is_read() -> None:
    columns, table = read_table(exports_file())
    assert columns == columns_of(read(Releases())["torch"])
    for i, column in enumerate(columns):
        count = sum(mask >> i & 1 for mask in table.values())
        assert count > (40_000 if column.backend == "cpu" else 10_000), column


def test_known_symbols_are_in_the_releases_that_have_them() -> None:
    old, new = {"2.4", "2.5", "2.6"}, {f"2.{minor}" for minor in range(7, 16)}
    assert releases(OLD_STRING) == {"cpu": old}
    assert releases(NEW_STRING) == {"cpu": new}
    assert releases("_ZN2at4_ops4relu4callERKNS_6TensorE") == {"cpu": old | new}
    assert releases("_ZN2at4cuda26getCurrentDevicePropertiesEv") == {"cuda": old | new}
    assert releases("torch_library_impl") == {"cpu": {"2.10", "2.11", "2.12", "2.13", "2.14", "2.15"}}
    assert releases("_ZN5other9elsewhereEv") == {}


def test_defined_is_what_nm_lists() -> None:
    for path in sorted(ABI.glob("*.so")):
        said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=False)
        if path.stem in {"aarch64", "i386", "good_sectionless"}:  # other layouts, or nothing to read it from
            continue
        assert defined(path) == {line.split()[-1].split("@")[0] for line in said.stdout.splitlines()}, path


_COLUMNS = tuple(Column(torch=f"2.{i}", sha256=f"{i}", abi="cxx11", backend="cpu") for i in range(10))


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 2**10 - 1)))
def test_a_table_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, table: dict[int, int]) -> None:
    path = tmp_path_factory.mktemp("table") / "x.bin"
    path.write_bytes(write_table(_COLUMNS, table))
    assert read_table(path) == (_COLUMNS, table)


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda _: b"{}\n", lambda _: b"x"]
)
def test_a_damaged_table(tmp_path: Path, change: Any) -> None:  # noqa: ANN401
    path = tmp_path / "x.bin"
    path.write_bytes(change(write_table(_COLUMNS, {1: 1})))
    with pytest.raises(DriverError) as caught:
        read_table(path)
    assert caught.value.diagnostics[0].code is Code.BAD_VALUE
    assert str(path) in caught.value.diagnostics[0].message


def _torch(library: str) -> bytes:
    body = (ABI / f"{library}.so").read_bytes()
    return wheel({f"torch/lib/{name}": body for names in LIBRARIES.values() for name in names})


def _part(body: bytes, name: str, abis: list[str]) -> dict[str, Any]:
    archive = {"name": "torch", "version": "1", "filename": name, "size": len(body), "origin": "python-index"}
    members = {"record_sha256": "0" * 64, "include": ["torch/include/"], "exclude": []}
    return {"abis": abis, "archive": {**archive, **members, "sha256": hashlib.sha256(body).hexdigest()}}


def test_only_new_wheels_are_fetched_and_old_releases_go(server: Server, tmp_path: Path) -> None:
    first, second = _torch("two_modules"), _torch("export")
    names = ["torch-1-cp312-cp312-linux_x86_64.whl", "torch-2-cp312-cp312-linux_x86_64.whl"]
    server.offer("torch", dict(zip(names, (first, second), strict=True)))
    one, two = _part(first, names[0], ["cxx11", "cxx98"]), _part(second, names[1], ["cxx11"])
    path = tmp_path / "exports.bin"
    path.write_bytes(update(path, {"1.1": one}, lambda _: None))
    assert [(c.torch, c.abi, c.backend) for c in read_table(path)[0]] == [("1.1", "cxx98", b) for b in LIBRARIES]
    assert read_table(path)[1] == {hash_of(name): 0b11 for name in ("PyInit_good", "PyInit_other")}
    said: list[str] = []
    path.write_bytes(update(path, {"1.2": two, "1.1": one}, said.append))
    assert said == ["torch 1.2"]
    assert len([asked for asked in server.asked if asked.path.endswith(names[0])]) == 1
    masks = {name: read_table(path)[1].get(hash_of(name)) for name in ("PyInit_other", "PyInit_good", "helper")}
    assert masks == {"PyInit_other": 0b1100, "PyInit_good": 0b1111, "helper": 0b0011}
    path.write_bytes(update(path, {"1.2": two}, said.append))
    assert read_table(path)[1] == {hash_of(name): 0b11 for name in ("PyInit_good", "helper")}
    assert not list((tmp_path / "cache").rglob("*.whl"))


def test_a_wheel_without_the_libraries(server: Server, tmp_path: Path) -> None:
    body, name = wheel({"torch/version.py": b""}), "torch-1-cp312-cp312-linux_x86_64.whl"
    server.offer("torch", {name: body})
    with pytest.raises(DriverError) as caught:
        update(tmp_path / "x.bin", {"1.1": _part(body, name, ["cxx11"])}, lambda _: None)
    assert caught.value.diagnostics[0].message == f"{name} has no torch/lib/libc10.so"


def test_a_table_of_other_wheels_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, table = read_table(exports_file())
    path = tmp_path / "torch_exports.bin"
    path.write_bytes(write_table((columns[0]._replace(sha256="0"), *columns[1:]), table))
    monkeypatch.setattr("py_driver.matrix.releases.exports_file", lambda: path)
    assert __main__.main(["lock", "--check"]) == 1
    said = capsys.readouterr().err
    assert f"{path} was made from other torch wheels" in said
    assert "error[E205]" in said
