"""What our pictures have in common: how wide a text is, and what stands around its shapes. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# The widths are those of DejaVu Sans, rounded up: of the usual fonts without serifs it is the widest.
_CLASSES: Final = (
    (" '.,:;/\\|ijlIJ", 0.38),
    ('"!()[]-frt', 0.47),
    ("?*_`sczLFkvxyToaeEhnuSbdgpq$0123456789{}", 0.64),
    ("PYKAVXZBRCUNHDGOQ&#+<=>^~", 0.84),
)
_WIDTHS: Final = {character: width for characters, width in _CLASSES for character in characters}
_OTHER: Final = 1.0
_BOLD: Final = 1.13
"""How many times as wide a bold character is at most, within its class."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is at most in a font without serifs, in the unit of its size.

    Args:
        text: a single line.
        size: of the font.
        bold: whether the font is bold.
    """
    width = size * sum(_WIDTHS.get(character, _OTHER) for character in text)
    return width * _BOLD if bold else width


def widest(texts: Iterable[str], size: float, *, bold: bool = False) -> float:
    """How wide the widest of some texts is at most; 0 without any.

    Args:
        texts: single lines.
        size: of the font.
        bold: whether the font is bold.
    """
    return max((text_width(text, size, bold=bold) for text in texts), default=0.0)


def svg(title: str, width: float, height: float, style: str, parts: Iterable[str]) -> str:
    """A picture as a file of its own.

    Args:
        title: what the picture shows, for those who do not see it.
        width: of all its parts, in pixels.
        height: likewise.
        style: CSS of its parts.
        parts: elements of the picture.
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
