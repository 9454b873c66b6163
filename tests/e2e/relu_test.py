"""The whole matrix of examples/relu, built once from nothing: each action once, and the same for plain Bazel."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from clone import BINDING, CPU, CU130, RELU, action_counts, cuda_actions, digests, hip_actions

from py_driver import __version__
from py_driver.matrix.configurations import parse

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Built

pytestmark = [pytest.mark.e2e, pytest.mark.core]

_PACKAGE = "//examples/relu"
_OURS = (
    "Kernel(Id|IdObject|CxxPreprocess|CxxName|CxxCompile|CudaCompile|Link|Sources|Variant|Bundle)|Cuda.*|Hip.*|ZigBuild"
)
_ALL = 1 + 7 * BINDING + 2 * cuda_actions(6) + hip_actions(4)
_QUERY = f'mnemonic("{_OURS}", deps({_PACKAGE}:all_variants))'


@pytest.fixture(scope="module")
def actions(relu: Built) -> list[dict[str, Any]]:
    options = ["--output=jsonproto", "--noinclude_artifacts", "--include_param_files"]
    found: list[dict[str, Any]] = json.loads(relu.driver.bazel("aquery", *options, _QUERY))["actions"]
    return found


def test_all_variants_are_built(relu: Built) -> None:
    assert [variant["variant"] for variant in relu.result["variants"]] == RELU
    assert sorted(path.name for path in relu.build.iterdir()) == sorted(RELU)
    assert relu.result["name"] == "relu"


def test_sizes_are_those_of_the_files(relu: Built) -> None:
    for variant in relu.result["variants"]:
        files = [path for path in (relu.build / variant["variant"]).rglob("*") if path.is_file()]
        assert variant["size"] == sum(path.stat().st_size for path in files)


def test_each_action_runs_once_cold(relu: Built) -> None:
    assert action_counts(relu.result) == (_ALL, 1 + 2 * cuda_actions(6), 0)


def test_kernels_are_compiled_once_for_each_toolkit_and_once_for_the_cpu(actions: list[dict[str, Any]]) -> None:
    assert Counter(action["mnemonic"] for action in actions) == {
        "ZigBuild": 6,
        "KernelId": 3,
        "KernelIdObject": 6,
        "KernelCxxCompile": 8,
        "KernelCxxName": 7,
        "KernelCxxPreprocess": 7,
        "KernelSources": 11,
        **dict.fromkeys(("CudaDeviceCompile", "CudaAssemble"), 12),
        "CudaPreprocess": 2 + 12,
        **dict.fromkeys(("CudaFrontend", "CudaFatbinary", "CudaHostCompile"), 2),
        "Hipify": 2,
        "HipPreprocess": 5,
        **dict.fromkeys(("HipDeviceCompile", "HipAssemble", "HipLink"), 4),
        **dict.fromkeys(("HipBundle", "HipHostCompile"), 1),
        "KernelLink": 7,
        "KernelVariant": 7,
        "KernelBundle": 1,
    }


def test_second_build_does_nothing(relu: Built) -> None:
    before = digests(relu.build)
    stamps = {path: path.stat().st_mtime_ns for path in relu.build.rglob("*")}
    result = relu.driver.build(relu.project)
    assert action_counts(result) == (0, 1 + 2 * cuda_actions(6), _ALL)
    assert digests(relu.build) == before
    assert {path: path.stat().st_mtime_ns for path in relu.build.rglob("*")} == stamps


def test_every_action_allows_path_mapping_and_nothing_else(actions: list[dict[str, Any]]) -> None:
    for action in actions:
        assert action["executionInfo"] == [{"key": "supports-path-mapping", "value": "1"}], action["mnemonic"]


def test_no_argument_names_a_configuration(actions: list[dict[str, Any]]) -> None:
    for action in actions:
        texts = action["arguments"] + [text for file in action.get("paramFiles", []) for text in file["arguments"]]
        for text in texts:
            assert not re.search(r"bazel-out/(?!cfg/bin/)", text), (action["mnemonic"], text)


def test_environment_of_every_action_is_fixed(actions: list[dict[str, Any]]) -> None:
    for action in actions:
        variables = {pair["key"]: pair["value"] for pair in action["environmentVariables"]}
        assert variables == {"LANG": "C", "PATH": "/nonexistent", "SOURCE_DATE_EPOCH": "0"}, action["mnemonic"]


def test_action_of_another_configuration_is_found_in_the_cache(relu: Built, tmp_path: Path) -> None:
    options = ["--jobs=1", f"--disk_cache={tmp_path / 'disk'}", f"{_PACKAGE}:{CPU}"]
    first = relu.driver.runners(tmp_path / "first.json", "--platform_suffix=first", *options)
    assert first["linux-sandbox"] >= 5
    assert "disk cache hit" not in first
    second = relu.driver.runners(tmp_path / "second.json", "--platform_suffix=second", *options)
    assert second["disk cache hit"] == first["linux-sandbox"]
    assert "linux-sandbox" not in second


def test_plain_bazel_builds_a_variant_by_its_name(relu: Built) -> None:
    relu.driver.bazel("build", f"{_PACKAGE}:{CU130}")
    assert digests(relu.driver.place(f"{_PACKAGE}:{CU130}")) == digests(relu.build / CU130)


def test_bundle_is_the_build_directory(relu: Built) -> None:
    relu.driver.bazel("build", f"{_PACKAGE}:all_variants")
    assert digests(relu.driver.place(f"{_PACKAGE}:all_variants")) == digests(relu.build)


@pytest.mark.parametrize("variant", RELU)
def test_variant_has_the_layout_that_the_client_loads(relu: Built, variant: str) -> None:
    metadata = json.loads((relu.build / variant / "metadata.json").read_text())
    names = {path.relative_to(relu.build / variant).as_posix() for path in (relu.build / variant).rglob("*")}
    assert names == {"__init__.py", "_ops.py", "metadata.json", f"{metadata['id']}.abi3.so"}
    assert {path.stat().st_mode & 0o777 for path in (relu.build / variant).iterdir()} == {0o644, 0o755}
    text = (relu.build / variant / "metadata.json").read_text()
    assert text == json.dumps(metadata, indent=2, sort_keys=True) + "\n"
    assert metadata["provenance"] == {"kernel-builder": {"version": f"rules_torch_kernels {__version__}"}}


def test_ids_differ_by_backend_and_not_by_version(relu: Built) -> None:
    ids = {variant: json.loads((relu.build / variant / "metadata.json").read_text())["id"] for variant in RELU}
    assert len(set(ids.values())) == 3
    for variant, identity in ids.items():
        assert re.fullmatch(rf"_relu_{parse(variant).family}_[0-9a-f]{{12}}", identity)
