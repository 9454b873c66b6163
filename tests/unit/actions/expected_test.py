"""What a build is expected to do: the actions of variants, and those of them that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sections import GENERAL, TORCH, make
from tree import write_files

from py_driver.actions.estimate import Estimate, History, Work, estimate, learned, together
from py_driver.actions.executed import Did, Place, VariantAction
from py_driver.actions.expected import ExpectedAction, Settings, expected_actions
from py_driver.bazel.spawns import Spawn
from py_driver.building.selection import choose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TWO = ("torch213-*-cu130-*", "torch214-*-cu130-*")
PLAIN = 4 + 3 * 2  # of a source for two architectures
ALL = 6 + 3 * 2  # with torch in sight: one makes all texts, and more reads, shares and compares them
READ = 2  # of these read the headers
BINDING = 3
KERNEL = """[kernel.g]
backend = "cuda"
depends = ["torch"]
src = ["g.cu", "a.cuh", "b.cuh"]
include = ["."]
cuda-capabilities = ["8.0", "9.0+PTX"]
"""
PINS = {"cc": "1", "gcc": "0", "cu130": "2", "2.13": "3", "2.14": "4"}
SETTINGS = Settings(
    split=True,
    whole=(),
    needed=True,
    gcc=False,
    compress="",
    standards={"2.4": 17, "2.5": 17, "2.13": 20, "2.14": 20, "2.15": 20},
    toolchains=PINS,
    rules="5",
)
FILES = {
    "g.cu": '#include "a.cuh"\n',
    "a.cuh": "",
    "b.cuh": "",
    "torch-ext/b.cpp": "#include <torch/library.h>\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
}


def _actions(
    directory: Path,
    files: dict[str, str],
    patterns: Sequence[str] = TWO,
    settings: Settings = SETTINGS,
    text: str = KERNEL,
) -> list[ExpectedAction]:
    write_files(directory, files)
    return _again(directory, patterns, settings, GENERAL + TORCH + text)


def _again(
    directory: Path, patterns: Sequence[str] = TWO, settings: Settings = SETTINGS, text: str = GENERAL + TORCH + KERNEL
) -> list[ExpectedAction]:
    """The actions of a project with the files that are there."""
    plan = make(directory, text)
    names = {name for identity in plan.identities for name in identity.files}
    contents = {name: (directory / name).read_bytes() for name in names}
    return expected_actions(plan, choose(plan, patterns), contents, settings)


def _done(actions: Sequence[ExpectedAction], seconds: float = 2.0, keys: dict[str, str] | None = None) -> History:
    """What is known after a build that ran each action, of a key that is its place if not another one is named."""
    done = []
    for action in actions:
        key = (keys or {}).get(action.place, action.place)
        place = Place(source=action.source, section=action.section, mnemonic=action.mnemonic, arch=action.arch)
        spawn = Spawn(mnemonic=action.mnemonic, key=key, seconds=seconds)
        made = VariantAction(variant=action.variant, path=key, key=key, did=Did.RUN, seconds=seconds, spawn=spawn)
        done.append((place, made))
    return learned({}, actions, done, {(action.section, action.source) for action in actions})


def _ahead(actions: Sequence[ExpectedAction], history: History, jobs: int = 2, memory: int = 100_000) -> Estimate:
    return estimate(actions, history, jobs=jobs, memory=memory)


def _counts(ahead: Estimate) -> tuple[int, int, int]:
    return ahead.run, ahead.shared, ahead.cached


def test_torch_in_sight_is_preprocessed_for_each_and_compiled_once(tmp_path: Path) -> None:
    assert _counts(_ahead(_actions(tmp_path, FILES), {})) == (ALL + READ + 2 * BINDING, ALL - READ, 0)


def test_torch_that_is_included_is_compiled_for_each(tmp_path: Path) -> None:
    files = FILES | {"a.cuh": "#include <ATen/core/Tensor.h>\n"}
    assert _counts(_ahead(_actions(tmp_path, files), {})) == (2 * (ALL + BINDING), 0, 0)


def test_another_standard_of_cxx_is_compiled_again(tmp_path: Path) -> None:
    settings = SETTINGS._replace(standards={"2.13": 17, "2.14": 20})
    assert _counts(_ahead(_actions(tmp_path, FILES, settings=settings), {})) == (2 * (ALL + BINDING), 0, 0)


def test_another_abi_is_compiled_again(tmp_path: Path) -> None:
    actions = _actions(tmp_path, FILES, ("torch25-cxx{11,98}-cu124-*",))
    assert _counts(_ahead(actions, {})) == (2 * (ALL + BINDING), 0, 0)


def test_an_abi_is_compiled_for_without_torch_too(tmp_path: Path) -> None:
    text = KERNEL.replace('["torch"]', "[]")
    actions = _actions(tmp_path, FILES, ("torch2{4,5}-cxx{11,98}-cu124-*",), text=text)
    assert _counts(_ahead(actions, {})) == (2 * PLAIN + 4 * BINDING, 2 * PLAIN, 0)
    # What needs no string is the same text in the end, and assembled and bundled once; that is known when it was built.
    keys = {s.place: s.mnemonic for s in actions if s.mnemonic == "CudaFatbinary"}
    (tmp_path / "g.cu").write_text("int i;\n")
    again = _again(tmp_path, ("torch2{4,5}-cxx{11,98}-cu124-*",), text=GENERAL + TORCH + text)
    assert _ahead(again, _done(actions, keys=keys)).run == 2 * PLAIN + 4 - 1


def test_a_torch_free_action_of_cxx11_has_the_place_that_it_always_had(tmp_path: Path) -> None:
    text = KERNEL.replace('["torch"]', "[]")
    places = {s.place for s in _actions(tmp_path, FILES, ("torch25-*-cu124-*",), text=text) if s.section == "g"}
    assert "g|g.cu|CudaPreprocess||cu124" in places
    assert "g|g.cu|CudaPreprocess||cxx98 cu124" in places


def test_nvcc_as_a_whole_is_one_action(tmp_path: Path) -> None:
    assert _counts(_ahead(_actions(tmp_path, FILES, settings=SETTINGS._replace(split=False)), {})) == (
        2 + 2 * BINDING,
        0,
        0,
    )
    assert _counts(_ahead(_actions(tmp_path, FILES, settings=SETTINGS._replace(whole=("13.0",))), {})) == (
        2 + 2 * BINDING,
        0,
        0,
    )


def test_compression_is_a_matter_of_what_compresses(tmp_path: Path) -> None:
    def changed(settings: Settings, text: str = KERNEL, files: dict[str, str] = FILES) -> set[str]:
        old, new = (
            _actions(tmp_path, files, settings=choice, text=text)
            for choice in (settings, settings._replace(compress="size"))
        )
        return {before.mnemonic for before, after in zip(old, new, strict=True) if before.reads != after.reads}

    assert changed(SETTINGS) == {"CudaFallback", "CudaFatbinary"}
    assert changed(SETTINGS._replace(split=False)) == {"KernelCudaCompile"}
    linked = KERNEL + 'cuda-flags = ["-rdc=true"]\n'
    assert changed(SETTINGS, linked) == {"CudaFallback", "CudaFatbinary", "CudaRegisterLinked"}
    assert changed(SETTINGS, linked.replace("-rdc=true", "-dlto")) == {"CudaRegisterLinked"}
    # A source without machine code of an architecture is linked from what fatbinary made.
    other = linked.replace("kernel.g", "kernel.h").replace("g.cu", "h.cu").replace('"8.0", "9.0+PTX"', '"8.0+PTX"')
    both = FILES | {"h.cu": FILES["g.cu"]}
    assert changed(SETTINGS, linked + other, both) == {
        "CudaDeviceLink", "CudaFallback", "CudaFatbinary", "CudaRegisterLinked"
    }  # fmt: skip


def test_gcc_is_no_matter_of_what_clang_compiles(tmp_path: Path) -> None:
    def read(settings: Settings, text: str = KERNEL) -> dict[str, str]:
        return {
            action.place: action.reads for action in _actions(tmp_path, FILES, ("torch213-*-cu130-*",), settings, text)
        }

    clang, gcc = read(SETTINGS), read(SETTINGS._replace(gcc=True))
    moved = {key for key in clang if clang[key] != gcc.get(key)}
    assert moved == {key for key in clang if "|KernelCxx" in key}
    newer = SETTINGS._replace(toolchains=PINS | {"gcc": "6"})
    assert read(newer) == clang
    assert read(newer._replace(gcc=True)) != gcc
    openmp = TORCH + 'cxx-flags = ["-fopenmp"]\n'
    actions = [_again(tmp_path, settings=settings, text=GENERAL + openmp + KERNEL) for settings in (SETTINGS, newer)]
    assert {old.mnemonic for old, new in zip(*actions, strict=True) if old.reads != new.reads} == {
        "KernelCxxCompile", "KernelCxxName", "KernelCxxPreprocess"
    }  # fmt: skip


def test_releases_of_cuda_share_what_gcc_makes_of_a_text(tmp_path: Path) -> None:
    text = 'cxx-flags = ["-fopenmp"]\n' + KERNEL
    patterns = ("torch213-*-cu126-*", "torch213-*-cu130-*")
    for name, shared in [("ATen/ATen.h", 2), ("ATen/cuda/CUDAContext.h", 0)]:
        files = FILES | {"torch-ext/b.cpp": f"#include <{name}>\n{FILES['torch-ext/b.cpp']}"}
        actions = _actions(tmp_path, files, patterns, text=text)
        host = [action for action in actions if action.source.endswith("b.cpp")]
        assert len(host) - len({action.reads for action in host}) == shared


def test_what_was_built_is_cached(tmp_path: Path) -> None:
    actions = _actions(tmp_path, FILES)
    assert _counts(_ahead(actions, _done(actions))) == (0, ALL - READ, ALL + READ + 2 * BINDING)


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        ("g.cu", ALL + READ + 2),  # all of it, preprocessed for two torch releases; the id for both bindings
        ("a.cuh", ALL + READ + 2 + 2),  # besides, Bazel shows it to the preprocessing of both bindings
        ("b.cuh", 2 * READ + 2 + 2),  # nothing includes it
    ],
)
def test_an_edit_runs_what_reads_the_file(tmp_path: Path, changed: str, run: int) -> None:
    history = _done(_actions(tmp_path, FILES))
    assert _ahead(_actions(tmp_path, FILES | {changed: FILES[changed] + "int j;\n"}), history).run == run
    # No compiler reads a comment, but the id has it.
    assert _ahead(_actions(tmp_path, FILES | {changed: FILES[changed] + "// a comment"}), history).run == 2
    back = _ahead(_actions(tmp_path, FILES), history)
    assert back.run == 0


def test_what_projects_share_counts_once(tmp_path: Path) -> None:
    actions = _actions(tmp_path, FILES)
    alone = _ahead(actions, {})
    # Nobody has built either: they may well differ in where their outputs lie.
    new = together([Work("a", actions, {}), Work("b", actions, {})], jobs=2, memory=100_000)
    assert _counts(new) == (2 * alone.run, 2 * alone.shared, 0)
    assert 1.9 * alone.seconds < new.seconds < 2.1 * alone.seconds
    assert (
        together([Work("a", actions, {}), Work("b", actions, {})], jobs=1000, memory=None).seconds < 1.1 * alone.seconds
    )
    # What had one key in both is one action.
    (tmp_path / "g.cu").write_text("int i;\n")
    edited = _again(tmp_path)
    once = _ahead(edited, _done(actions))
    same = together([Work(name, edited, _done(actions)) for name in "ab"], jobs=2, memory=100_000)
    assert _counts(same) == (once.run, once.run + 2 * once.shared + once.cached, once.cached)
    assert same.seconds == once.seconds
    own = {action.place: f"b {action.place}" for action in actions}
    other = together(
        [Work("a", edited, _done(actions)), Work("b", edited, _done(actions, keys=own))], jobs=2, memory=None
    )
    assert other.run == 2 * once.run


def test_bytes_that_are_no_text_count(tmp_path: Path) -> None:
    history = _done(_actions(tmp_path, FILES))
    edited = _actions(tmp_path, FILES)
    assert _ahead(edited, history).run == 0
    (tmp_path / "g.cu").write_bytes(b'#include "a.cuh"\nchar c[] = "\xe4";\n')
    one = _again(tmp_path)
    (tmp_path / "g.cu").write_bytes(b'#include "a.cuh"\nchar c[] = "\xf6";\n')
    assert _ahead(_again(tmp_path), _done(one)).run == ALL + READ + 2


@pytest.mark.parametrize("include", ["#define H <a.cuh>\n#include H\n", "#include_next <a.cuh>\n"])
def test_an_include_that_nobody_can_read_means_all_headers(tmp_path: Path, include: str) -> None:
    files = FILES | {"g.cu": include}
    history = _done(_actions(tmp_path, files))
    assert _ahead(_actions(tmp_path, files | {"b.cuh": "int edited;\n"}), history).run == ALL + READ + 2 + 2


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        ({"toolchains": PINS | {"2.13": "other"}}, READ + 1),  # preprocessing of kernel and binding
        ({"toolchains": PINS | {"cu130": "other"}}, ALL + READ + 2 * BINDING),
        ({"rules": "other"}, ALL + READ + 2 * BINDING),
        ({"needed": False}, ALL - 1 + 1 + 2 * BINDING),  # all, but no fallback
    ],
)
def test_other_toolchains_are_read_anew(tmp_path: Path, changed: dict[str, Any], run: int) -> None:
    history = _done(_actions(tmp_path, FILES))
    assert _ahead(_actions(tmp_path, FILES, settings=SETTINGS._replace(**changed)), history).run == run


def test_a_binding_of_the_stable_abi_has_the_id_in_its_text(tmp_path: Path) -> None:
    variants = ("torch-stable-abi29-cu130-*",)
    text = f'{GENERAL}{TORCH}stable-abi = {{ cuda = "2.9" }}\n{KERNEL}'
    _actions(tmp_path, FILES)
    history = _done(_again(tmp_path, variants, text=text))
    (tmp_path / "g.cu").write_text("int i;\n")
    assert _ahead(_again(tmp_path, variants, text=text), history).run == PLAIN + BINDING - 1


def test_an_architecture_more_runs_what_is_for_it(tmp_path: Path) -> None:
    history = _done(_actions(tmp_path, FILES))
    actions = _actions(tmp_path, FILES, text=KERNEL.replace('"8.0"', '"8.0", "8.6"'))
    runs = [
        action.mnemonic
        for action in actions
        if action.reads not in {r for known in history.values() for r in known.reads}
    ]
    assert sorted(set(runs)) == [
        "CudaAssemble",
        "CudaDeviceCompile",
        "CudaDeviceFrontend",
        "CudaDeviceShare",
        "CudaFallback",
        "CudaFatbinary",
        "CudaPreprocess",
        "KernelCxxName",
    ]
    assert _ahead(actions, history).run == 5 + 2 * READ + 2


def test_without_torch_an_architecture_more_is_preprocessed_alone(tmp_path: Path) -> None:
    text = KERNEL.replace('["torch"]', "[]")
    history = _done(_actions(tmp_path, FILES, text=text))
    actions = _actions(tmp_path, FILES, text=text.replace('"8.0"', '"8.0", "8.6"'))
    known = {r for record in history.values() for r in record.reads}
    runs = {(action.mnemonic, action.arch) for action in actions if action.section == "g" and action.reads not in known}
    alone = {(mnemonic, "sm_86") for mnemonic in ("CudaAssemble", "CudaDeviceCompile", "CudaPreprocess")}
    assert runs == {*alone, ("CudaFatbinary", None)}


def test_a_last_architecture_more_may_have_other_host_code(tmp_path: Path) -> None:
    history = _done(_actions(tmp_path, FILES))
    actions = _actions(tmp_path, FILES, text=KERNEL.replace('"9.0+PTX"', '"9.0+PTX", "10.0"'))
    assert _ahead(actions, history).run == 5 + 2 * READ + 2 + 1


def test_what_did_the_same_before_is_shared(tmp_path: Path) -> None:
    """Two releases of CUDA whose later phases turned out to be the same: nobody knows before the first build."""
    variants = ("torch213-*-cu130-*", "torch213-*-cu132-*")
    actions = _actions(tmp_path, FILES, variants)
    assert _ahead(actions, {}).shared == 0
    same = {action.place: f"{action.mnemonic} {action.arch}" for action in actions if action.mnemonic == "CudaAssemble"}
    edited = _actions(tmp_path, FILES | {"g.cu": "int i;\n"}, variants)
    ahead = _ahead(edited, _done(actions, keys=same))
    assert (ahead.shared, ahead.run) == (2, 2 * ALL - 2 + 2)


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    actions = _actions(tmp_path, FILES)
    left = learned(_done(actions), [], [], {("g", "g.cu")})
    assert left
    assert {key.split("|")[0] for key in left} == {"g"}


def test_sources_that_include_templates(tmp_path: Path) -> None:
    """By themselves or through others of the project; only what nvcc compiles takes more."""
    for number, line in enumerate(
        ("#include <cute/tensor.hpp>", '#include "cutlass/gemm.h"', "#include <cub/cub.cuh>")
    ):
        files = FILES | {"a.cuh": f"{line}\n", "torch-ext/b.cpp": f"{FILES['torch-ext/b.cpp']}{line}\n"}
        actions = _actions(tmp_path / str(number), files)
        assert {action.source for action in actions if action.templates} == ({"g.cu"} if number < 2 else set())


def test_device_code_is_linked_for_each_architecture_and_again_when_one_source_changes(tmp_path: Path) -> None:
    text = KERNEL.replace('depends = ["torch"]', 'depends = []\ncuda-flags = ["-rdc=true"]')
    whole = GENERAL + TORCH + text
    actions = _actions(tmp_path, FILES, TWO[:1], text=text)
    linked = [(action.mnemonic, action.arch) for action in actions if action.section == "device_link"]
    assert linked == [("CudaDeviceLink", "sm_80"), ("CudaDeviceLink", "sm_90"), ("CudaRegisterLinked", None)]
    history = _done(actions)
    again = _again(tmp_path, TWO[:1], text=whole)
    assert _counts(_ahead(again, history)) == (0, 0, PLAIN + BINDING + 3)
    # Without torch's headers, releases of torch share what is linked.
    both = _again(tmp_path, text=whole)
    assert _counts(_ahead(both, history)) == (BINDING, PLAIN + 3, PLAIN + BINDING + 3)
    (tmp_path / "a.cuh").write_text("int changed;\n", encoding="utf-8")
    changed = _again(tmp_path, TWO[:1], text=whole)
    assert {action.mnemonic for action in changed if action.section == "device_link"} == {
        mnemonic for mnemonic, _ in linked
    }
    assert _ahead(changed, history).run >= PLAIN + 3


def test_device_code_that_is_optimised_when_it_is_linked_is_compiled_as_a_whole(tmp_path: Path) -> None:
    text = KERNEL.replace('depends = ["torch"]', 'depends = []\ncuda-flags = ["-dlto"]')
    actions = _actions(tmp_path, FILES, TWO[:1], text=text)
    assert [action.mnemonic for action in actions if action.section == "g"] == ["KernelCudaCompile"]
