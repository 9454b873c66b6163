"""Triton's compiled code of a variant: the files of its directory `_aot`. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.images import AMDGPU, SASS, Image
from py_driver.inspecting.size import DEVICE, HEADERS, ImageFacts, Library, Piece, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DIRECTORY: Final = "_aot"
INDEX: Final = "index.json"
_FORMS: Final = {"cubin": SASS, "hsaco": AMDGPU}
_LAUNCHER: Final = "launcher"


class Compiled(NamedTuple):
    """A function that Triton has compiled for an architecture.

    Attributes:
        file: the file with its machine code.
        request: the name of the signature and configuration in the index.
        symbol: the function's name in that file.
        name: the function with its signature and configuration, like C++ template arguments.
        arch: `9.0`, `gfx942`.
        form: `SASS` or `AMDGPU`.
    """

    file: str
    request: str
    symbol: str
    name: str
    arch: str
    form: str


def compiled_in(index: bytes, files: Iterable[str]) -> list[Compiled]:
    """The compiled functions in the directory `_aot` of a variant.

    Args:
        index: the content of its index.json.
        files: the names of all files in it.
    """
    table = json.loads(index)
    found = []
    for file in sorted(files):
        stem, _, suffix = file.rpartition(".")
        request, _, arch = stem.partition(".")
        if suffix in _FORMS and request in table["requests"]:
            symbol, name = _names(table, request)
            found.append(Compiled(file, request, symbol, name, arch, _FORMS[suffix]))
    return found


def _names(table: Mapping[str, Mapping[str, Mapping[str, object]]], request: str) -> tuple[str, str]:
    """The symbol of a request's function, and its name with signature and configuration."""
    asked: Mapping[str, Mapping[str, object]] = table["requests"][request]  # type: ignore[assignment]
    function = str(asked["function"])
    parameters: Iterable[tuple[str, bool, object]] = table["functions"][function]["parameters"]  # type: ignore[assignment]
    types = [str(asked["signature"][parameter]) for parameter, is_constant, _ in parameters if not is_constant]
    words = [*types, *(f"{key}={value}" for key, value in {**asked["constants"], **asked["options"]}.items())]
    symbol = function.rpartition(".")[2]
    return symbol, f"{symbol}<{', '.join(words)}>"


def library_of_triton(files: Mapping[str, bytes]) -> Library:
    """The division of the bytes of the directory `_aot`: machine code by function, and the launcher.

    Args:
        files: the content of all files, including index.json, by name.

    Raises:
        MalformedError: machine code is truncated.
    """
    pieces: list[Piece] = []
    images: list[ImageFacts] = []
    for compiled in compiled_in(files[INDEX], files):
        content = files[compiled.file]
        size = len(content)
        image = Image(compiled.form, compiled.arch, len(images), size, 0, size, "", shared=False, content=content)
        head = Piece(DIRECTORY, DEVICE, compiled.form, compiled.arch, len(images), "", HEADERS, 0, 0, exact=True)
        pieces += [
            piece._replace(symbol=compiled.name) if piece.symbol == compiled.symbol else piece
            for piece in pieces_of(image, head)
        ]
        facts = ImageFacts(compiled.form, compiled.arch, len(images), size, size, "", shared=False, unpacked=True)
        images.append(facts)
    total = sum(map(len, files.values()))
    rest = total - sum(image.stored for image in images)
    pieces.append(Piece(DIRECTORY, _LAUNCHER, "", "", -1, "", _LAUNCHER, rest, rest, exact=True))
    return Library(total, tuple(pieces), tuple(images))
