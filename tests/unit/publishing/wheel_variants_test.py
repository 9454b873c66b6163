"""`driver wheel --variants`: variantlib accepts the wheels' files, and it and uv choose the wheel for a machine."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
import tuned
import uv
from variantlib.models.variant import VariantProperty  # type: ignore[import-untyped]
from variantlib.resolver.lib import sort_and_filter_supported_variants  # type: ignore[import-untyped]
from variantlib.variant_dist_info import VariantDistInfo  # type: ignore[import-untyped]
from variantlib.variants_json import VariantsJson  # type: ignore[import-untyped]

from py_driver import __main__
from py_driver.errors import DriverError
from py_driver.manifest.locate import Source
from py_driver.manifest.model import Framework, Located, Manifest
from py_driver.matrix.configurations import parse
from py_driver.publishing.release import BuiltVariant, make_file
from py_driver.publishing.wheel import make_wheel, wheel_name
from py_driver.publishing.wheel_index import SIMPLE, write_index
from py_driver.publishing.wheel_variants import label_in, merge, properties_of, variant_text

if TYPE_CHECKING:
    from pathlib import Path

_CPU, _CU126, _CU130 = (f"torch213-cxx11-{backend}-x86_64-linux" for backend in ("cpu", "cu126", "cu130"))
_BUILT = ((_CPU, ""), (_CU126, ""), (_CU130, ""), (_CU130, "sm90"), (_CU130, "sm80"))
_NAME = "relu-1.0+torch213.cxx11"
_CUDA_13 = ["13.0", "12.9", "12.8", "12.6"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel variants of a kernel, and their index."""
    directory = tmp_path_factory.mktemp("wheels")
    for name, part in _BUILT:
        add(directory, name, part)
    write_index(directory)
    return directory


def add(directory: Path, name: str, part: str) -> Path:
    """Write a wheel variant; its path."""
    span = Source("build.toml", "").span(0, 1)
    manifest = Manifest(
        file="", edition=5, name=Located(value="relu", span=span), framework=Framework(span=span), python_root=""
    )
    archs = [f"{part[2]}.{part[3]}"] if part else []
    metadata = {"id": "i", "backend": {"archs": archs}, **({"slice": part} if part else {})}
    built = BuiltVariant(name, metadata, (make_file(f"build/{name}/__init__.py", b""),))
    path = directory / wheel_name(manifest, [name], part, labelled=True)
    make_wheel(manifest, [built], path, labelled=True)
    return path


def chosen(index: bytes, cuda: list[str], gpus: list[str]) -> list[str]:
    """The labels that variantlib accepts for what a provider reports, the best first."""
    variants = VariantsJson(json.loads(index))
    supported = [VariantProperty("nvidia", "cuda_version_lower_bound", version) for version in cuda]
    supported += [VariantProperty("nvidia", "sm_arch", gpu) for gpu in gpus]
    found = sort_and_filter_supported_variants(
        list(variants.variants.values()),
        supported,
        namespace_priorities=list(variants.namespace_priorities),
        feature_priorities={"nvidia": ["cuda_version_lower_bound", "sm_arch"]},
        property_priorities={"nvidia": {"cuda_version_lower_bound": cuda, "sm_arch": gpus}},
        filter_values=True,
    )
    return [variant.label for variant in found]


def test_variantlib_reads_each_wheel_and_the_index(wheels: Path) -> None:
    labels = set()
    for path in wheels.glob("*.whl"):
        plain, label = label_in(path.name)
        assert plain == f"{_NAME}-cp39-abi3-manylinux_2_28_x86_64.whl"
        with zipfile.ZipFile(path) as archive:
            text = archive.read(f"{_NAME}.dist-info/variant.json")
            assert "variant.json," in archive.read(f"{_NAME}.dist-info/RECORD").decode()
        assert VariantDistInfo(text, label).variant_label == label
        labels.add(label)
    assert labels == {"null", "cu126", "cu130", "cu130.sm80", "cu130.sm90"}
    assert set(VariantsJson(json.loads((wheels / f"{_NAME}-variants.json").read_bytes())).variants) == labels


@pytest.mark.parametrize(
    ("cuda", "gpus", "best"),
    [
        (_CUDA_13, ["90_real"], "cu130.sm90"),
        (_CUDA_13, ["86_real", "80_real"], "cu130.sm80"),
        (_CUDA_13, ["120_real"], "cu130"),
        (_CUDA_13[1:], ["90_real"], "cu126"),
        ([], [], "null"),
    ],
    ids=["cuda-13-sm-90", "cuda-13-sm-86", "cuda-13-without-a-slice", "cuda-12", "no-gpu"],
)
def test_variantlib_chooses(wheels: Path, cuda: list[str], gpus: list[str], best: str) -> None:
    assert chosen((wheels / f"{_NAME}-variants.json").read_bytes(), cuda, gpus)[0] == best


@pytest.mark.parametrize(
    ("cuda", "gpu", "best"),
    [
        ("13.0", "9.0", "cu130.sm90"),
        ("13.0", "8.6", "cu130.sm80"),
        ("13.0", "12.0", "cu130"),
        ("12.8", "9.0", "cu126"),
        ("", "", "null"),
    ],
    ids=["cuda-13-sm-90", "cuda-13-sm-86", "cuda-13-without-a-slice", "cuda-12", "no-gpu"],
)
def test_uv_installs(wheels: Path, tmp_path: Path, cuda: str, gpu: str, best: str) -> None:
    target = tmp_path / "site"
    forced = {"NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": cuda, "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": gpu}
    command = [uv.find_uv_bin(), "pip", "install", "--preview-features", "wheel-variants", "--no-cache", "--no-config"]
    command += ["--no-deps", "--no-index", "--find-links", str(wheels), "--target", str(target), "relu"]
    environment = {**os.environ, **{name: value for name, value in forced.items() if value}}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    installed = json.loads((target / f"{_NAME}.dist-info" / "variant.json").read_bytes())
    assert list(installed["variants"]) == [best]


def test_index_lists_them_and_is_the_same_again(wheels: Path) -> None:
    page = wheels / SIMPLE / "relu" / "index.html"
    before = page.read_bytes(), (wheels / f"{_NAME}-variants.json").read_bytes()
    assert b"relu-1.0%2Btorch213.cxx11-variants.json#sha256=" in before[0]
    assert before[0].count(b".whl</a>") == len(_BUILT)
    write_index(wheels)
    assert (page.read_bytes(), (wheels / f"{_NAME}-variants.json").read_bytes()) == before


def test_index_goes_with_the_last_variant(tmp_path: Path) -> None:
    wheel = add(tmp_path, _CU130, "")
    write_index(tmp_path)
    assert (tmp_path / f"{_NAME}-variants.json").is_file()
    wheel.unlink()
    write_index(tmp_path)
    assert list(tmp_path.glob("*.json")) == []


def test_file_of_another_is_kept(tmp_path: Path) -> None:
    add(tmp_path, _CU130, "")
    (tmp_path / f"{_NAME}-variants.json").write_text("{}")
    with pytest.raises(DriverError, match="is not an index of `driver index`"):
        write_index(tmp_path)
    assert (tmp_path / f"{_NAME}-variants.json").read_text() == "{}"


def test_label_of_another_variant_is_refused(tmp_path: Path) -> None:
    wheel = add(tmp_path, _CU130, "")
    wheel.rename(wheel.with_name(wheel.name.replace("cu130.whl", "cu126.whl")))
    with pytest.raises(DriverError, match="is not that of a variant `cu126`"):
        write_index(tmp_path)


@pytest.mark.parametrize(("archs", "value"), [(["9.0"], "90_real"), (["9.0a"], "90a_real"), (["8.0"], "90_real")])
def test_code_for_one_capability_says_so(archs: list[str], value: str) -> None:
    assert properties_of(parse(_CU130), "sm90", archs)["nvidia"]["sm_arch"] == [value]


def test_rocm_is_refused() -> None:
    with pytest.raises(DriverError, match="there is no wheel variant of torch213-cxx11-rocm72-x86_64-linux"):
        properties_of(parse("torch213-cxx11-rocm72-x86_64-linux"))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a-1.0-py3-none-any.whl", ""),
        ("a-1.0-1-py3-none-any.whl", ""),
        ("a-1.0-py3-none-any-cu130.whl", "cu130"),
        ("a-1.0-1-py3-none-any-cu130.sm90.whl", "cu130.sm90"),
    ],
    ids=["plain", "build", "label", "build-and-label"],
)
def test_label_in_a_file_name(name: str, label: str) -> None:
    assert label_in(name)[1] == label


def test_command_writes_them(project: Path) -> None:
    for backend in ("cpu", "cuda"):
        tuned.build(project, f"torch-{backend}", tuned.FILES)
    out = project.parent / "dist"
    assert __main__.main(["wheel", str(project), "--variants", "--variant=torch-cpu", f"--out={out}", "--index"]) == 0
    names = sorted(path.name for path in out.iterdir() if path.suffix != ".metadata")
    assert names == ["simple", "tuned-3.0-py3-none-any-null.whl", "tuned-3.0-variants.json"]


def test_two_wheels_of_one_label_have_the_same_properties() -> None:
    texts = [variant_text("cu130.sm90", {"nvidia": {"sm_arch": [arch]}}) for arch in ("90_real", "90a_real")]
    assert merge([("cu130.sm90", texts[0])] * 2) == texts[0]
    with pytest.raises(ValueError, match=r"two wheels of the variant `cu130\.sm90` have different properties"):
        merge([("cu130.sm90", text) for text in texts])
