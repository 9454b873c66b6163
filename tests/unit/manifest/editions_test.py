"""Every edition of build.toml gives the one manifest."""

from __future__ import annotations

import pytest

from py_driver.errors import Code, Diagnostic, DriverError
from py_driver.manifest.model import NEWEST, Manifest
from py_driver.manifest.reader import read
from py_driver.manifest.tables import TABLES
from py_driver.manifest.upgrade import meaning
from py_driver.matrix.backends import BACKENDS, KERNEL_BACKENDS

EDITION_0 = """\
[general]
version = "0.3.1"

[torch]
name = "activation"
src = ["ext-torch/torch_binding.cpp"]
pyroot = "ext-torch"

[kernel.activation]
capabilities = ["7.5", "9.0a"]
src = ["activation/activation.cu"]
depends = ["torch"]
"""

EDITION_1 = """\
[general]
name = "activation"

[torch]
src = ["torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"]

[kernel.activation]
language = "cuda-hipify"
cuda-capabilities = ["7.5", "9.0a"]
rocm-archs = ["gfx942"]
src = ["activation/activation_kernels.cu"]
include = ["."]
depends = ["torch"]
"""

EDITION_2 = """\
[general]
name = "activation"
cuda-minver = "12.4"
cuda-maxver = "13.0"
python-depends = ["einops", "nvidia-cutlass-dsl"]

[general.hub]
repo-id = "kernels-community/activation"

[torch]
src = ["torch-ext/torch_binding.cpp"]
minver = "2.6"

[kernel.activation]
backend = "cuda"
depends = ["torch", "cutlass_3_8"]
src = ["activation/activation_kernels.cu"]
cuda-flags = ["-lineinfo"]

[kernel.activation_metal]
backend = "metal"
depends = []
src = ["metal/activation.mm"]
"""

EDITION_3 = """\
[general]
name = "activation"
backends = ["cuda", "cpu"]

[general.cuda]
minver = "12.8"
python-depends = ["nvidia-cutlass-dsl"]

[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.activation]
backend = "cuda"
depends = ["torch"]
src = ["activation/activation_kernels.cu"]
"""

EDITION_4 = """\
[general]
name = "activation"
version = 3
license = "mit"
backends = ["cuda", "xpu"]
source = "git@example.org:kernels/activation"

[torch]
src = ["torch-ext/torch_binding.cpp"]
stable-abi = "2.9"
cxx-flags = ["-O2"]

[kernel.activation]
backend = "xpu"
depends = ["sycl_tla"]
sycl-flags = ["-O3"]
src = ["activation/activation.cpp"]
"""

EDITION_5 = """\
[general]
name = "activation"
version = 3
edition = 5
license = "mit"
backends = ["cuda", "cpu", "tpu"]
kernel-depends = [{ repo-id = "a/b", version = 1 }]

[general.tpu]
python-depends = []

[torch]
src = ["torch-ext/torch_binding.cpp"]
stable-abi = { cuda = "2.9" }

[kernel.activation]
backend = "cuda"
depends = []
src = ["activation/activation.cu"]
"""

EDITION_6 = EDITION_5.replace("edition = 5", "edition = 6").replace('backend = "cuda"', 'language = "cpp-cuda"')

EDITIONS = (EDITION_0, EDITION_1, EDITION_2, EDITION_3, EDITION_4, EDITION_5, EDITION_6)


def reading(text: str) -> tuple[Manifest, list[Diagnostic]]:
    """The manifest of a text and what is wrong with it."""
    manifest, findings = read(text.encode(), "build.toml")
    return manifest, list(findings.diagnostics())


def right(text: str) -> Manifest:
    """The manifest of a text that is right."""
    manifest, diagnostics = reading(text)
    assert diagnostics == []
    return manifest


@pytest.mark.parametrize("edition", range(NEWEST + 1))
def test_every_edition_is_told_and_read(edition: int) -> None:
    manifest = right(EDITIONS[edition])
    assert manifest.edition == edition
    assert manifest.name.value == "activation"
    assert manifest.module == "activation"


def test_edition_0() -> None:
    manifest = right(EDITION_0)
    assert (manifest.version, manifest.license, manifest.python_root) == (0, "unknown", "ext-torch/activation")
    (kernel,) = manifest.kernels
    assert manifest.built == ("cuda",)
    assert [dependency.value for dependency in kernel.depends] == ["torch"]
    assert kernel.capabilities
    assert [(item.value, item.span.line, item.span.column) for item in kernel.capabilities.value] == [
        ("7.5", 10, 17), ("9.0a", 10, 24)
    ]  # fmt: skip


def test_edition_1_hipify_is_two_sections() -> None:
    manifest = right(EDITION_1)
    assert [backend.value for backend in manifest.backends] == ["cuda", "rocm"]
    assert manifest.built == ("cuda", "rocm")
    cuda, rocm = manifest.kernels
    assert (cuda.name.value, rocm.name.value) == ("activation", "activation_rocm")
    assert (cuda.src, cuda.include, cuda.depends) == (rocm.src, rocm.include, rocm.depends)
    assert (cuda.rocm_archs, rocm.capabilities) == (None, None)
    assert rocm.rocm_archs
    assert [capability.value for capability in rocm.rocm_archs.value] == ["gfx942"]
    twice = EDITION_1 + "[kernel.activation_rocm]\ndepends = []\nsrc = ['a.cu']\n"
    assert [diagnostic.code for diagnostic in reading(twice)[1]] == [Code.BAD_NAME]


@pytest.mark.parametrize(
    "text",
    ['[general]\nname = "ab"\n[torch]\nuniversal = true\n', '[general]\nname = "ab"\nuniversal = true\n[torch]\n'],
)
def test_universal_projects(text: str) -> None:
    manifest = right(text)
    assert [backend.value for backend in manifest.backends] == ["universal"]
    assert manifest.framework.noarch
    assert [diagnostic.code for diagnostic in reading(text + "src = ['a.cpp']\n")[1]] == [Code.BAD_VALUE]


def test_edition_2() -> None:
    manifest = right(EDITION_2)
    assert [backend.value for backend in manifest.backends] == ["cuda", "metal"]
    assert manifest.cuda.minver
    assert manifest.cuda.maxver
    assert (manifest.cuda.minver.value, manifest.cuda.maxver.value) == ((12, 4), (13, 0))
    assert (manifest.depends[""].python, manifest.depends["cuda"].python) == (("einops",), ("nvidia-cutlass-dsl",))
    assert manifest.hub.repo_id == "kernels-community/activation"
    assert [dependency.value for dependency in manifest.kernels[0].depends] == ["torch", "cutlass_3_8"]


def test_edition_3_may_lack_what_4_must_have() -> None:
    manifest = right(EDITION_3)
    assert (manifest.version, manifest.license) == (1, "unknown")
    assert right(EDITION_3.replace("backends", "version = 2\nbackends")).version == 2
    assert right(EDITION_3.replace("backends", 'license = "mit"\nbackends')).edition == 3
    noarch = EDITION_3.partition("[torch]")[0]
    assert right(noarch).framework.noarch
    assert right(noarch).edition == 3


def test_edition_4_and_5_say_their_stable_abi() -> None:
    four = right(EDITION_4).framework.stable_abi
    assert set(four) == set(BACKENDS)
    assert four["cuda"].value == (2, 9)
    five = right(EDITION_5).framework.stable_abi
    assert list(five) == ["cuda"]
    assert reading(EDITION_5.replace('cuda = "2.9"', 'cuba = "2.9"'))[1][0].label == "did you mean `cuda`?"


@pytest.mark.parametrize("spelling", ["cuda_capabilities", "cuda-capabilities"])
def test_noarch_reads_both_spellings(spelling: str) -> None:
    text = f"{EDITION_4.partition('[torch]')[0]}[torch-noarch]\n{spelling} = ['8.0', '8.0', '9.0']\n"
    capabilities = right(text).framework.capabilities
    assert capabilities
    assert [capability.value for capability in capabilities.value] == ["8.0", "9.0"]


def test_both_spellings_at_once() -> None:
    text = (
        f"{EDITION_4.partition('[torch]')[0]}[torch-noarch]\ncuda-capabilities = ['8.0']\ncuda_capabilities = ['8.0']\n"
    )
    assert [(diagnostic.code, diagnostic.span.line) for diagnostic in reading(text)[1] if diagnostic.span] == [
        (Code.BAD_VALUE, 10)
    ]


def test_tvm_ffi_is_read() -> None:
    text = EDITION_5.replace("[torch]", "[tvm-ffi]").replace('stable-abi = { cuda = "2.9" }\n', "")
    manifest = right(text)
    assert (manifest.framework.table, manifest.python_root) == ("tvm-ffi", "tvm-ffi-ext/activation")
    assert manifest.framework.src[0].value == "torch-ext/torch_binding.cpp"


@pytest.mark.parametrize(
    ("text", "old", "new", "edition"),
    [
        (EDITION_1, '"activation"', '"activation"\nuniversal = false', 2),
        (EDITION_1, "language = ", 'backend = "cuda"\nlanguage = ', 2),
        (EDITION_2, 'name = "activation"', 'name = "activation"\nbackends = ["cuda"]', 3),
        (EDITION_3, "[torch]", "[torch]\nstable-abi = '2.9'", 4),
        (EDITION_3, "[torch]\n", "[torch-noarch]\n", 4),
    ],
)
def test_a_key_of_a_later_edition_tells(text: str, old: str, new: str, edition: int) -> None:
    assert old in text
    assert reading(text.replace(old, new, 1))[0].edition == edition


def test_a_string_as_version_tells_nothing_where_a_later_key_does() -> None:
    manifest, found = reading(EDITION_4.replace("version = 3", 'version = "3"'))
    assert manifest.edition >= 3
    assert [(diagnostic.code, diagnostic.span.line if diagnostic.span else 0) for diagnostic in found] == [
        (Code.WRONG_TYPE, 3)
    ]
    manifest, found = reading(EDITION_2.replace("[general]\n", '[general]\nversion = "0.0.1"\n'))
    assert (manifest.edition, [diagnostic.code for diagnostic in found]) == (2, [Code.UNKNOWN_KEY])


@pytest.mark.parametrize("pyroot", ["../out", "/out", "a b", "a;id", ""])
def test_the_package_of_edition_0_is_a_path(pyroot: str) -> None:
    _, found = reading(EDITION_0.replace('"ext-torch"', f'"{pyroot}"'))
    assert [diagnostic.span.text for diagnostic in found if diagnostic.span] == [f'pyroot = "{pyroot}"']


def test_errors_say_why_an_edition_was_chosen() -> None:
    text = EDITION_1.replace("[kernel.activation]", '[kernel.activation]\nbackend = "cuda"')
    found = {diagnostic.message: (diagnostic.label, diagnostic.help) for diagnostic in reading(text)[1]}
    assert found["unknown key `language` in [kernel.activation]"] == (
        "is a key of edition 1 and edition 6",
        "this file is read as edition 2: see `backend` in line 8",
    )


@pytest.mark.parametrize(("edition", "code"), [("4", Code.EDITION), ("9", Code.EDITION), ("'5'", Code.WRONG_TYPE)])
def test_what_edition_cannot_be(edition: str, code: Code) -> None:
    with pytest.raises(DriverError) as caught:
        read(EDITION_5.replace("edition = 5", f"edition = {edition}").encode(), "build.toml")
    assert [(diagnostic.code, diagnostic.span.line) for diagnostic in caught.value.diagnostics if diagnostic.span] == [
        (code, 4)
    ]


@pytest.mark.parametrize("backend", KERNEL_BACKENDS)
def test_edition_6_says_language_where_5_says_backend(backend: str) -> None:
    five = EDITION_5.replace('backend = "cuda"', f'backend = "{backend}"')
    six = EDITION_6.replace('"cpp-cuda"', f'"cpp-{backend}"')
    assert meaning(right(five)) == meaning(right(six))


def test_edition_6_has_no_backend_and_no_other_languages() -> None:
    added = EDITION_6.replace('language = "cpp-', 'backend = "cuda"\nlanguage = "cpp-')
    found = [(diagnostic.code, diagnostic.label) for diagnostic in reading(added)[1]]
    assert found == [(Code.UNKNOWN_KEY, "is a key of editions 2 to 5")]
    found = [
        (diagnostic.code, diagnostic.label) for diagnostic in reading(EDITION_6.replace("cpp-cuda", "cpp-cuba"))[1]
    ]
    assert found == [(Code.BAD_VALUE, "did you mean `cpp-cuda`?")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            EDITION_6.replace('language = "cpp-', 'backend = "'),
            "edition 6 is stated, but all [kernel.*] sections have `backend`, as in edition 5",
        ),
        (
            EDITION_5.replace('backend = "', 'language = "cpp-'),
            "edition 5 is stated, but all [kernel.*] sections have `language`, as in edition 6",
        ),
    ],
    ids=["6", "5"],
)
def test_an_edition_stated_by_accident_is_one_error(text: str, message: str) -> None:
    with pytest.raises(DriverError) as caught:
        reading(text)
    assert [(diagnostic.code, diagnostic.message) for diagnostic in caught.value.diagnostics] == [
        (Code.EDITION, message)
    ]


def test_sections_in_rust_are_read() -> None:
    text = EDITION_6.replace("cpp-cuda", "rust-cpu") + 'cargo-manifest = "Cargo.toml"\n'
    manifest, found = reading(text)
    assert found == []
    assert (manifest.kernels[0].backend.value, manifest.kernels[0].language) == ("cpu", "rust")


def test_edition_5_must_be_stated() -> None:
    with pytest.raises(DriverError) as caught:
        read(EDITION_5.replace("edition = 5\n", "").encode(), "build.toml")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.MISSING_KEY]


def test_every_declared_table_is_that_of_some_header() -> None:
    paths = [table.path for table in TABLES]
    assert len(set(paths)) == len(paths)
    for table in TABLES:
        for key in table.keys:
            assert key.doc.endswith("."), (table.path, key.name)
            same = [other for other in table.keys if other.name == key.name]
            assert all(sum(key.is_in(edition) for key in same) <= 1 for edition in range(NEWEST + 1))
