"""Where the bytes of real libraries are: all sums are those of the files."""

from __future__ import annotations

import json
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from py_driver.errors import DriverError
from py_driver.inspecting import packed
from py_driver.inspecting.images import AMDGPU, PTX, SASS, images_in
from py_driver.inspecting.measured import measured
from py_driver.inspecting.packed import PackedError, pack_zstandard, unpack_lz4, unpack_zstandard
from py_driver.inspecting.parts import Range, divided, shares
from py_driver.inspecting.size import Library, library_of
from py_driver.inspecting.size_changes import changes_of
from py_driver.inspecting.size_groups import (
    SHARED,
    by_arch,
    by_function,
    by_instance,
    by_kernel,
    by_section,
    kernel_of,
)
from py_driver.system.elf import Elf, MalformedError, mapped

LIBRARIES = Path(__file__).parents[2] / "abi" / "libraries"
READABLE = sorted(path for path in LIBRARIES.glob("*.so") if path.name != "i386.so")
KERNEL = "_Z1kv"
GPU, HIP = LIBRARIES / "gpu.so", LIBRARIES / "hip.so"
ELF_OF_GPU = Elf(GPU.read_bytes())


def of_file(path: Path) -> Library:
    with mapped(path) as elf:
        return library_of(elf)


def check_sums(library: Library) -> None:
    """All tables have all bytes that they are about, each once."""
    assert sum(piece.stored for piece in library.pieces) == library.size
    assert all(piece.stored >= 0 and piece.size >= 0 for piece in library.pieces)
    assert sum(group.stored for group in by_section([library])) == library.size
    images = sum(image.stored for image in library.images)
    assert sum(group.stored for group in by_arch([library])) == images
    device = sum(piece.stored for piece in library.pieces if piece.kind == "device code")
    assert sum(group.stored for group in by_kernel([library])) == device >= images
    assert sum(group.stored for group in by_instance([library])) == device
    named = sum(piece.stored for piece in library.pieces if piece.symbol and piece.image < 0)
    assert sum(group.stored for group in by_function([library])) == named


INDEX = {
    "functions": {"kernels._Z1kv": {"parameters": [["out", False, []], ["BLOCK", True, []]]}},
    "requests": {
        "k-1": {
            "function": "kernels._Z1kv",
            "signature": {"out": "*fp32:16"},
            "constants": {"BLOCK": 64},
            "options": {"num_warps": 4},
        }
    },
}


def triton_files(tmp_path: Path) -> Path:
    """A variant's directory as Triton's machine code lies in it: a cubin of nvcc's stands for it."""
    [content] = [
        image.content
        for section in ELF_OF_GPU.sections
        if section.name == ".nv_fatbin"
        for image in images_in(ELF_OF_GPU.content_of(section), section.offset)
        if (image.form, image.arch) == (SASS, "8.0")
    ]
    assert content is not None
    directory = tmp_path / "torch-cuda" / "_aot"
    directory.mkdir(parents=True)
    (directory / "index.json").write_text(json.dumps(INDEX), encoding="utf-8")
    (directory / "k-1.8.0.cubin").write_bytes(content)
    (directory / "k-1.8.0.json").write_text("{}", encoding="utf-8")
    return directory


def test_code_of_triton_by_its_functions(tmp_path: Path) -> None:
    directory = triton_files(tmp_path)
    [found] = measured([directory.parent])
    assert measured([directory]) == [found]
    check_sums(found.library)
    sizes = {path.name: path.stat().st_size for path in directory.iterdir()}
    assert found.library.size == sum(sizes.values())
    [arch] = by_arch([found.library])
    assert (arch.name, arch.kind, arch.stored) == ("8.0", SASS, sizes["k-1.8.0.cubin"])
    assert "_Z1kv<*fp32:16, BLOCK=64, num_warps=4>" in {group.name for group in by_instance([found.library])}


def test_code_of_triton_in_a_wheel(tmp_path: Path) -> None:
    directory = triton_files(tmp_path)
    wheel = tmp_path / "k-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.iterdir()):
            archive.write(path, f"k/torch-cuda/_aot/{path.name}")
        packed = sum(member.compress_size for member in archive.infolist())
    [found] = measured([wheel])
    assert found.name == f"{wheel}/k/torch-cuda/_aot"
    assert found.packed == packed < found.library.size


def test_malformed_code_of_triton_is_an_error(tmp_path: Path) -> None:
    directory = triton_files(tmp_path)
    cubin = directory / "k-1.8.0.cubin"
    cubin.write_bytes(cubin.read_bytes()[:200])
    with pytest.raises(DriverError, match="malformed"):
        measured([directory.parent])
    for index in ("[]", "[" * 100_000):
        (directory / "index.json").write_text(index, encoding="utf-8")
        with pytest.raises(DriverError, match="malformed"):
            measured([directory.parent])


@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_the_parts_are_the_whole(path: Path) -> None:
    library = of_file(path)
    assert library.size == path.stat().st_size
    check_sums(library)


def test_sections_are_as_large_as_their_headers_say() -> None:
    with mapped(GPU) as elf:
        sizes = {section.name: section.stored for section in elf.sections if section.stored}
    found = {group.name: group.stored for group in by_section([of_file(GPU)])}
    rest = found.pop("headers and padding")
    assert found == sizes
    assert rest == GPU.stat().st_size - sum(sizes.values()) > 0


def test_device_code_by_architecture() -> None:
    found = {(group.name, group.kind): group.stored for group in by_arch([of_file(GPU)])}
    assert found == {
        ("8.0", SASS): 64 + 2984,
        ("9.0a", SASS): 64 + 3432,
        ("10.0f", SASS): 112 + 5016,
        ("12.0", SASS): 112 + 5016,
        ("9.0a", PTX): 80 + 96,
        ("12.0", PTX): 80 + 96,
    }
    [*hip] = by_arch([of_file(HIP)])
    assert [(group.name, group.kind, group.members) for group in hip] == [
        ("gfx90a", AMDGPU, 1),
        ("gfx942:sramecc+:xnack-", AMDGPU, 1),
    ]


def test_the_bytes_of_a_kernel_are_its_sections() -> None:
    """The kernel of each image: code, constants, attributes."""
    library = of_file(GPU)
    with mapped(GPU) as elf:
        data = next(section for section in elf.sections if section.name == ".nv_fatbin")
        images = [*images_in(elf.content_of(data), data.offset)]
    for number, image in enumerate(images):
        if image.form != SASS or image.content is None:
            continue
        cubin = Elf(image.content)
        own = sum(section.stored for section in cubin.sections if section.name.endswith(f".{KERNEL}"))
        assert own > 0
        pieces = [piece for piece in library.pieces if piece.image == number]
        assert sum(piece.stored for piece in pieces if piece.symbol == KERNEL) == own
        assert sum(piece.stored for piece in pieces) == image.stored


def test_compressed_images_have_shares_that_add_up() -> None:
    library = of_file(GPU)
    number = next(number for number, image in enumerate(library.images) if image.packing)
    image = library.images[number]
    pieces = [piece for piece in library.pieces if piece.image == number]
    assert (image.packing, image.size, image.unpacked) == ("Zstandard", 95, True)
    assert sum(piece.stored for piece in pieces) == image.stored
    assert {piece.exact for piece in pieces if piece.part != "headers and padding"} == {False}
    assert {piece.symbol for piece in pieces} == {"", KERNEL}


def test_without_zstandard_an_image_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "ZSTANDARD_LIBRARY", "libno-such-zstd.so.1")
    packed._zstandard.cache_clear()  # noqa: SLF001  (its answer is kept)
    try:
        library = of_file(GPU)
    finally:
        packed._zstandard.cache_clear()  # noqa: SLF001
    assert [image.unpacked for image in library.images] == [True, True, False, True, True, False]
    check_sums(library)
    assert any(piece.part == "not unpacked" for piece in library.pieces)


@pytest.mark.parametrize("path", [GPU, HIP, LIBRARIES / "good.so"], ids=lambda path: path.stem)
def test_a_truncated_library_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for size in range(0, len(content), 97):
        with pytest.raises(MalformedError):
            library_of(Elf(content[:size]))


@pytest.mark.parametrize("path", [GPU, HIP, LIBRARIES / "good.so"], ids=lambda path: path.stem)
def test_a_damaged_library_is_refused_or_its_parts_are_the_whole(path: Path) -> None:
    content = path.read_bytes()
    chance = random.Random(7)  # noqa: S311  (the same each time)
    read = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[chance.randrange(6, len(content))] = chance.randrange(256)
        if chance.randrange(2):  # a number of 64 bits that is larger than any file
            at = chance.choice([chance.randrange(8, len(content), 8), 32, 40])
            damaged[at : at + 8] = b"\xff" * 8
        try:
            library = library_of(Elf(bytes(damaged)))
        except MalformedError:
            continue
        read += 1
        assert library.size == len(content)
        check_sums(library)
    assert read > 0


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" * 100, (LIBRARIES / "i386.so").read_bytes()])
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedError, match="the header"):
        Elf(content)


def bundle(**codes: bytes) -> bytes:
    """A bundle of clang, as llvm's ClangOffloadBundler.rst has it."""
    names = {f"hipv4-amdgcn-amd-amdhsa--{arch}".encode(): code for arch, code in codes.items()}
    head = sum(24 + len(name) for name in names) + 32
    text = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    at = head
    for name, code in names.items():
        text += struct.pack("<QQQ", at, len(code), len(name)) + name
        at += len(code)
    return text + b"".join(codes.values())


@pytest.mark.parametrize("method", [0, 1])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_compressed_bundle_is_unpacked(version: int, method: int) -> None:
    plain = bundle(gfx90a=b"a" * 500, gfx942=b"b" * 1000)
    packed_bundle = zlib.compress(plain) if method == 0 else pack_zstandard(plain, 3)
    form = {1: "<4sHHIQ", 2: "<4sHHIIQ", 3: "<4sHHQQQ"}[version]
    size = struct.calcsize(form) + len(packed_bundle)
    sizes = (size, len(plain)) if version > 1 else (len(plain),)
    data = b"\0" * 16 + struct.pack(form, b"CCOB", version, method, *sizes, 7) + packed_bundle
    images = [*images_in(data, 4096)]
    assert [(image.arch, image.size, image.binary, image.shared) for image in images] == [
        ("gfx90a", 500, 4112, True),
        ("gfx942", 1000, 4112, True),
    ]
    assert sum(image.stored for image in images) == size
    assert [image.content for image in images] == [b"a" * 500, b"b" * 1000]


def test_lz4() -> None:
    # `ab`, then five bytes from two before, then `cde`.
    block = b"\x21ab\x02\x00\x30cde"
    assert unpack_lz4(block, 10) == b"abababacde"
    assert unpack_lz4(b"\xf0\x05" + b"x" * 20, 20) == b"x" * 20
    for size in (0, 9, 11):
        with pytest.raises(PackedError):
            unpack_lz4(block, size)
    for wrong in (b"\x21ab\x00\x00\x30cde", b"\x21ab\x03\x00\x30cde", b"\xf0\xff", b"\x21ab\x02"):
        with pytest.raises(PackedError):
            unpack_lz4(wrong, 10)


def test_zstandard() -> None:
    content = random.Random(1).randbytes(1000) * 3  # noqa: S311  (the same each time)
    frame = pack_zstandard(content, 19)
    assert len(frame) < len(content)
    assert unpack_zstandard(frame, len(content)) == content
    for size, wrong in ((len(content) - 1, frame), (len(content) + 1, frame), (3, b"xyz"), (1 << 31, frame)):
        with pytest.raises(PackedError):
            unpack_zstandard(wrong, size)


def test_ranges_are_counted_once() -> None:
    ranges = [Range(10, 20, "b"), Range(0, 15, "a"), Range(25, 100, "c"), Range(12, 2, "d"), Range(200, 5, "e")]
    counts, rest = divided(50, ranges)
    assert counts == [("a", 15), ("b", 15), ("d", 0), ("c", 20), ("e", 0)]
    assert rest == 0
    assert divided(50, [Range(10, 5, "a")]) == ([("a", 5)], 45)


@pytest.mark.parametrize("weights", [[1], [1, 1, 1], [0, 0, 7], [0, 0], [1000, 1, 1], [3, 5, 7, 11]])
@pytest.mark.parametrize("total", [0, 1, 2, 100, 101])
def test_shares_add_up(total: int, weights: list[int]) -> None:
    found = shares(total, weights)
    assert sum(found) == total
    assert all(
        abs(share - total * weight / sum(weights)) < 1
        for share, weight in zip(found, weights, strict=True)
        if sum(weights)
    )


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("void relu::kernel<float, 4>(float*, int)", "relu::kernel"),
        ("void relu::kernel<__half, 8>(__half*, int)", "relu::kernel"),
        ("void at::native::vectorized<4, at::Functor<float>, std::array<char*, 3ul> >(int)", "at::native::vectorized"),
        ("int box<float>::run<3>(void (*)(int)) const", "box::run"),
        ("plain", "plain"),
        ("bool operator< <int>(box<int> const&, box<int> const&)", "operator<"),
        ("box<int>::operator->()", "box::operator->"),
        ("std::ostream& ns::operator<< <char>(std::ostream&, char)", "ns::operator<<"),
        ("(anonymous namespace)::k<1>(float*)", "k"),
    ],
)
def test_the_instances_of_a_template_have_one_name(name: str, kernel: str) -> None:
    assert kernel_of(name) == kernel


def test_two_builds() -> None:
    old, new = of_file(GPU), of_file(HIP)
    changes = changes_of([old], [new])
    assert {change.name: change.verdict for change in changes["archs"]} == {
        **dict.fromkeys(("8.0", "9.0a", "10.0f", "12.0"), "removed"),
        **dict.fromkeys(("gfx90a", "gfx942:sramecc+:xnack-"), "added"),
    }
    assert sum(change.difference for change in changes["sections"]) == new.size - old.size
    [kernel] = [change for change in changes["instances"] if not change.name.startswith(SHARED)]
    assert (kernel.name, kernel.verdict, kernel.after) == ("k", "removed", None)
    same = changes_of([old], [old])
    assert {change.verdict for own in same.values() for change in own} == {"same"}
