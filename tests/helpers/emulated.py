"""Runs programs for Arm servers on this machine, with qemu, in a namespace of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# qemu runs a 64-bit little-endian ELF file for machine 183: binfmt-misc.rst of Linux. Since Linux 6.7 each user
# namespace has its own table. F opens qemu at once, so that later steps may change the root.
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
    """The prefix of a command that runs another command where Arm server programs work.

    Args:
        qemu: the program `qemu-aarch64-static`.
        place: a directory to create; the table of formats is mounted there.
        libraries: directories that appear in /usr/lib in addition: a C library for these programs.
    """
    place.mkdir()
    lower = ":".join(map(str, libraries))
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SCRIPT, "sh", str(place), str(qemu), lower]
