"""`driver fetch`: archives of variants into the store, and into a mirror."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fetch_server import noise, pinned, wheel

from py_driver import __main__
from py_driver.matrix.configurations import spell
from py_driver.matrix.lock import Lock
from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_driver.fetch.entry import Entry
    from py_driver.matrix.configurations import Configuration

BODY = wheel({"demo/data": noise(100_000)})
DEFAULT = [spell(configuration) for configuration, default in Releases().matrix.configurations() if default]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A store that can only take one archive, from a directory; the variants that were asked for."""
    names: list[str] = []

    def entries_for(_lock: Lock, configurations: Iterable[Configuration]) -> list[Entry]:
        names.extend(map(spell, configurations))
        return [pinned(BODY)]

    (tmp_path / "from").mkdir()
    (tmp_path / "from" / pinned(BODY).mirror_name).write_bytes(BODY)
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RULES_TORCH_KERNELS_MIRROR", str(tmp_path / "from"))
    monkeypatch.setattr(Lock, "entries_for", entries_for)
    return names


def test_default_variants_go_into_the_store(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["fetch"]) == 0
    assert asked == DEFAULT
    assert capsys.readouterr().out == (
        f"{len(DEFAULT)} variants: 1 archive, 0.1 MB in the store; 0.0 MB came from the network\n"
    )


def test_a_mirror_is_filled(asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = tmp_path / "deep" / "mirror"
    assert __main__.main(["fetch", "--json", "--mirror", str(mirror), "torch24-cxx98-*", "*215-*-cpu-*"]) == 0
    assert {name.split("-")[0] for name in asked} == {"torch24", "torch215"}
    assert [path.read_bytes() for path in mirror.iterdir()] == [BODY]
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (answer["variants"], answer["mirror"]) == (asked, str(mirror))
    assert (answer["bytes"], answer["bytes-fetched"]) == (len(BODY), 0)
    [archive] = answer["archives"]
    assert archive == {
        "name": "demo",
        "version": "1.0",
        "file": pinned(BODY).mirror_name,
        "bytes": len(BODY),
        "from": "mirror",
    }


def test_a_damaged_file_of_a_mirror_is_put_right(asked: list[str], tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    file = mirror / pinned(BODY).mirror_name
    file.write_bytes(bytes(len(BODY)))
    assert __main__.main(["fetch", "--mirror", str(mirror)]) == 0
    assert file.read_bytes() == BODY
    assert list(mirror.iterdir()) == [file]
    assert asked == DEFAULT


def test_a_mirror_that_is_a_file(asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = tmp_path / "mirror"
    mirror.touch()
    assert __main__.main(["fetch", "--mirror", str(mirror)]) == 4
    assert f"error[E309]: cannot write {mirror}: File exists" in capsys.readouterr().err
    assert asked == DEFAULT


def test_what_sections_depend_on_comes_too(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = wheel({"more/data": noise(50_000)})
    entry = pinned(body, "more-1.0-py3-none-any.whl")
    names: list[str] = []

    def library_entries(_lock: Lock, depends: Iterable[str]) -> list[Entry]:
        names.extend(depends)
        return [entry]

    monkeypatch.setattr(Lock, "library_entries", library_entries)
    Path(os.environ["RULES_TORCH_KERNELS_MIRROR"], entry.mirror_name).write_bytes(body)
    assert __main__.main(["fetch", "--json", "--depends", "cutlass_3_5", "--depends=cutlass_3_6", "*213-*-cpu-*"]) == 0
    assert names == ["cutlass_3_5", "cutlass_3_6"]
    assert len(json.loads(capsys.readouterr().out)["archives"]) == 2
    assert len(asked) == 1


def test_gcc_comes_if_it_is_asked_for(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = wheel({"more/data": noise(50_000)})
    entry = pinned(body, "more-1.0-py3-none-any.whl")
    monkeypatch.setattr(Lock, "gcc_entries", lambda _lock, _cpus: [entry, pinned(BODY)])
    Path(os.environ["RULES_TORCH_KERNELS_MIRROR"], entry.mirror_name).write_bytes(body)
    assert __main__.main(["fetch", "--json", "--gcc", "*213-*-cpu-*"]) == 0
    assert [archive["name"] for archive in json.loads(capsys.readouterr().out)["archives"]] == ["demo", "demo"]
    assert len(asked) == 1


def test_tvm_ffi_and_pythons_headers(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: list[str] = []

    def library_entries(_lock: Lock, depends: Iterable[str]) -> list[Entry]:
        names.extend(depends)
        return []

    monkeypatch.setattr(Lock, "library_entries", library_entries)
    assert __main__.main(["fetch", "tvm-ffi01-cpu-*", "--depends", "python"]) == 0
    assert (asked, names) == (["tvm-ffi01-cpu-x86_64-linux"], ["python", "tvm_ffi"])
    assert "1 variant: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "advice"), [("cutlas_3_6", "did you mean `cutlass_3_6`?"), ("mpi", "the lock has cutlass_3_5, ")]
)
def test_what_is_not_locked_cannot_be_fetched(
    asked: list[str], name: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["fetch", "--depends", name]) == 2
    said = capsys.readouterr().err
    assert f"`--depends {name}`: the lock has no archive of it" in said
    assert advice in said
    assert asked == []


def test_a_pattern_that_matches_nothing(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["fetch", "torch1-*"]) == 3
    assert "error[E201]: no variant matches `torch1-*`" in capsys.readouterr().err
    assert asked == []
