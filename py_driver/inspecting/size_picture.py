"""A treemap of the bytes of libraries. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.inspecting.assembly import plain
from py_driver.inspecting.size import DEVICE, HEADERS, HOST
from py_driver.inspecting.size_groups import SHARED, kernel_of, name_of
from py_driver.reporting.svg import svg, text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from py_driver.inspecting.size import Library, Piece

_WIDTH: Final = 960
_HEIGHT: Final = 560
_MARGIN: Final = 16
_TOP: Final = 46
_BAR: Final = 18
"""The height of a group's title."""

_SIZE: Final = 12
_TITLE: Final = 16
_PAD: Final = 4
_DOTS: Final = "..."
_STYLE: Final = (
    f"text{{font:{_SIZE}px sans-serif}}.title{{font-size:{_TITLE}px}}.group{{font-weight:bold}}rect{{stroke:#ffffff}}"
)
_DEVICE_COLOURS: Final = ("#2f6f9f", "#2a7f3f", "#b3541e", "#7a4f9a", "#8a6d1f", "#22797d", "#a03c5c", "#4d5f9e")
_HOST_COLOUR, _OTHER_COLOUR = "#6b6b6b", "#8d8d8d"
_SMALLEST: Final = 0.6
"""The smallest side of a rectangle that is drawn, in pixels."""


class Tile(NamedTuple):
    """A rectangle of the picture, and its bytes."""

    name: str
    stored: int
    left: float
    top: float
    width: float
    height: float


def picture(libraries: Sequence[Library], name: str) -> str:
    """The picture, as SVG: a rectangle for each architecture and kind of section, with one for each kernel or section.

    Args:
        libraries: the libraries.
        name: their name for the title.
    """
    groups = _groups(libraries)
    total = sum(library.size for library in libraries)
    title = f"{name}: {total:,} bytes"
    parts = [
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text class="title" x="{_MARGIN}" y="30">{escape(_fitting(title, _WIDTH - 2 * _MARGIN, _TITLE))}</text>',
    ]
    area = Tile("", 0, _MARGIN, _TOP, _WIDTH - 2 * _MARGIN, _HEIGHT - _TOP - _MARGIN)
    sums = {group: sum(own.values()) for group, own in groups.items()}
    colours = _colours(sums)
    for tile in squarified(sums.items(), area):
        parts += _group(tile, groups[tile.name], colours[tile.name], total)
    return svg(title, _WIDTH, _HEIGHT, _STYLE, parts)


def _groups(libraries: Sequence[Library]) -> dict[str, dict[str, int]]:
    """The bytes by group and name: kernels of each architecture, sections of each kind."""
    found: dict[str, dict[str, int]] = {}
    for piece in (piece for library in libraries for piece in library.pieces if piece.stored):
        group, name = _place(piece)
        own = found.setdefault(group, {})
        own[name] = own.get(name, 0) + piece.stored
    return found


def _place(piece: Piece) -> tuple[str, str]:
    """The group of a piece, and its name in it."""
    if piece.image >= 0:
        return f"{piece.arch} {piece.form}", plain(name_of(piece.symbol)) if piece.symbol else SHARED
    if piece.kind == HOST:
        return HOST, kernel_of(name_of(piece.symbol)) if piece.symbol else piece.section
    return "everything else", HEADERS if piece.kind == DEVICE else piece.section


def _colours(groups: Iterable[str]) -> dict[str, str]:
    """A colour for each group, different ones for device code."""
    others = {HOST: _HOST_COLOUR, "everything else": _OTHER_COLOUR}
    device = [group for group in groups if group not in others]
    return others | {group: _DEVICE_COLOURS[at % len(_DEVICE_COLOURS)] for at, group in enumerate(sorted(device))}


def _group(tile: Tile, names: dict[str, int], colour: str, total: int) -> Iterator[str]:
    """A group: its rectangle, its title if it fits, and its content."""
    if min(tile.width, tile.height) < _SMALLEST:
        return
    words = f"{tile.name}: {tile.stored:,} bytes, {100 * tile.stored / total:.1f}%"
    yield _rect(tile, colour, words)
    has_title = tile.height > 2 * _BAR and bool(_fitting(words, tile.width - 2 * _PAD, _SIZE, bold=True))
    bar = _BAR if has_title else 0
    if has_title:
        text = _fitting(words, tile.width - 2 * _PAD, _SIZE, bold=True)
        yield (
            f'<text class="group" fill="#ffffff" x="{tile.left + _PAD:.1f}" y="{tile.top + _BAR - 5:.1f}">'
            f"{escape(text)}</text>"
        )
    inside = tile._replace(top=tile.top + bar, height=tile.height - bar)
    for inner in squarified(names.items(), inside):
        if min(inner.width, inner.height) < _SMALLEST:
            continue
        yield _rect(inner, colour, f"{tile.name}, {inner.name}: {inner.stored:,} bytes", pale=True)
        text = _fitting(inner.name, inner.width - 2 * _PAD, _SIZE)
        if text and inner.height > _BAR:
            yield f'<text x="{inner.left + _PAD:.1f}" y="{inner.top + _BAR - 4:.1f}">{escape(text)}</text>'


def _rect(tile: Tile, colour: str, words: str, *, pale: bool = False) -> str:
    """A rectangle with its name as a tooltip."""
    look = f'fill="{_pale(colour) if pale else colour}"'
    return (
        f'<rect x="{tile.left:.2f}" y="{tile.top:.2f}" width="{tile.width:.2f}" height="{tile.height:.2f}" {look}>'
        f"<title>{escape(words)}</title></rect>"
    )


def _pale(colour: str) -> str:
    """A colour on which black text is readable."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{255 - (255 - part) * 2 // 5:02x}" for part in parts)


def _fitting(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """A text shortened to a width, with an ellipsis; empty if almost nothing fits."""
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + _DOTS, size, bold=bold) > width:
        text = text[:-1]
    return text + _DOTS if len(text) > len(_DOTS) else ""


def squarified(sizes: Iterable[tuple[str, int]], area: Tile) -> list[Tile]:
    """Rectangles that fill an area, in proportion to their bytes, and as square as possible.

    Bruls, Huizing, van Wijk: Squarified Treemaps (2000).

    Args:
        sizes: names and bytes; those without bytes get no rectangle.
        area: the area to fill.
    """
    left = sorted(((name, size) for name, size in sizes if size > 0), key=lambda pair: (-pair[1], pair[0]))
    total = sum(size for _, size in left)
    if not total or area.width <= 0 or area.height <= 0:
        return []
    scale = area.width * area.height / total
    found: list[Tile] = []
    while left:
        side = min(area.width, area.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side, scale) <= _worst(left[:count], side, scale):
            count += 1
        row, left = left[:count], left[count:]
        area = _row(row, area, scale, found, last=not left)
    return found


def _worst(row: Sequence[tuple[str, int]], side: float, scale: float) -> float:
    """The largest ratio of sides in a row that is laid along a side."""
    areas = [size * scale for _, size in row]
    total = sum(areas)
    return max(side * side * max(areas) / total**2, total**2 / (side * side * min(areas))) if side else float("inf")


def _row(row: Sequence[tuple[str, int]], area: Tile, scale: float, found: list[Tile], *, last: bool) -> Tile:
    """Lay a row along the shorter side of an area, and return the rest of the area."""
    total = sum(size for _, size in row)
    is_wide = area.width >= area.height
    side = area.height if is_wide else area.width
    room = area.width if is_wide else area.height
    thick = room if last or not side else min(total * scale / side, room)
    at = 0.0
    for name, size in row:
        length = side * size / total
        if is_wide:
            found.append(Tile(name, size, area.left, area.top + at, thick, length))
        else:
            found.append(Tile(name, size, area.left + at, area.top, length, thick))
        at += length
    if is_wide:
        return area._replace(left=area.left + thick, width=area.width - thick)
    return area._replace(top=area.top + thick, height=area.height - thick)
