"""The size of device code with compression: by a toolkit's fatbinary, or else by Zstandard."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import DriverError
from py_driver.fetch.entry import parse_entry
from py_driver.fetch.fetcher import Fetcher
from py_driver.fetch.store import Store
from py_driver.fetch.unpacking import Selection, unpack
from py_driver.inspecting.images import FATBIN_SECTIONS, PTX, SASS, images_in
from py_driver.inspecting.packed import NoZstandardError, pack_zstandard
from py_driver.matrix.facts import facts
from py_driver.matrix.toolkits import numbers
from py_driver.system.cache import cache_root
from py_driver.system.environment import curated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from py_driver.inspecting.images import Image
    from py_driver.matrix.releases import Releases
    from py_driver.system.elf import Elf

_PROGRAM: Final = "bin/fatbinary"
_SMALLEST: Final = "size"
"""The choice of rules/facts/compression.bzl that is tried besides a release's default."""

_LEVELS: Final = {"balance": 3, "size": 19}
"""The levels of Zstandard that are closest to the choices: fatbinary of CUDA 13.0 compresses a cubin of 308,472 bytes
to 54,649 and 43,817, these levels to 55,722 and 44,447 (libzstd 1.5.4)."""

_KINDS: Final = {SASS: "elf", PTX: "ptx"}
_HEAD: Final = 16
_ALIGNMENT: Final = 8


class Compressed(NamedTuple):
    """The result of compressing device code.

    Attributes:
        choice: the value of `driver build --compress`: `balance`, `size`, ...
        before: the current bytes of the fat binaries.
        after: their bytes with this compression.
        method: the program that compressed them.
    """

    choice: str
    before: int
    after: int
    method: str


def compressed(elf: Elf, releases: Releases, version: str) -> list[Compressed]:
    """The results of compressing a library's fat binaries: by its CUDA release's default, and for the smallest size.

    Args:
        elf: the library.
        releases: the releases whose toolkits may be in the store.
        version: the CUDA release of the library; if empty, the newest release in the store is used.

    Returns:
        Empty if there is nothing to compress, or no program for it.

    Raises:
        DriverError: SET_UP if the store is invalid.
    """
    binaries: dict[int, list[Image]] = {}
    for section in elf.sections:
        for image in images_in(elf.content_of(section), section.offset) if section.name in FATBIN_SECTIONS else ():
            binaries.setdefault(image.binary, []).append(image)
    wanted = [own for own in binaries.values() if all(map(_is_known, own))]
    if not wanted:
        return []
    is_packed = all(image.packing for own in wanted for image in own)
    before = sum(_HEAD + sum(image.stored for image in own) for own in wanted)
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        scratch = Path(name)
        for found, program in _programs(releases, scratch, version):
            results = []
            for choice, words in _choices(releases, found, version, is_packed=is_packed).items():
                sizes = [_with_fatbinary(program, own, scratch, words) for own in wanted]
                after = sum(known for known in sizes if known is not None)
                results += (
                    [Compressed(choice, before, after, f"fatbinary of CUDA {found}")] if None not in sizes else []
                )
            if results:
                return results
    try:
        return [
            Compressed(choice, before, _HEAD * len(wanted) + after, f"Zstandard, level {level}")
            for choice, level in _LEVELS.items()
            if choice == _SMALLEST or not is_packed
            for after in [sum(_with_zstandard(image, level) for own in wanted for image in own)]
        ]
    except NoZstandardError:
        return []


def _is_known(image: Image) -> bool:
    """Whether an image can be compressed again."""
    return image.form in _KINDS and image.content is not None


def _choices(releases: Releases, found: str, version: str, *, is_packed: bool) -> Mapping[str, Sequence[str]]:
    """The options of a fatbinary to try, by choice of the user.

    Args:
        releases: the CUDA releases.
        found: the release of the fatbinary.
        version: the release of the library; empty if unknown.
        is_packed: whether the library is already compressed.
    """
    toolkits = releases.lock.parts["cuda"]
    known: Mapping[str, Sequence[str]] = facts("compression")["FATBINARY"].get(
        toolkits[found].get("compress_option"), {}
    )
    own = toolkits.get(version, toolkits[found]).get("compress", "")
    return {
        choice: known[choice] for choice in dict.fromkeys((*([] if is_packed else [own]), _SMALLEST)) if choice in known
    }


def _programs(releases: Releases, directory: Path, version: str) -> Iterator[tuple[str, Path]]:
    """The unpacked fatbinary programs of toolkits in the store: first the given release's, then the newest.

    Args:
        releases: the releases with toolkits.
        directory: an empty one.
        version: the release, which may be unknown.
    """
    store = Store(cache_root())
    toolkits = releases.lock.parts["cuda"]
    for release in sorted(toolkits, key=lambda release: (release == version, numbers(release)), reverse=True):
        for archive in toolkits[release]["archives"]:
            entry = parse_entry(archive)
            parts = [part for part in archive["unpack"] if any(_PROGRAM.startswith(name) for name in part["names"])]
            if not parts or not store.has(entry):
                continue
            strip = parts[0]["strip"]
            selection = Selection(include=(f"{strip}/{_PROGRAM}",), strip_prefix=strip)
            try:
                unpack(Fetcher(store).fetch(entry).path, entry, directory / release, selection)
            except DriverError:
                continue  # another archive of the toolkit contains it
            yield release, directory / release / _PROGRAM


def _with_fatbinary(program: Path, images: Sequence[Image], directory: Path, options: Sequence[str]) -> int | None:
    """The size of a fat binary that fatbinary compresses; None if it fails.

    Args:
        program: fatbinary.
        images: the images of the fat binary.
        directory: a directory for files.
        options: the options of the compression.
    """
    result = directory / "compressed.fatbin"
    words = [str(program), f"--create={result}", "--64", *options]
    for number, image in enumerate(images):
        path = directory / f"image-{number}"
        content = image.content or b""
        path.write_bytes(content.removesuffix(b"\0") if image.form == PTX else content)  # fatbinary adds the zero again
        words.append(f"--image3=kind={_KINDS[image.form]},sm={image.arch.replace('.', '')},file={path}")
    done = subprocess.run(words, capture_output=True, check=False, env=curated())
    if done.returncode:
        return None
    # Headers are unchanged: nvcc's headers contain the options of ptxas.
    fresh = [image.stored - image.head for image in images_in(result.read_bytes(), 0)]
    return _HEAD + sum(fresh) + sum(image.head for image in images) if len(fresh) == len(images) else None


def _with_zstandard(image: Image, level: int) -> int:
    """The size of an image that Zstandard compresses, with its header.

    Raises:
        NoZstandardError: this machine has no Zstandard.
    """
    packed = len(pack_zstandard(image.content or b"", level))
    return image.head + min(-(-packed // _ALIGNMENT) * _ALIGNMENT, image.size)


def totals(found: Iterable[Compressed]) -> list[Compressed]:
    """The sums of compression results of several libraries, by choice and method."""
    sums: dict[tuple[str, str], Compressed] = {}
    for result in found:
        old = sums.get((result.choice, result.method), result._replace(before=0, after=0))
        before, after = old.before + result.before, old.after + result.after
        sums[result.choice, result.method] = old._replace(before=before, after=after)
    return [*sums.values()]
