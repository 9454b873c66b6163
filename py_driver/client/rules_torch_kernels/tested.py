"""The projects that a run of pytest tests: built for this Python, and found by `import` and by the `kernels` client."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from rules_torch_kernels.finding import Finder
from rules_torch_kernels.loading import BuildError, newest
from rules_torch_kernels.stand_in import names_of

BUILDS = "RULES_TORCH_KERNELS_BUILDS"
"""Environment variable with the builds of projects, as JSON: of `driver test`, and of the process that began a run."""

_LOCAL, _PATH = "LOCAL_KERNELS", "PYTHONPATH"


class Tested:
    """The projects of a run.

    Attributes:
        lines: a line for each, for people.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._before = {name: os.environ.get(name) for name in (BUILDS, _LOCAL, _PATH)}
        self._finder = Finder()
        sys.meta_path.insert(0, self._finder)
        self._finder.adopt(sys.modules.get("kernels"))

    def build(self, root: Path) -> None:
        """Build a project, unless it is built for this run, and let this process and its children find it.

        Args:
            root: the project's directory.

        Raises:
            BuildError: it cannot be built, or another project of the run has its name.
        """
        builds: dict[str, dict[str, Any]] = json.loads(os.environ.get(BUILDS) or "{}")
        key = str(root)
        inherited = key in builds
        build = builds[key] if inherited else newest(root, "", show=True)
        self._finder.add(root, build)
        module = build.get("module", root.name)
        self.lines.append(f"torch kernels: {module} for {build['variant']}, {build['path']}")
        if inherited:
            return
        os.environ[BUILDS] = json.dumps({**builds, key: build})
        # For processes that tests start.
        paths = build["import-from"] if "module" in build else [build["path"]]
        sys.path[:0] = paths
        os.environ[_PATH] = os.pathsep.join(filter(None, [*paths, os.environ.get(_PATH)]))
        if "module" not in build:
            return
        path = Path(build["path"])
        if ":" in str(path.parent):
            raise BuildError(f"the path {path.parent} has a `:`, which separates the paths of LOCAL_KERNELS: move it")
        entries = [f"{repository}={path.parent}" for repository in build["repositories"]]
        # The client takes the last of two entries for one repository.
        os.environ[_LOCAL] = ":".join(filter(None, [os.environ.get(_LOCAL), *entries]))

    def end(self) -> None:
        """Let this process find what it did before; a later run in it builds anew."""
        self._finder.end()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def stand_in(self, root: Path) -> None:
        """Let tests be collected without a build.

        Args:
            root: the project's directory.
        """
        self._finder.pretend(root, names_of(root))
