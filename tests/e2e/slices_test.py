"""Slices from a build to a Hub and through the real client: nothing is compiled for them, each GPU gets its own."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from clone import CPU, CU130, ROCM, Driver, action_counts, copy_project
from hub import Files, Hub, served

from py_driver.building.installed_torch import python_for
from py_driver.matrix.configurations import parse
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

_CLIENT = Path(__file__).parents[2] / "py_driver" / "client"
_SLICES = {"sm80": "8.0", "sm90": "9.0", "sm120": "12.0+PTX"}
_AMD = ("gfx90a", "gfx942", "gfx1100", "gfx1201")

# There is no GPU here and no torch for one: devices are given, and so is what would import the library. What is chosen,
# fetched and refused is up to the client.
_LOAD = """
import json, sys, types, warnings
from pathlib import Path
import kernels, kernels.deps, torch
import rules_torch_kernels
imported, devices, said = kernels.deps._import_from_path, [], []
torch.cuda.is_available = lambda: bool(devices)
torch.cuda.device_count = lambda: len(devices)
torch.cuda.get_device_properties = lambda number: devices[number]
torch.cuda.get_device_capability = lambda number=0: (devices[number].major, devices[number].minor)
for by, gpus, call in json.loads(sys.argv[1]):
    devices[:] = [types.SimpleNamespace(major=int(gpu[:-2]), minor=int(gpu[-1])) for gpu in gpus]
    torch.version.cuda = "13.0" if gpus else None
    kernels.deps._import_from_path = (lambda variant_path, repo_info, deps: variant_path) if gpus else imported
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            loaded = (rules_torch_kernels if by == "ours" else kernels).get_kernel("me/relu", **call)
            path = loaded if gpus else Path(loaded.__file__).parent
            part = json.loads((path / "metadata.json").read_text()).get("slice", "whole")
            if not gpus:
                assert loaded.relu(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
            found = [path.name, part]
        except RuntimeError as error:
            found = [str(error)]
    said.append(found + [str(warning.message) for warning in warned if warning.category is RuntimeWarning])
print(json.dumps(said))
"""


class _Published(NamedTuple):
    """A project that is published with its slices."""

    hub: Hub
    driver: Driver
    project: Path
    plain: Any
    built: Any

    def files(self, branch: str) -> Files:
        files = self.hub.repositories["me/relu"].files(branch)
        assert files is not None
        return files


def _publish(driver: Driver, project: Path, hub: Hub, *options: str, code: int = 0) -> str:
    environ = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_token"}
    variants = [f"--variant={name}" for name in (CPU, CU130)]
    named = ["--repo-id=me/relu", "--allow-dirty", *variants]
    done = driver.run("publish", project, *named, *options, env=environ, code=code)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def published(clone: Driver, base: Path) -> Iterator[_Published]:
    project = copy_project(clone.root / "examples" / "relu", base / "sliced" / "relu")
    manifest = project / "build.toml"
    every, fewer = '"8.0", "8.6", "8.9", "9.0", "10.0", "12.0+PTX"', '"8.0", "9.0", "12.0+PTX"'
    text = manifest.read_text()
    assert every in text
    manifest.write_text(text.replace(every, fewer))
    variants = [f"--variant={name}" for name in (CPU, CU130)]
    plain = json.loads(clone.run("build", project, *variants, "--json").stdout)
    built = json.loads(clone.run("build", project, *variants, "--slice", "--json").stdout)
    with served() as hub:
        _publish(clone, project, hub, "--slice")
        yield _Published(hub, clone, project, plain, built)


def test_no_slice_compiles_anything(published: _Published) -> None:
    names = [variant["variant"] for variant in published.built["variants"]]
    assert names == [CPU, CU130, *(f"{CU130}-{name}" for name in _SLICES)] or names[2:] == [
        f"{CU130}-{n}" for n in _SLICES
    ]
    assert action_counts(published.plain)[0] > 0
    assert all(variant["actions"]["run"] == 0 for variant in published.built["variants"])
    archs = {variant["variant"]: variant["archs"] for variant in published.built["variants"]}
    assert archs.keys() == {CPU, CU130, *(f"{CU130}-{name}" for name in _SLICES)}
    assert {name: archs[f"{CU130}-{name}"] for name in _SLICES} == {name: [arch] for name, arch in _SLICES.items()}


def test_a_slice_is_smaller_and_is_in_no_directory_of_whole_variants(published: _Published) -> None:
    sizes = {variant["variant"]: variant["size"] for variant in published.built["variants"]}
    assert all(sizes[f"{CU130}-{name}"] < sizes[CU130] for name in _SLICES)
    assert {path.name for path in (published.project / "build").iterdir()} == {CPU, CU130}
    assert {path.name for path in (published.project / "build-slices").iterdir()} == {*_SLICES}


def test_a_slice_has_the_bytes_of_a_build_for_its_capability_alone(published: _Published, base: Path) -> None:
    project = copy_project(published.project, base / "alone" / "relu")
    published.driver.run("build", project, f"--variant={CU130}", "--archs=9.0")
    places = (project / "build" / CU130, published.project / "build-slices" / "sm90" / CU130)
    [alone], [part] = (list(directory.glob("*.so")) for directory in places)
    assert part.read_bytes() == alone.read_bytes()


def test_each_slice_has_a_branch_with_its_provenance_and_the_index_its_digest(published: _Published) -> None:
    assert set(published.hub.repositories["me/relu"].branches) == {"main", "v1", *(f"v1-{name}" for name in _SLICES)}
    index = json.loads(published.files("v1")["slices.json"])
    assert index["slices"].keys() == _SLICES.keys()
    whole = json.loads(published.files("v1")[f"build/{CU130}/metadata.json"])
    for name, arch in _SLICES.items():
        files = published.files(f"v1-{name}")
        assert {path.split("/")[1] for path in files if path.startswith("build/")} == {CU130}
        metadata = json.loads(files[f"build/{CU130}/metadata.json"])
        assert (metadata["id"], metadata["slice"], metadata["backend"]["archs"]) == (whole["id"], name, [arch])
        about = index["slices"][name]["variants"][CU130]
        assert about["size"] == sum(len(content) for path, content in files.items() if path.startswith("build/"))
        statement = json.loads(files[f"provenance/{CU130}.intoto.json"])
        parameters = statement["predicate"]["buildDefinition"]["externalParameters"]
        assert parameters["slice"] == name
        digests = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
        assert digests[f"build/{CU130}/metadata.json"] == about["digest"]
    assert "0 files changed" in _publish(published.driver, published.project, published.hub, "--slice")


def _load(published: _Published, home: Path, *calls: tuple[str, list[str], dict[str, Any]]) -> list[list[str]]:
    """What came of each call: the variant and the slice, or an error; and warnings.

    Args:
        published: what is loaded.
        home: of the client's cache.
        calls: whose `get_kernel` is called, `ours` or `client`; the GPUs; its arguments.
    """
    environ = {
        "HF_ENDPOINT": published.hub.address,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(home / "hf"),
        "PYTHONPATH": str(_CLIENT),
    }
    command = [python_for([parse(CPU)], Releases(), Output()), "-c", _LOAD, json.dumps(calls)]
    done = subprocess.run(command, env=curated(extra=environ), cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_each_gpu_gets_what_fits_it(published: _Published, tmp_path: Path) -> None:
    one: dict[str, Any] = {"version": 1}
    expected: list[tuple[list[str], dict[str, Any], list[str]]] = [
        ([], one, [CPU, "whole"]),
        (["9.0"], one, [CU130, "sm90"]),
        (["9.0"], {"revision": "v1"}, [CU130, "sm90"]),
        (["8.6", "8.6"], one, [CU130, "sm80"]),
        (["12.1"], one, [CU130, "sm120"]),
        (["13.0"], one, [CU130, "sm120"]),
        (["9.0", "8.0"], one, [CU130, "whole"]),
        (["7.5"], {**one, "check_arch": False}, [CU130, "whole"]),
    ]
    calls = [("ours", gpus, call) for gpus, call, _ in expected]
    *loaded, [refused] = _load(published, tmp_path, *calls, ("ours", ["7.5"], one))
    assert loaded == [found for _, _, found in expected]
    listed = "sm120 (12.0+PTX), sm80 (8.0), sm90 (9.0)"
    assert refused == f"me/relu has no device code for the GPU of this machine (7.5) in {CU130}; it has {listed}"


def test_the_client_alone_loads_a_slice_by_its_branch_and_refuses_another_gpu(
    published: _Published, tmp_path: Path
) -> None:
    sm90 = {"revision": "v1-sm90"}
    loaded, [refused] = _load(published, tmp_path, ("client", ["9.0"], sm90), ("client", ["8.0"], sm90))
    assert loaded == [CU130, "sm90"]
    assert "CUDA capability 8.0 of the current device is not supported" in refused


def test_slices_of_an_older_build_are_not_loaded(published: _Published, tmp_path: Path) -> None:
    repository = published.hub.repositories["me/relu"]
    before = dict(published.files("v1"))
    stated = f"build/{CU130}/metadata.json"
    repository.put("v1", {**before, stated: before[stated] + b" "})
    [[variant, part, warned]] = _load(published, tmp_path, ("ours", ["9.0"], {"version": 1}))
    repository.put("v1", before)
    assert (variant, part) == (CU130, "whole")
    assert "is of another build than slices.json" in warned


def test_each_slice_has_a_wheel_that_is_named_by_its_capability(published: _Published, tmp_path: Path) -> None:
    published.driver.run("wheel", published.project, "--slice", f"--variant={CU130}", f"--out={tmp_path}")
    name = "relu-1.0+torch213.cxx11.cu130.{}-cp39-abi3-manylinux_2_28_x86_64.whl"
    assert {path.name for path in tmp_path.iterdir()} == {name.format(part) for part in _SLICES}
    for part in _SLICES:
        with zipfile.ZipFile(tmp_path / name.format(part)) as wheel:
            metadata = json.loads(wheel.read(f"relu/_variants/{CU130}/metadata.json"))
            assert metadata["slice"] == part
            assert f"part='{part}'" in wheel.read("relu/__init__.py").decode()


def test_the_card_has_what_was_published_and_the_page_what_is_built(published: _Published, tmp_path: Path) -> None:
    card = published.files("main")["README.md"].decode()
    assert 'rules_torch_kernels.get_kernel("me/relu", version=1, trust_remote_code=["me/relu"])' in card
    rows = [line for line in card.splitlines() if line.startswith("| `sm")]
    slices = published.project / "build-slices"
    sizes = {
        name: sum(path.stat().st_size for path in (slices / name / CU130).rglob("*") if path.is_file())
        for name in _SLICES
    }
    assert rows == [f"| `{name}` | `{arch}` | 1 | {sizes[name]:,} |" for name, arch in _SLICES.items()]
    page = tmp_path / "relu.html"
    words = ("card", published.project, "--repo-id=me/relu", "--json")
    told = json.loads(published.driver.run(*words, "--slice", f"--html={page}").stdout)
    assert [(row["slice"], row["variant"], row["state"], row["size"]) for row in told["slices"]] == [
        (name, CU130, "built", sizes[name]) for name in _SLICES
    ]
    assert all(f"<td><code>{name}</code></td>" in page.read_text() for name in _SLICES)
    assert json.loads(published.driver.run(*words).stdout)["slices"] == []
    aside = (slices / "sm90").rename(slices / ".aside")
    done = published.driver.run(*words, "--slice")
    aside.rename(slices / "sm90")
    assert f"build-slices/sm90/{CU130} is not on the card: it does not exist" in done.stderr
    assert [row["state"] for row in json.loads(done.stdout)["slices"]] == ["built", "not built", "built"]


def test_sizes_of_slices_stand_beside_that_of_their_variant(published: _Published) -> None:
    told = json.loads(published.driver.run("size", published.project, "--slice", "--json").stdout)
    groups = {group["name"]: group for group in told["slices"]}
    assert [*groups] == ["whole", *_SLICES]
    assert {name: groups[name]["archs"] for name in _SLICES} == {
        name: [arch.removesuffix("+PTX")] for name, arch in _SLICES.items()
    }
    libraries = [library for library in told["libraries"] if CPU not in library["file"]]
    [undivided] = [library["bytes"] for library in libraries if not library["slice"]]
    assert all(library["bytes"] < undivided for library in libraries if library["slice"])
    assert sum(group["stored"] for group in groups.values()) == told["bytes"]


def test_a_slice_that_is_not_built_or_taken_for_a_whole_variant_is_refused(published: _Published) -> None:
    sliced = published.project / "build-slices" / "sm90"
    aside = sliced.rename(sliced.with_name(".aside"))
    assert "error[E" in (said := _publish(published.driver, published.project, published.hub, "--slice", code=2))
    assert "build-slices/sm90" in said
    aside.rename(sliced)
    built = published.project / "build" / CU130
    kept = built.rename(published.project / "kept")
    (sliced / CU130).rename(built)
    said = _publish(published.driver, published.project, published.hub, code=2)
    built.rename(sliced / CU130)
    kept.rename(built)
    assert "its `slice` belongs to another build" in said


def _verify(published: _Published, *words: str | Path, code: int) -> Any:  # noqa: ANN401  (JSON)
    environ = {"HF_ENDPOINT": published.hub.address, "HF_HUB_DISABLE_XET": "1"}
    options = ["--json", f"--variant={CU130}"] if published.project in words else ["--json"]
    return json.loads(published.driver.run("verify", *words, *options, env=environ, code=code).stdout)


def _changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.slow
def test_slices_are_built_again_and_compared(published: _Published) -> None:
    slices = published.project / "build-slices"
    [library] = (slices / "sm80" / CU130).glob("*.so")
    right = library.read_bytes()
    library.write_bytes(_changed(right))
    try:
        said = _verify(published, published.project, "--slice", code=1)
    finally:
        library.write_bytes(right)
    found = {variant["place"]: variant["differences"] for variant in said["variants"]}
    places = [published.project / "build" / CU130, *(slices / name / CU130 for name in _SLICES)]
    assert found == {str(path): [f"{library.name} has other bytes"] * (path == library.parent) for path in places}
    assert [error["code"] for error in said["errors"]] == ["E403"]


@pytest.mark.slow
def test_slices_on_their_branches_are_built_again_and_compared(published: _Published) -> None:
    repository = published.hub.repositories["me/relu"]
    right = dict(published.files("v1-sm90"))
    [library] = [path for path in right if path.startswith(f"build/{CU130}/") and path.endswith(".so")]
    repository.put("v1-sm90", {**right, library: _changed(right[library])})
    said = _verify(published, published.project, "--slice", "--published", "--repo-id=me/relu", code=1)
    repository.put("v1-sm90", right)
    found = {variant["variant"]: variant for variant in said["variants"]}
    wrong = found.pop(f"{CU130}-sm90")
    assert wrong["differences"] == [f"{Path(library).name} has other bytes"]
    assert "/kernels/me/relu/tree/" in wrong["place"]
    assert {*found} == {CU130, f"{CU130}-sm80", f"{CU130}-sm120"}
    assert not any(variant["differences"] for variant in found.values())


@pytest.mark.slow
def test_wheels_of_slices_are_built_again_and_compared(published: _Published, tmp_path: Path) -> None:
    for options in (["--slice"], ["--slice", "--variants"]):
        published.driver.run("wheel", published.project, *options, f"--variant={CU130}", f"--out={tmp_path}")
    wheels = sorted(tmp_path.glob("*.whl"))
    assert len(wheels) == 2 * len(_SLICES) + 1
    labelled = [wheel for wheel in wheels if "-cu130" in wheel.name]
    for group in (labelled, [wheel for wheel in wheels if wheel not in labelled][:1]):
        said = _verify(published, *group, f"--source={published.project}", code=0)
        assert {variant["place"] for variant in said["variants"]} == {str(wheel) for wheel in group}
        assert not any(variant["differences"] for variant in said["variants"])


@pytest.mark.slow
def test_slices_for_amd_have_the_code_of_one_architecture(clone: Driver, base: Path) -> None:
    project = copy_project(clone.root / "examples" / "relu", base / "amd" / "relu")
    built = json.loads(clone.run("build", project, f"--variant={ROCM}", "--slice", "--json").stdout)
    assert [variant["archs"] for variant in built["variants"]][1:] == [[arch] for arch in _AMD]
    assert [variant["actions"]["run"] for variant in built["variants"]][1:] == [0] * len(_AMD)
