"""The matrix, which the driver reads, and the lock, which Bazel reads, say the same of every release."""

from __future__ import annotations

import json
from typing import Any

import tomli

from py_driver.fetch.entry import parse_entry
from py_driver.matrix.configurations import Configuration
from py_driver.matrix.facts import facts
from py_driver.matrix.installation import module_root
from py_driver.matrix.releases import Releases

_TOOLCHAINS = module_root() / "toolchains"
_COMPILERS = {"nvidia-cuda-nvcc", "nvidia-cuda-toolkit", "cuda_nvcc"}


def _lock(kind: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((_TOOLCHAINS / "lock" / f"{kind}.json").read_text())
    return value


def _matrix() -> dict[str, Any]:
    return tomli.loads((_TOOLCHAINS / "matrix.toml").read_text())


def test_every_torch_of_the_matrix_is_locked_with_its_abis_and_standard() -> None:
    lock = _lock("torch")
    assert {t["version"]: (t["abis"], t["cxx-standard"]) for t in _matrix()["torch"]} == {
        version: (entry["abis"], entry["cxx_standard"]) for version, entry in lock.items()
    }
    assert all(entry["archive"]["version"].startswith(f"{version}.") for version, entry in lock.items())


def test_every_cuda_of_the_matrix_is_locked() -> None:
    versions = [cuda["version"] for cuda in _matrix()["cuda"]]
    assert versions == list(_lock("cuda"))
    for version, entry in _lock("cuda").items():
        compilers = [a for a in entry["archives"] if a["name"] in _COMPILERS]
        assert [a["version"].startswith(f"{version}.") for a in compilers] == [True]
        assert _lock("cc")["zig"][entry["host"]]["clang"] <= entry["max_clang"]


def test_what_a_driver_of_the_first_cuda_of_a_series_may_not_read_is_compressed_on_request() -> None:
    known = facts("compression")["FATBINARY"]
    for version, entry in _lock("cuda").items():
        choices = known[entry["compress_option"]]
        # Of 11 and 12 a library may run on a driver that has no Zstandard.
        assert entry["compress"] == ("balance" if version >= "13" else "speed")
        assert entry["compress"] in choices
        assert ("size" in choices) == (version >= "12.8")


def test_every_rocm_of_the_matrix_is_locked() -> None:
    releases = _matrix()["rocm"]
    assert [release["version"] for release in releases] == list(_lock("rocm"))
    for release in releases:
        entry = _lock("rocm")[release["version"]]
        assert set(release["default-archs"]) <= set(release["archs"])
        assert set(release["archs"]) <= set(_matrix()["amd-archs"]["all"])
        [hip] = [a for a in entry["archives"] if a["name"] in {"libamdhip64-dev", "hip-dev"}]
        assert hip["version"].startswith(f"{release['version']}.")
        assert release["release"].startswith(f"{release['version']}.")
        assert entry["host"] in _lock("cc")["zig"]


def test_hipify_is_of_a_torch_that_names_no_class_anew() -> None:
    rocm = [
        release
        for release in _matrix()["torch"]
        if any("rocm" in name for name in (*release["backends"], *release.get("on-request", ())))
    ]
    versions = [_lock("hipify")["torch"], *(release["version"] for release in rocm)]
    assert all(tuple(map(int, version.split("."))) >= (2, 11) for version in versions)


def test_every_archive_has_a_digest() -> None:
    archives = [*_lock("cc")["zig"].values(), *_lock("cc")["gcc"], *_lock("hipify")["python"]]
    archives += [a for kind in ("cuda", "rocm") for entry in _lock(kind).values() for a in entry["archives"]]
    archives += [entry["archive"] for entry in _lock("torch").values()]
    assert all(len(parse_entry(a).sha256) == 64 for a in archives)
    assert len({parse_entry(a).key for a in archives}) == len({(a["name"], a["version"]) for a in archives})


def test_default_variants() -> None:
    default = {
        (configuration.torch, configuration.backend)
        for configuration, default in Releases().matrix.configurations()
        if default
    }
    expected = {(torch, backend) for torch in ("2.13", "2.15") for backend in ("cpu", "cu130", "cu132")}
    assert default == expected | {("2.13", "rocm72")}


def test_named_backends_are_no_default() -> None:
    variants = {
        (configuration.torch, configuration.backend): default
        for configuration, default in Releases().matrix.configurations()
    }
    assert variants["2.15", "cu135"] is False
    order = [default for _, default in Releases().matrix.configurations()]
    assert order == sorted(order, reverse=True)


def test_only_what_nvidia_alone_has_is_not_run_here() -> None:
    for release in Releases().matrix.toolkits:
        if release.family == "cuda":
            origins = {archive["origin"] for archive in _lock("cuda")[release.version]["archives"]}
            assert release.tested == ("url" not in origins), release.version


def test_variants_need_their_own_archives_and_no_others() -> None:
    plain = Releases().lock.entries_for([Configuration(backend="universal")])
    cpu = Releases().lock.entries_for(
        [Configuration(torch="2.13", abi="cxx11", backend="cpu", cpu="x86_64", os="linux")]
    )
    cuda = Releases().lock.entries_for(
        [Configuration(torch="2.13", abi="cxx11", backend="cu130", cpu="x86_64", os="linux")]
    )
    assert {e.name for e in cpu} - {e.name for e in plain} == {"torch"}
    assert "nvidia-cuda-nvcc" not in {e.name for e in cpu}
    assert {e.version for e in cuda if e.name == "nvidia-cuda-nvcc"} == {"13.0.88"}
