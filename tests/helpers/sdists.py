"""Source archives of Python projects."""

from __future__ import annotations

import io
import tarfile

SETUP = b"from setuptools import setup\nsetup()\n"


def tarred(top: str, files: dict[str, bytes | tarfile.TarInfo] | None = None) -> bytes:
    """A source archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in {f"{top}/setup.py": SETUP, **(files or {})}.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                archive.addfile(content)
                continue
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()
