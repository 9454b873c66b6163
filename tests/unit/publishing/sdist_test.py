"""What a source distribution of a project has."""

from __future__ import annotations

import importlib
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CLIENT = Path(__file__).parents[3] / "py_driver" / "client"


def test_hidden_files_are_not_packed(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".env", ".ssh/key", "torch-ext/tuned/.netrc", "torch-ext/.hidden/x.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("SECRET")
    (project / ".git").write_text("gitdir: /elsewhere\n")
    (project / "torch-ext/tuned/linked.py").symlink_to("/etc/hostname")
    monkeypatch.syspath_prepend(str(CLIENT))
    monkeypatch.chdir(project)
    backend = importlib.import_module("rules_torch_kernels.build_backend")
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        found = {member.name.partition("/")[2]: member.type for member in archive.getmembers()}
    assert {name: kind for name, kind in found.items() if kind != tarfile.REGTYPE} == {
        "torch-ext/tuned/linked.py": tarfile.SYMTYPE
    }
    sources = {"__init__.py", "weights.bin", "linked.py"}
    assert set(found) == {"PKG-INFO", "build.toml", *(f"torch-ext/tuned/{name}" for name in sources)}
