"""What `import` and the `kernels` client find of the projects under test: their builds, and no other version."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rules_torch_kernels.editable import put_in_place
from rules_torch_kernels.loading import BuildError, load_variant
from rules_torch_kernels.stand_in import StandIn, StandInLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from rules_torch_kernels.stand_in import Names

_CLIENT = "kernels"
_TESTS = frozenset({"test", "tests"})
"""Packages of a project that pytest imports itself."""


class Finder(MetaPathFinder):
    """Finds builds before anything else that has their names: a source tree, an installed version, the Hub's."""

    def __init__(self) -> None:
        self._roots: dict[Path, dict[str, Any] | None] = {}
        self._packages: dict[str, dict[str, Any]] = {}
        self._trees: list[Path] = []
        self._pretended: set[str] = set()
        self._parents: set[str] = set()
        self._repositories: dict[str, Path] = {}

    def add(self, root: Path, build: dict[str, Any]) -> None:
        """Let a build be found.

        Args:
            root: of its project.
            build: what `driver run --json` says of it.

        Raises:
            BuildError: another project has its name.
        """
        self._roots[root] = build
        if "module" not in build:
            self._trees.append(Path(build["path"]))
            return
        name = build["module"]
        if build["import-from"] and self._packages.setdefault(name, build) is not build:
            raise BuildError(f"two projects of this run are `{name}`, {root} is one: test them in two runs")
        for repository in build["repositories"]:
            self._repositories[repository] = root

    def end(self) -> None:
        """Find nothing any more."""
        sys.meta_path.remove(self)
        for known in (self._roots, self._packages, self._trees, self._pretended, self._parents, self._repositories):
            known.clear()

    def pretend(self, root: Path, names: Names) -> None:
        """Let stand-ins be found in the place of a project.

        Args:
            root: its directory.
            names: what it has.
        """
        self._roots[root] = None
        self._pretended.update(names.modules)
        self._parents.update(name.partition(".")[0] for name in names.modules if "." in name)
        for repository in names.repositories:
            self._repositories[repository] = root

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        top = fullname.partition(".")[0]
        if fullname in self._parents and not importlib.machinery.PathFinder.find_spec(fullname):
            self._pretended.add(fullname)  # a package that only an installation has on the path, as below `src`
        if top in self._pretended or fullname in self._pretended:
            return importlib.machinery.ModuleSpec(fullname, StandInLoader(), is_package=True)
        if path is not None:
            return None
        if (build := self._packages.get(fullname)) is not None:
            return _specification(fullname, build)
        if fullname == _CLIENT:
            return self._client(target)
        for tree in self._trees if fullname not in _TESTS else ():
            if found := importlib.machinery.PathFinder.find_spec(fullname, [str(tree)]):
                return found
        return None

    def _client(self, target: ModuleType | None) -> importlib.machinery.ModuleSpec | None:
        """The specification of the `kernels` client, which knows of the projects once it is loaded."""
        for finder in sys.meta_path:
            if finder is self or not (spec := finder.find_spec(_CLIENT, None, target)):
                continue
            if spec.loader is not None:
                spec.loader = _Adopting(spec.loader, self)
            return spec
        return None

    def adopt(self, client: ModuleType | None) -> None:
        """Let the `kernels` client know of the projects.

        Args:
            client: the module; None if it is not imported.
        """
        if client is not None:
            client.get_kernel = self._get_kernel(client.get_kernel)  # type: ignore[attr-defined]
            client.get_local_kernel = self._get_local_kernel(client.get_local_kernel)  # type: ignore[attr-defined]

    def _get_kernel(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`kernels.get_kernel`, which refuses to take a version of a project under test from the Hub."""

        @functools.wraps(original)
        def get_kernel(repo_id: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401  (whatever the client has)
            if (root := self._repositories.get(repo_id)) is not None:
                return original(repo_id, *args, **options) if self._roots[root] else StandIn(repo_id)
            local = [entry.partition("=")[0] for entry in os.environ.get("LOCAL_KERNELS", "").split(":")]
            for known in () if repo_id in local else self._repositories:
                if _name(known) == _name(repo_id):
                    raise RuntimeError(
                        f"`{repo_id}` would come from the Hub, while {self._repositories[known]} is under test: "
                        f"ask for `{known}`, or set `repo-id` in [general.hub] of build.toml"
                    )
            return original(repo_id, *args, **options)

        return get_kernel

    def _get_local_kernel(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`kernels.get_local_kernel`, which takes the new build in the place of an older one in the project."""

        @functools.wraps(original)
        def get_local_kernel(repo_path: str | os.PathLike[str], *args: Any, **options: Any) -> Any:  # noqa: ANN401
            asked = Path(repo_path).resolve()
            for root, build in self._roots.items():
                if root in {asked, asked.parent} and (build is None or "module" in build):
                    return original(Path(build["path"]).parent, *args, **options) if build else StandIn(root.name)
            return original(repo_path, *args, **options)

        return get_local_kernel


def _specification(name: str, build: dict[str, Any]) -> importlib.machinery.ModuleSpec | None:
    """The specification of a build's package; the module is that of the `kernels` client, where there is one."""
    if importlib.util.find_spec(_CLIENT):
        return importlib.machinery.ModuleSpec(name, _Shared(build))
    package = Path(build["path"])
    return importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )


def _name(repository: str) -> str:
    """The name of a kernel in that of its repository, as Python spells it."""
    return repository.rpartition("/")[2].replace("-", "_").lower()


class _Shared(Loader):
    """Loads a build as the `kernels` client does: `import` and the client share one module, and its ops one library."""

    def __init__(self, build: dict[str, Any]) -> None:
        self._build = build

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """See `importlib.abc.Loader`."""

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
        put_in_place(module.__name__, load_variant(self._build))


class _Adopting(Loader):
    """A module's own loader; once the module is loaded, it knows of the projects."""

    def __init__(self, own: Loader, finder: Finder) -> None:
        self._own = own
        self._finder = finder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the loader has)
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """See `importlib.abc.Loader`."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
        self._own.exec_module(module)
        self._finder.adopt(module)
