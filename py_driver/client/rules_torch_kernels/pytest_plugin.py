"""pytest's plugin: a kernel project under test is built first, and tests find what was built.

pytest loads it in every project of an environment that has rules-torch-kernels; one without a build.toml, or a setup.py
that names torch's cpp_extension, costs it a look for these files and nothing else. `-p no:torch_kernels` turns it off.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rules_torch_kernels.tested import Tested

_MANIFEST, _SCRIPT = "build.toml", "setup.py"
_MARKS = {_MANIFEST: "[general]", _SCRIPT: "cpp_extension"}
"""What makes a directory a kernel project: a file, and what is in it."""

_PASSIVE = ("collectonly", "help", "version", "markers", "showfixtures", "show_fixtures_per_test")
"""Options with which no test runs."""

_CONFTEST = "conftest.py"


class Plugin:
    """The projects of a run: found when pytest comes to their tests, and built once."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._roots: dict[Path, Path | None] = {}
        self._seen: dict[Path, bool] = {}
        self._failures: list[str] = []
        options = config.known_args_namespace
        self._builds = not any(getattr(options, name, False) for name in _PASSIVE)
        self._tested: Tested | None = None

    def begin(self) -> None:
        """Build the projects that the command line names, before their conftest.py is imported.

        Raises:
            UsageError: one cannot be built.
        """
        options = self._config.known_args_namespace
        here = self._config.invocation_params.dir
        words = [word.partition("::")[0] for word in options.file_or_dir] or self._testpaths(here) or ["."]
        # A word may be the value of an option of a conftest.py, and no path at all.
        paths = [here / word for word in words if os.path.exists(here / word)]  # noqa: PTH110
        found = [root for path in paths if (root := self._root(path.resolve()))]
        if getattr(options, "numprocesses", None):
            # Its workers collect, and each would build what is found only then.
            found += [root for path in paths if path.is_dir() for root in self._below(path.resolve())]
        for root in dict.fromkeys(found):
            if not self._ready(root):
                raise pytest.UsageError(*self._failures)

    def _testpaths(self, here: Path) -> list[str]:
        """What the option `testpaths` names: glob patterns, which count in pytest's root directory alone."""
        patterns = self._config.getini("testpaths") if here == self._config.rootpath else []
        # Path.glob refuses an absolute pattern.
        found = [sorted(glob(pattern, root_dir=here, recursive=True)) for pattern in patterns]  # noqa: PTH207
        return [path for paths in found for path in paths]

    def _below(self, top: Path) -> Iterable[Path]:
        """The projects with tests below a directory, where pytest looks for tests."""
        passed_over = self._config.getini("norecursedirs")
        for directory, names, files in os.walk(top):
            names[:] = sorted(name for name in names if not any(fnmatch(name, pattern) for pattern in passed_over))
            path = Path(directory)
            if any(self._is_test(path / file) for file in files) and (root := self._root(path)):
                yield root

    def _root(self, path: Path) -> Path | None:
        """The kernel project that a file or directory is in; None if it is in none."""
        if path not in self._roots:
            parent = path.parent
            self._roots[path] = path if _is_project(path) else None if parent == path else self._root(parent)
        return self._roots[path]

    def _is_test(self, path: Path) -> bool:
        """Whether pytest imports a file."""
        return path.name == _CONFTEST or (
            path.suffix == ".py" and any(path.match(pattern) for pattern in self._config.getini("python_files"))
        )

    def _ready(self, root: Path) -> bool:
        """Build a project and let tests find it, unless that was done; whether it can be tested."""
        if root not in self._seen:
            from rules_torch_kernels.loading import BuildError
            from rules_torch_kernels.tested import Tested

            self._tested = self._tested or Tested()
            try:
                if self._builds:
                    self._tested.build(root)
                else:
                    self._tested.stand_in(root)
                self._seen[root] = True
            except BuildError as problem:
                self._failures.append(str(problem))
                self._seen[root] = False
        return self._seen[root]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Build a project when its first tests are met; one that cannot be built is passed over."""
        tests = collection_path / _CONFTEST if collection_path.is_dir() else collection_path
        if not self._is_test(tests) or not tests.is_file():
            return None
        root = self._root(collection_path.resolve())
        if root is None:
            return None
        capture = self._config.pluginmanager.getplugin("capturemanager")
        if root in self._seen or capture is None:
            return None if self._ready(root) else True
        with capture.global_and_fixture_disabled():
            return None if self._ready(root) else True

    def pytest_collection_finish(self) -> None:
        """End the run if a project could not be built."""
        if self._failures:
            raise pytest.UsageError(*self._failures)

    def pytest_unconfigure(self) -> None:
        """Leave the process as it was."""
        if self._tested:
            self._tested.end()

    def pytest_report_header(self) -> list[str]:
        """What is tested."""
        return self._tested.lines if self._tested else []


def _is_project(directory: Path) -> bool:
    """Whether a directory is a kernel project; of its files, the first that is there counts."""
    for name, mark in _MARKS.items():
        try:
            text = (directory / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return mark in text and not (name == _SCRIPT and _is_installed(directory))
    return False


def _is_installed(directory: Path) -> bool:
    """Whether pip has installed a project from its directory: tests get that, built as its setup.py builds."""
    import json
    from importlib.metadata import distributions
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    texts = (distribution.read_text("direct_url.json") for distribution in distributions())
    urls = (urlsplit(json.loads(text).get("url", "")) for text in texts if text)
    # pip and uv escape different characters, and keep the links of a path.
    return any(Path(url2pathname(url.path)).resolve() == directory for url in urls if url.scheme == "file")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Begin before anything of the project is imported, and before pytest captures what is printed.

    Raises:
        UsageError: a project cannot be built.
    """
    plugin = Plugin(early_config)
    plugin.begin()
    early_config.pluginmanager.register(plugin, "torch_kernels_projects")
    return (yield)
