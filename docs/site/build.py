# ruff: noqa: INP001  (a program of its own)
"""Builds the site of the pages into docs/_build/html, which git ignores: python3 docs/site/build.py [--out DIR].

The pages are the same as on a forge. For a link to a file of the checkout that is not a page, the site has a page with
its text; for a link to a directory, a page with the texts of its files.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from py_driver.errors import DriverError, ExitCode  # noqa: E402  (the checkout is no installed package)
from py_driver.output import Output  # noqa: E402
from py_driver.system.venv import ensure_venv  # noqa: E402

_DOCS = ROOT / "docs"
_SITE = _DOCS / "site"
_OUT = _DOCS / "_build"
_FENCE = re.compile(r"^ *```")
_LINK = re.compile(r"\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")
_KIND = re.compile(r"^## (.+)\n\n((?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
_ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\.md\)", re.MULTILINE)
_LANGUAGES = {".bazel": "python", ".cpp": "cpp", ".cu": "cuda", ".h": "cuda", ".json": "json", ".py": "python"}
_LANGUAGES |= {".toml": "toml", ".yml": "yaml", ".sh": "sh"}
_LONGEST = 300
"""Lines of a file of a directory that are shown: generated BUILD files are longer."""


def pages() -> dict[Path, str]:
    """Each page in the checkout, and its name in the site."""
    found = {path: path.stem for path in sorted(_DOCS.glob("*.md"))}
    return found | {path: path.stem.lower() for path in sorted(ROOT.glob("*.md"))}


def _files(directory: Path) -> list[Path]:
    """The files of a directory that git has, in its order."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", "."], cwd=directory, check=True, capture_output=True, text=True
    )
    return [directory / name for name in listed.stdout.split("\0") if name]


def _quoted(path: Path) -> str:
    """The text of a file as a code block."""
    text = path.read_text(encoding="utf-8")
    return f"~~~~{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n~~~~\n"


def _listing(path: Path) -> str:
    """A page with the text of a file, or of all files of a directory."""
    name = path.relative_to(ROOT)
    parts = ["---\norphan: true\n---\n", f"# `{name}`\n"]
    if path.is_file():
        return "\n".join([*parts, _quoted(path)])
    lengths = {file: file.read_text(encoding="utf-8").count("\n") for file in _files(path)}
    for file in sorted(lengths, key=lambda file: lengths[file] > _LONGEST):
        long = f"{lengths[file]} lines, which are not shown here.\n"
        parts += [f"## `{file.relative_to(path)}`\n", long if lengths[file] > _LONGEST else _quoted(file)]
    return "\n".join(parts)


class Stage:
    """The pages as Sphinx reads them: all below one directory, their links among each other."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._names = pages()

    def write(self) -> None:
        """Write the pages, and what they link to."""
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(_DOCS / "images", self._place / "images")
        for path, name in pages().items():
            text = self._linked(path)
            self._put(name, text + _toctrees(text) if name == "index" else text)
        for path in self._names.keys() - pages().keys():
            self._put(self._names[path], _listing(path))

    def _put(self, name: str, text: str) -> None:
        file = self._place / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _linked(self, page: Path) -> str:
        """The text of a page with its links as they are in the site."""
        lines, quoted = [], False
        for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
            quoted ^= bool(_FENCE.match(line))
            lines.append(line if quoted else _LINK.sub(lambda found: self._link(page, found), line))
        return "".join(lines)

    def _link(self, page: Path, found: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / found[1]))
        if ":" in found[1] or not target.exists():
            return found[0]  # somewhere else; or a mistake, which Sphinx reports
        if target.suffix == ".svg":
            return f"](images/{target.name})"
        name = self._names.get(target)
        if name is None:
            inside = PurePosixPath(target.relative_to(ROOT))
            name = self._names[target] = str(PurePosixPath("source", inside.parent, inside.name.lstrip(".")))
        return f"]({name}.md{found[2]})"


def _toctrees(index: str) -> str:
    """The site's navigation: each list of the first page is a kind of pages."""
    trees = []
    for kind, listed in _KIND.findall(index):
        entries = "".join(f"{title} <{name}>\n" for title, name in _ENTRY.findall(listed))
        trees.append(f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n\n{entries}```\n")
    return "".join(trees)


def main() -> int:
    """Build the site; returns the exit code."""
    parser = argparse.ArgumentParser(description="Builds the site of the pages; a warning is an error.")
    parser.add_argument("--out", type=Path, default=_OUT, help="where to; html/ in it is the site")
    out = parser.parse_args().out.resolve()
    output = Output()
    try:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        python = ensure_venv("docs", project["optional-dependencies"]["docs"], output)
    except DriverError as failure:
        output.fail(failure)
        return failure.exit_code
    shutil.rmtree(out / "html", ignore_errors=True)  # with pages that are no more
    Stage(out / "pages").write()
    options = ["--quiet", "--fail-on-warning", "--fresh-env", "--conf-dir", str(_SITE), "--builder", "html"]
    places = ["--doctree-dir", str(out / "doctrees"), str(out / "pages"), str(out / "html")]
    if subprocess.run([python, "-m", "sphinx", *options, *places], check=False).returncode:
        return ExitCode.DIFFERENCE
    output.say(f"the site is {out / 'html' / 'index.html'}")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
