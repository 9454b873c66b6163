"""Loads the package, by `kernels` from a directory or by its name, and prints all that its users can see of it.

python look.py kernels DIRECTORY | wheel
"""

import importlib
import importlib.resources
import inspect
import json
import pickle
import pkgutil
import re
import sys
from pathlib import Path

import torch


def load():
    if sys.argv[1] == "wheel":
        return importlib.import_module("layered")
    from kernels import get_local_kernel

    return get_local_kernel(Path(sys.argv[2]))


def told(value, package):
    """A value as text that names neither the package nor its place."""
    text = repr(value).replace(str(Path(package.__file__).parent), "PLACE")
    # Not of an op: its namespace has the name that the package has where the client loads it.
    text = re.sub(rf"(?<=')(?<!op='){package.__name__}(?=[.'])", "PACKAGE", text)
    return text.strip("'").split(" at 0x")[0]


def module_seen(module, package):
    spec = module.__spec__
    seen = {name: told(value, package) for name, value in vars(module).items() if name not in ("__builtins__", "__spec__")}
    fields = ("name", "origin", "submodule_search_locations", "has_location", "cached", "parent")
    seen |= {f"spec.{name}": told(getattr(spec, name), package) for name in fields}
    seen["spec.loader"] = [type(spec.loader).__name__, spec.loader is module.__loader__, spec.loader.name == spec.name]
    seen["path is spec's"] = getattr(module, "__path__", None) is spec.submodule_search_locations
    seen["known"] = sys.modules[module.__name__] is module
    seen["dir"] = sorted(dir(module))
    if module.__file__.endswith(".py"):
        seen["source"] = inspect.getsource(module)
        classes = [var for var in vars(module).values() if inspect.isclass(var) and var.__module__.startswith(package.__name__)]
        seen["classes"] = [[told(klass.__module__, package), klass.__qualname__, inspect.getsource(klass)] for klass in classes]
    star = {}
    exec(f"from {module.__name__} import *", star)
    seen["star"] = sorted(star)
    return seen


def package_seen(package):
    seen = {}
    modules = [package]
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        modules.append(importlib.import_module(found.name))
    for module in modules:
        seen[told(module.__name__, package)] = module_seen(module, package)
    try:
        package.nothing
    except AttributeError as problem:
        seen["nothing"] = str(problem).replace(package.__name__, "PACKAGE")
    seen["lazy"] = package.lazy.GREETING
    seen["above"] = told(package.sub.deep.above(), package)
    seen["resource"] = importlib.resources.files(package).joinpath("data", "limits.json").read_text()
    seen["of a name"] = importlib.resources.files(package.__name__).joinpath("layers.py").read_text()
    seen["data"] = pkgutil.get_data(package.__name__, "data/limits.json").decode()
    layer = pickle.loads(pickle.dumps(package.layers.Twice(2)))
    seen["pickled"] = [type(layer) is package.Twice, layer.times, layer(torch.ones(2)).tolist()]
    seen["own"] = told(pickle.loads(pickle.dumps(package.Layered)), package)
    seen["modules"] = sorted(told(name, package) for name in sys.modules if name.split(".")[0] == package.__name__)
    importlib.reload(package.sub.deep)
    seen["again"] = told(package.sub.deep.above(), package)
    return seen


print(json.dumps(package_seen(load())))
