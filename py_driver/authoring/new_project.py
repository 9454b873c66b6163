"""A new project from a template: rendered, checked, and only then written."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import tomli
from jinja2 import Environment, FunctionLoader, StrictUndefined

from py_driver.authoring.session import TAKEN
from py_driver.errors import Code, DriverError, error
from py_driver.matrix.backends import BUILT, TOOLKITS
from py_driver.output import printable
from py_driver.plan.links import repository_of
from py_driver.plan.plan import plan_directory
from py_driver.publishing.markdown import arguments, code, prose
from py_driver.publishing.public_api import offers
from py_driver.resources import resource, resources_below
from py_driver.spelling import did_you_mean
from py_driver.system.files import is_directory, together, writing
from py_driver.system.git import ask, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.matrix.releases import Releases

DEFAULT: Final = "elementwise"
"""The default template."""

_ROOT: Final = "projects"
_COMMON: Final = "common"
_NAME: Final = "NAME"
"""The placeholder for the name of the Python package in paths of a template."""

_NO_OWNER: Final = "kernels-community"
"""The owner in tests of a project without an owner; `driver run` accepts it."""


CI_FILE: Final = ".github/workflows/kernel.yml"
"""The workflow of a new project: docs/ci.md."""

_README: Final = "README.md"
_PAGES: Final = ("AGENTS.md", _README)
"""Files that describe the other files."""

_LICENSE: Final = "LICENSE"

KEPT: Final = (_LICENSE, _README, ".gitignore")
"""Files of a new project that may already exist; they are kept."""

_COLUMNS: Final = 120


class Surroundings(NamedTuple):
    """The surroundings of a new project.

    Attributes:
        author: its author; empty if git has no name.
        year: the current year.
        in_repository: whether its directory is in a git repository, or is the root of one.
        below_root: whether it is in a repository and not its root.
        has_git: whether git is installed.
    """

    author: str = ""
    year: int = 0
    in_repository: bool = False
    below_root: bool = False
    has_git: bool = False


_NONE: Final = Surroundings()


class Template(NamedTuple):
    """A template for a project.

    Attributes:
        name: its name on the command line.
        summary: its summary, in a line.
        backends: its backends, in the order of build.toml.
        skips: files of `common/` that it omits.
        like: the template whose files it uses unless it has its own; possibly empty.
    """

    name: str
    summary: str
    backends: tuple[str, ...]
    skips: tuple[str, ...]
    like: str


def templates() -> dict[str, Template]:
    """All templates, by name, in the order of the list."""
    table = tomli.loads(resource(f"{_ROOT}/templates.toml"))
    return {
        name: Template(
            name, entry["summary"], tuple(entry["backends"]), tuple(entry.get("skips", ())), entry.get("like", "")
        )
        for name, entry in table.items()
    }


def template_of(name: str) -> Template:
    """The template of a name.

    Raises:
        DriverError: USAGE if there is no such template.
    """
    known = templates()
    if name not in known:
        hint = did_you_mean(name, known)
        advice = f"{hint}{' ' if hint else ''}templates: {', '.join(known)}"
        raise error(Code.USAGE, f"there is no template `{name}`", help=advice)
    return known[name]


def surroundings(directory: Path) -> Surroundings:
    """The surroundings of a new project, according to git.

    Args:
        directory: the project's directory, which need not exist.
    """
    parent = next((path for path in (directory, *directory.absolute().parents) if is_directory(path)), Path("/"))
    root = repository_of(directory)
    found = Surroundings(
        year=time.localtime().tm_year,
        in_repository=root is not None,
        below_root=root is not None and root != Path(os.path.realpath(directory)),
        has_git=True,
    )
    try:
        author = next(iter(ask(parent, "config", "--get", "user.name").decode(errors="replace").splitlines()), "")
    except FileNotFoundError:
        return found._replace(has_git=False)
    except subprocess.CalledProcessError:  # git has no user name
        return found
    return found._replace(author=printable(author.strip()))


def rendered(
    template: Template, name: str, owner: str, backends: Sequence[str], around: Surroundings = _NONE
) -> dict[str, str]:
    """The files of a new project, by path. Below a repository's root it has no CI file: GitHub would not read it.

    Args:
        template: the template.
        name: the project's name.
        owner: the owner of its repository on the Hub; possibly empty.
        backends: a part of the template's backends; all if empty.
        around: the surroundings of the project.

    Raises:
        DriverError: USAGE if the template is not for one of the backends, or has a file of the project's name.
    """
    if wrong := [backend for backend in backends if backend not in template.backends]:
        message = f"the template `{template.name}` is not for the backend `{wrong[0]}`"
        raise error(Code.USAGE, message, help=f"it is for: {', '.join(template.backends)}")
    chosen = [backend for backend in template.backends if backend in (backends or template.backends)]
    module = name.replace("-", "_")
    values = {
        "name": name,
        "module": module,
        "owner": owner,
        "repo_id": f"{owner or _NO_OWNER}/{name}",
        "title": f"{template.summary[0].upper()}{template.summary[1:]}.",
        "backends": "[" + ", ".join(f'"{backend}"' for backend in chosen) + "]",
        **{family: family in chosen for family in BUILT},
        "gpu": any(backend.family in chosen for backend in TOOLKITS),
        "author": around.author,
        "year": around.year,
        "ci": CI_FILE,
    }
    environment = Environment(
        loader=FunctionLoader(resource),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # C++ and Python have the usual ones in their own texts.
        block_start_string="[%",
        block_end_string="%]",
        variable_start_string="[[",
        variable_end_string="]]",
        comment_start_string="[#",
        comment_end_string="#]",
        autoescape=False,  # noqa: S701  (no HTML)
    )
    skips = {*template.skips, *([CI_FILE] if around.below_root else [])}
    places = {path: file for path, file in _files(_COMMON).items() if path not in skips}
    for base in filter(None, (template.like, template.name)):
        places |= _files(base)
    pages = {path: places.pop(path) for path in _PAGES}
    texts = {path: environment.get_template(file).render(values) for path, file in sorted(places.items())}
    files = {path.replace(_NAME, module): text for path, text in texts.items() if text.strip()}
    if len(files) < sum(bool(text.strip()) for text in texts.values()):
        advice = "choose another name: the template has a file with this name"
        raise error(Code.USAGE, f"`{name}` is taken in the template `{template.name}`", help=advice)
    own = {
        **values,
        "files": [*files],
        "contents": _contents([*files, *pages], module),
        "functions": _functions(files, module),
    }
    files |= {path: environment.get_template(file).render(own) for path, file in pages.items()}
    return dict(sorted(files.items()))


def _files(name: str) -> dict[str, str]:
    """The resource files of a template, by their paths in a project."""
    return {path: f"{_ROOT}/{name}/{path}" for path in resources_below(f"{_ROOT}/{name}")}


def _contents(files: Iterable[str], module: str) -> dict[str, str]:
    """The README's descriptions of a project's files and directories, by path."""
    listed = tomli.loads(resource(f"{_ROOT}/contents.toml"))
    own = {path.replace(_NAME, module): content for path, content in listed.items()}
    return {
        path: content for path, content in own.items() if any(file == path or file.startswith(path) for file in files)
    }


def _functions(files: Mapping[str, str], module: str) -> list[str]:
    """The functions of a project's Python package with their arguments, as Markdown."""
    package = f"torch-ext/{module}/"
    python = {path.removeprefix(package): text for path, text in files.items() if path.startswith(package)}
    return [
        "\n".join(
            [f"### {code(f'{module}.{offer.name}')}", "", *_wrapped(prose(offer.summary)), ""]
            + [wrapped for line in arguments(offer) for wrapped in _wrapped(line, "  ")]
        )
        for offer in offers(python)
    ]


def _wrapped(line: str, indent: str = "") -> list[str]:
    """A line, wrapped."""
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def create(directory: Path, files: Mapping[str, str], releases: Releases) -> list[str]:
    """Write a new project, if it is valid and none of its files exists except `KEPT`.

    Args:
        directory: the project's directory; created if missing.
        files: its files, by path.
        releases: the releases for the check.

    Returns:
        The existing files that were kept.

    Raises:
        DriverError: FOREIGN_FILE if a file exists already, or prevents a directory; the errors of the project's name;
            NO_SPACE or PERMISSION.
    """
    kept = [path for path in files if path in KEPT and os.path.lexists(directory / path)]
    if there := [path for path in files if path not in kept and os.path.lexists(directory / path)]:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        message = f"{directory / there[0]}{more} would be overwritten"
        raise error(Code.FOREIGN_FILE, message, help="name another directory, or move the file away")
    _check_places(directory, {directory / path for path in files})
    with tempfile.TemporaryDirectory(prefix="driver-") as scratch:
        trial = Path(scratch)
        _write(trial, files)
        try:
            plan_directory(trial, releases)
        except DriverError as failure:
            # The error is about the name: the user has not seen the file that contains it.
            raise DriverError(
                [diagnostic._replace(span=None, label="") for diagnostic in failure.diagnostics]
            ) from None
    _write(directory, {path: text for path, text in files.items() if path not in kept})
    return kept


def begin_repository(directory: Path) -> None:
    """Make a git repository of a new project, with the branch `main`, which its CI file names.

    Raises:
        DriverError: PERMISSION if git refuses.
    """
    try:
        ask(directory, "init", "--quiet")
        ask(directory, "symbolic-ref", "HEAD", "refs/heads/main")
    except subprocess.CalledProcessError as problem:
        raise error(Code.PERMISSION, f"git cannot make a repository in {directory}: {said(problem)}") from None


def _check_places(directory: Path, files: Iterable[Path]) -> None:
    """Check that files can be created in a directory without following links out of it.

    Raises:
        DriverError: FOREIGN_FILE if something else exists in the place of a directory.
    """
    own = sorted({parent for file in files for parent in file.parents if parent.is_relative_to(directory)})
    for path in (*reversed(directory.parents), *own):
        if os.path.lexists(path) and not is_directory(path):
            raise error(Code.FOREIGN_FILE, f"{path} is not a directory", help="name another place for the project")
        if path in own[1:] and os.path.islink(path):  # noqa: PTH114  (Path.is_symlink raises for a long name)
            message = f"{path} is a symbolic link; the driver writes into the project's own directories only"
            raise error(Code.FOREIGN_FILE, message, help="name another directory, or move the link away")


def _write(directory: Path, files: Mapping[str, str]) -> None:
    with together() as written:
        for path, text in files.items():
            with writing(directory / path):
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
            written.write(directory / path, text.encode())


def check_name(name: str) -> tuple[str, str]:
    """The owner and the name of a project from `OWNER/NAME` or `NAME`.

    Raises:
        DriverError: USAGE if it is neither, another package's name, or a word of C++.
    """
    if not re.fullmatch(r"(?:[A-Za-z0-9][\w.-]*/)?[a-z][a-z0-9_-]*[a-z0-9]", name, re.ASCII):
        advice = "write NAME or OWNER/NAME, the name in lower case and of two characters or more, e.g. me/fast-relu"
        raise error(Code.USAGE, f"`{name}` is not the name of a project", help=advice)
    owner, _, own = name.rpartition("/")
    module = own.replace("-", "_")
    if module in itertools.chain(*tomli.loads(resource(f"{_ROOT}/names.toml")).values()):
        advice = "choose another name: the project's C++ has a function and a header of this name"
        raise error(Code.USAGE, f"`{own}` has a meaning in C++", help=advice)
    if module in TAKEN:
        advice = "choose another name: `import` finds only one of the two"
        raise error(Code.USAGE, f"`{own}` is the name of another Python package", help=advice)
    return owner, own
