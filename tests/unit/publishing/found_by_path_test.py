"""Python files that find extension modules by their paths."""

from __future__ import annotations

import pytest

from py_driver.publishing.found_by_path import find_path_use

MODULES = ("pkg._C", "pkg_cuda")

IMPORTS = (
    "import pkg_cuda",
    "from pkg import _C",
    "import importlib\nimportlib.import_module('pkg._C')",
    "import importlib.util\nif importlib.util.find_spec('triton'):\n    pass",
    "import ctypes\nctypes.CDLL('libcudart.so.12')",
    "import ctypes\nctypes.CDLL(None)",
    "import torch\ntorch.ops.load_library('/opt/other/libother.so')",
    '"""Loads pkg_cuda.so, and says so."""',
    "name = 'libcudart.so'",
    "import torch\nhere = torch.__file__, __file__",
)
PATHS = (
    ("from . import _C\nwhere = os.path.dirname(_C.__file__)", "_C.__file__", 2),
    ("import pkg._C\n\nprint(pkg._C.__file__)", "pkg._C.__file__", 3),
    ("import torch\ntorch.ops.load_library(_path('_C'))", "torch.ops.load_library", 2),
    ("import importlib.util\nfound = importlib.util.find_spec('pkg._C')", "importlib.util.find_spec", 2),
    ("from importlib.util import find_spec as look\nlook(name)", "find_spec", 1),
    ("import importlib.machinery as m\nm.PathFinder().find_spec(f'{name}_cuda')", "m.PathFinder().find_spec", 2),
    ("import ctypes\nctypes.CDLL('lib_C.so')", "ctypes.CDLL", 2),
    ("import torch\nload = torch.ops.load_library", "torch.ops.load_library", 2),
    ("import torch\ngetattr(torch.ops, 'load_library')", "'load_library'", 2),
    ("import glob\nglob.glob(here + '/*.so')", "'/*.so'", 2),
    ("from importlib.machinery import EXTENSION_SUFFIXES\nx = EXTENSION_SUFFIXES", "EXTENSION_SUFFIXES", 2),
    ("import sysconfig\nsysconfig.get_config_var('EXT_SUFFIX')", "'EXT_SUFFIX'", 2),
    ("path = f'{here}/pkg_cuda.so'", "'/pkg_cuda.so'", 1),
    ("print 'Python 2'", "a text that is not Python", 1),
)


@pytest.mark.parametrize("text", IMPORTS)
def test_imports_find_no_path(text: str) -> None:
    assert find_path_use({"pkg/__init__.py": text.encode()}, MODULES) is None


@pytest.mark.parametrize(("text", "word", "line"), PATHS)
def test_a_path_is_found_with_its_place(text: str, word: str, line: int) -> None:
    use = find_path_use({"a.py": b"import pkg_cuda\n", "pkg/__init__.py": text.encode()}, MODULES)
    assert use is not None
    assert (use.word, use.span.file, use.span.line) == (word, "pkg/__init__.py", line)


def test_other_files_are_not_read() -> None:
    files = {"pkg/notes.txt": b"load_library(x)", "pkg-1.dist-info/made.py": b"load_library(x)"}
    assert find_path_use(files, MODULES) is None
