"""What stands for a kernel where tests are collected and none runs: nothing is built for that."""

from __future__ import annotations

import re
import tomllib
from importlib.abc import Loader
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import importlib.machinery
    from collections.abc import Iterator
    from pathlib import Path

_EXTENSION = re.compile(r"""Extension\(\s*(?:name\s*=\s*)?["']([A-Za-z_][\w.]*)["']""")
"""The first argument of `CUDAExtension` and its like in a setup.py."""


class Names(NamedTuple):
    """By which names tests ask for a project.

    Attributes:
        modules: Python modules.
        repositories: on the Hub.
    """

    modules: frozenset[str]
    repositories: tuple[str, ...]


def names_of(root: Path) -> Names:
    """The names of a project, as far as its files say them.

    Args:
        root: its directory.
    """
    manifest = root / "build.toml"
    if not manifest.is_file():
        text = (root / "setup.py").read_text(encoding="utf-8", errors="replace")
        return Names(frozenset(_EXTENSION.findall(text)), ())
    try:
        general = tomllib.loads(manifest.read_text(encoding="utf-8"))["general"]
        name, repository = str(general["name"]), general.get("hub", {}).get("repo-id")
    except (ValueError, LookupError, TypeError, AttributeError):
        return Names(frozenset(), ())
    own = [str(repository)] if repository else []
    return Names(frozenset({name.replace("-", "_")}), (*own, f"kernels-community/{name}"))


class StandIn(ModuleType):
    """A module that has every attribute; each is one of its kind, can be called, is empty, and counts as 0."""

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **_options: Any) -> Any:  # noqa: ANN401
        """As a decorator it changes nothing."""
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __iter__(self) -> Iterator[StandIn]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, _key: object) -> StandIn:
        return self

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _instance: object) -> bool:
        return False

    def __index__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __lt__(self, _other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def _calculated(self, _other: object = None) -> StandIn:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _calculated
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __rpow__ = _calculated
    __and__ = __rand__ = __or__ = __ror__ = _calculated


class StandInLoader(Loader):
    """Makes stand-ins of modules."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> StandIn:
        """See `importlib.abc.Loader`."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
