"""Programs for Arm servers run as if this machine were one: by qemu, in a namespace that nobody else sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# An ELF file for the machine 183, of 64 bits and little-endian, is run by qemu: binfmt-misc.rst of Linux.
# Since Linux 6.7 each user namespace has a table of its own. F opens qemu at once, so that what follows may change its
# root.
_HEADER = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
_SCRIPT = r"""set -e
mount -t binfmt_misc none "$1"
printf '%s' ":qemu-aarch64:M::HEADER:MASK:$2:FPOC" > "$1/register"
if [ "$3" ]; then mount -t overlay overlay -o "lowerdir=/usr/lib:$3" /usr/lib; fi
shift 3
exec "$@"
""".replace("HEADER", _HEADER).replace("MASK", _MASK)


def emulated(qemu: Path, place: Path, libraries: tuple[Path, ...] = ()) -> list[str]:
    """The beginning of a command that runs another one where programs for Arm servers run.

    Args:
        qemu: the program `qemu-aarch64-static`.
        place: a directory to make; the table of formats is mounted on it.
        libraries: directories that are seen in /usr/lib besides what is there: a C library for these programs.
    """
    place.mkdir()
    lower = ":".join(map(str, libraries))
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SCRIPT, "sh", str(place), str(qemu), lower]
