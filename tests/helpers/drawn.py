"""The boxes of a picture's shapes and texts, as a browser with DejaVu Sans places them."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Thousandths of the font size, for the characters from space to tilde: the `hmtx` tables of DejaVuSans.ttf and
# DejaVuSans-Bold.ttf 2.37. All characters of DejaVuSansMono.ttf have the same width.
_SANS = (
    "318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 337 "
    "337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 611 732 "
    "684 989 685 611 685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 634 612 635 "
    "635 411 521 392 634 592 818 592 592 525 636 337 636 838"
)
_BOLD = (
    "348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 400 "
    "400 838 838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812 "
    "774 1103 771 724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 712 687 716 "
    "716 493 595 478 712 652 924 645 652 582 712 365 712 838"
)
_WIDTHS = {bold: [int(width) for width in table.split()] for bold, table in ((False, _SANS), (True, _BOLD))}
_MONOSPACE = 602
_WIDEST = 1000
"""The width of a character that is not in the tables."""

_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_NUMBERS = re.compile(r"([MLHVhvz])([^MLHVhvz]*)")


class Box(NamedTuple):
    """The box of a shape or a text, in the unit of the picture.

    Attributes:
        name: its description, for messages.
        left: smallest x.
        top: smallest y.
        right: largest x.
        bottom: largest y.
    """

    name: str
    left: float
    top: float
    right: float
    bottom: float


class _Font(NamedTuple):
    size: float = 16.0
    bold: bool = False
    monospace: bool = False


def pictures(page: str) -> list[ET.Element]:
    """The pictures of an SVG or HTML page, each with the page's style.

    Args:
        page: the text of the page.
    """
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    found = []
    for text in _SVG.findall(page):
        root = ET.fromstring(text)  # noqa: S314  (our own drawing)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        root.set("styles", styles)
        found.append(root)
    return found


def text_width(text: str, size: float, *, bold: bool = False, monospace: bool = False) -> float:
    """The width of a text in DejaVu Sans.

    Args:
        text: a single line.
        size: the font size.
        bold: whether the font is bold.
        monospace: whether it is DejaVu Sans Mono.
    """
    if monospace:
        return size * len(text) * _MONOSPACE / 1000
    table = _WIDTHS[bold]
    return size * sum(table[ord(sign) - 32] if " " <= sign <= "~" else _WIDEST for sign in text) / 1000


def boxes(root: ET.Element) -> Iterator[Box]:
    """The boxes of all shapes and texts of a picture.

    Args:
        root: one of `pictures`.

    Raises:
        ValueError: a shape is of an unknown kind.
    """
    # Lighter or darker colours make no difference here.
    styles = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", root.attrib["styles"])
    rules = [
        (selector.split()[-1], body)
        for selectors, body in _RULE.findall(styles)
        for selector in selectors.split(",")
        if "font" in body and selector.strip()
    ]
    # A selector with a class has precedence over one without.
    rules.sort(key=lambda rule: "." in rule[0])
    yield from _boxes(root, rules, _Font())


def outside(root: ET.Element) -> list[Box]:
    """The shapes and texts that exceed the picture's view box by more than half a pixel.

    Args:
        root: one of `pictures`.
    """
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    return [
        box
        for box in boxes(root)
        if box.left < x - 0.5 or box.top < y - 0.5 or box.right > x + width + 0.5 or box.bottom > y + height + 0.5
    ]


def _boxes(element: ET.Element, rules: list[tuple[str, str]], font: _Font) -> Iterator[Box]:
    font = _font(element, rules, font)
    if element.tag in ("style", "title"):
        return
    if element.tag == "text":
        yield _text(element, font)
    elif element.tag not in ("svg", "g"):
        points = list(_points(element))
        across, down = [x for x, _ in points], [y for _, y in points]
        yield Box(f"{element.tag} {element.attrib}", min(across), min(down), max(across), max(down))
    else:
        for child in element:
            yield from _boxes(child, rules, font)


def _font(element: ET.Element, rules: list[tuple[str, str]], font: _Font) -> _Font:
    """The font of an element, from its attributes and the style rules."""
    names = element.attrib.get("class", "").split()
    own = {element.tag, *(f".{name}" for name in names), *(f"{element.tag}.{name}" for name in names)}
    texts = [
        f"font-{name}:{element.attrib[f'font-{name}']}"
        for name in ("size", "weight", "family")
        if f"font-{name}" in element.attrib
    ]
    for text in [*texts, *(body for selector, body in rules if selector in own)]:
        if size := re.search(r"font(?:-size)?:[^;]*?\b([\d.]+)(?:px)?\b", text.replace("font-weight", "weight")):
            font = font._replace(size=float(size[1]))
        if "bold" in text:
            font = font._replace(bold=True)
        if "font-family" in text or "font:" in text:
            font = font._replace(monospace="monospace" in text)
    return font


def _text(element: ET.Element, font: _Font) -> Box:
    words = "".join(element.itertext()).strip()
    assert words.isprintable(), words
    width = text_width(words, font.size, bold=font.bold, monospace=font.monospace)
    x, y = float(element.attrib["x"]), float(element.attrib["y"])
    left = x - {"start": 0, "middle": 0.5, "end": 1}[element.attrib.get("text-anchor", "start")] * width
    # The height of a line of letters above and below its base; DejaVu Sans's accented capitals need more.
    corners = [
        (across, down) for across in (left, left + width) for down in (y - 0.76 * font.size, y + 0.24 * font.size)
    ]
    if turn := element.attrib.get("transform"):
        angle, middle_x, middle_y = map(float, re.findall(r"-?[\d.]+", turn))
        assert turn.startswith("rotate(")
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        corners = [
            (
                middle_x + (across - middle_x) * cos - (down - middle_y) * sin,
                middle_y + (across - middle_x) * sin + (down - middle_y) * cos,
            )
            for across, down in corners
        ]
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return Box(f"text {words!r}", min(across), min(down), max(across), max(down))


def _points(element: ET.Element) -> Iterator[tuple[float, float]]:
    """The corners of a shape."""
    value = {name: float(text) for name, text in element.attrib.items() if re.fullmatch(r"-?[\d.]+", text)}
    if element.tag == "rect":
        x, y = value.get("x", 0.0), value.get("y", 0.0)
        assert value["width"] >= 0
        assert value["height"] >= 0
        yield from ((x, y), (x + value["width"], y + value["height"]))
    elif element.tag == "line":
        yield from ((value["x1"], value["y1"]), (value["x2"], value["y2"]))
    elif element.tag == "polyline":
        for point in element.attrib["points"].split():
            x, y = map(float, point.split(","))
            yield x, y
    elif element.tag == "path":
        x = y = 0.0
        for letter, text in _NUMBERS.findall(element.attrib["d"]):
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", text)]
            if letter in "ML":
                x, y = numbers
            elif letter in "Hh":
                x = numbers[0] + (x if letter == "h" else 0)
            elif letter in "Vv":
                y = numbers[0] + (y if letter == "v" else 0)
            yield x, y
    else:
        message = f"unknown shape: {element.tag}"
        raise ValueError(message)
