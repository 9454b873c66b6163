"""Shared parts of our pictures: the width of texts, and the frame of an SVG file. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# The widths are those of DejaVu Sans, rounded up: it is the widest of the usual sans-serif fonts.
_CLASSES: Final = (
    (" '.,:;/\\|ijlIJ", 0.38),
    ('"!()[]-frt', 0.47),
    ("?*_`sczLFkvxyToaeEhnuSbdgpq$0123456789{}", 0.64),
    ("PYKAVXZBRCUNHDGOQ&#+<=>^~", 0.84),
)
_WIDTHS: Final = {character: width for characters, width in _CLASSES for character in characters}
_OTHER: Final = 1.0
_BOLD: Final = 1.13
"""The largest width of a bold character relative to its class."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """The largest width of a text in a sans-serif font, in the unit of its size.

    Args:
        text: a single line.
        size: the size of the font.
        bold: whether the font is bold.
    """
    width = size * sum(_WIDTHS.get(character, _OTHER) for character in text)
    return width * _BOLD if bold else width


def widest(texts: Iterable[str], size: float, *, bold: bool = False) -> float:
    """The largest width of several texts; 0 without any.

    Args:
        texts: single lines.
        size: the size of the font.
        bold: whether the font is bold.
    """
    return max((text_width(text, size, bold=bold) for text in texts), default=0.0)


def svg(title: str, width: float, height: float, style: str, parts: Iterable[str]) -> str:
    """A picture as a file of its own.

    Args:
        title: what the picture shows, as alternative text.
        width: the width of all its parts, in pixels.
        height: the height of all its parts, in pixels.
        style: the CSS of its parts.
        parts: the elements of the picture.
    """
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}">',
            f"<title>{escape(title)}</title><style>{style}</style>",
            *parts,
            "</svg>",
            "",
        ]
    )
