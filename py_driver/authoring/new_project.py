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
"""The template that is taken if none is named."""

_ROOT: Final = "projects"
_COMMON: Final = "common"
_NAME: Final = "NAME"
"""In paths of a template: the name of the Python package."""

_NO_OWNER: Final = "kernels-community"
"""In whose name tests ask for the kernel of a project that has no owner yet; `driver run` answers to that."""


CI_FILE: Final = ".github/workflows/kernel.yml"
"""The workflow of a new project: docs/ci.md."""

_README: Final = "README.md"
_PAGES: Final = ("AGENTS.md", _README)
"""Files that say what the others are."""

_LICENSE: Final = "LICENSE"

KEPT: Final = (_LICENSE, _README, ".gitignore")
"""Files of a new project that may be there before it; they stay as they are."""

_COLUMNS: Final = 120


class Surroundings(NamedTuple):
    """What is around a new project.

    Attributes:
        author: whose work it is; empty if git does not know.
        year: in which it begins.
        in_repository: whether its directory is in a git repository already, or is the root of one.
        below_root: whether it is in one and not its root.
        has_git: whether there is a git.
    """

    author: str = ""
    year: int = 0
    in_repository: bool = False
    below_root: bool = False
    has_git: bool = False


_NONE: Final = Surroundings()


class Template(NamedTuple):
    """What a project can begin as.

    Attributes:
        name: as the command line has it.
        summary: what it shows, in a line.
        backends: that it is for, in the order of build.toml.
        skips: files of `common/` that it does without.
        like: the template whose files it has, but for those of its own; empty if none.
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
        DriverError: USAGE if there is none.
    """
    known = templates()
    if name not in known:
        hint = did_you_mean(name, known)
        advice = f"{hint}{' ' if hint else ''}templates: {', '.join(known)}"
        raise error(Code.USAGE, f"there is no template `{name}`", help=advice)
    return known[name]


def surroundings(directory: Path) -> Surroundings:
    """What is around a new project, as git knows it.

    Args:
        directory: of the project, which need not be there.
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
    except subprocess.CalledProcessError:  # nobody has told git a name
        return found
    return found._replace(author=printable(author.strip()))


def rendered(
    template: Template, name: str, owner: str, backends: Sequence[str], around: Surroundings = _NONE
) -> dict[str, str]:
    """The files of a new project, by path. Below the root of a repository it has no CI file: GitHub reads none there.

    Args:
        template: what it begins as.
        name: of the project.
        owner: of its repository on the Hub; empty if it has none yet.
        backends: some of the template's; all of them if none.
        around: what is around the project.

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
    """Where the files of a template are, by their paths in a project."""
    return {path: f"{_ROOT}/{name}/{path}" for path in resources_below(f"{_ROOT}/{name}")}


def _contents(files: Iterable[str], module: str) -> dict[str, str]:
    """What the README says of the files and directories that a project has, by path."""
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
    """A line as lines that are not too wide."""
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def create(directory: Path, files: Mapping[str, str], releases: Releases) -> list[str]:
    """Write a new project, if it is without a mistake and none of its files is there but for `KEPT`.

    Args:
        directory: of the project; made if it is not there.
        files: its files, by path.
        releases: to check it with.

    Returns:
        The files that were there and were left alone.

    Raises:
        DriverError: FOREIGN_FILE if a file is there already, or no directory can be; all that is wrong with the
            project's name; NO_SPACE or PERMISSION.
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
            # What is wrong is the name: nobody has seen the file that it stands in.
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
        raise error(Code.PERMISSION, f"git makes no repository of {directory}: {said(problem)}") from None


def _check_places(directory: Path, files: Iterable[Path]) -> None:
    """See whether files can be made in a directory, without a way out of it.

    Raises:
        DriverError: FOREIGN_FILE if something else has the place of a directory.
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
    """The owner and the name of a project that `OWNER/NAME` or `NAME` says.

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
