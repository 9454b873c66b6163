"""What a kernel offers, read from the text of its sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from py_driver.publishing.public_api import Offer, offers, schemas


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('TORCH_LIBRARY_EXPAND(N, ops) {\n  ops.def("relu(Tensor! out) -> ()");\n}', ["relu(Tensor! out) -> ()"]),
        ('m.def("a(Tensor x) "\n      "-> Tensor");', ["a(Tensor x) -> Tensor"]),
        ('m.def(R"(b(str s="x") -> ())");', ['b(str s="x") -> ()']),
        ('m.def("c(str s=\\"x\\") -> ()", &c);', ['c(str s="x") -> ()']),
        ('// m.def("no() -> ()");\n/* m.def("no() -> ()"); */ m.def("yes() -> ()");', ["yes() -> ()"]),
        ('m.def(/* first */ "d(str s=\'//\') -> ()");', ["d(str s='//') -> ()"]),
        ("char q = '\"'; // m.def(\"no() -> ()\");\nm.def(\"f() -> ()\");", ["f() -> ()"]),
        ('// R"(\nm.def("g() -> ()");\n// )"', ["g() -> ()"]),
        ('m.def(torch::schema("h() -> ()", {at::Tag::pt2}));', ["h() -> ()"]),
        ('#ifdef CPU\nm.def("e() -> ()");\n#else\nm.def("e() -> ()");\n#endif', ["e() -> ()"]),
        ('#if 0\nm.def("no() -> ()");\n#elif 1\nm.def("k() -> ()");\n#else\nm.def("no()");\n#endif', ["k() -> ()"]),
        ('#if defined(ROCM_KERNEL) && X\nm.def("no() -> ()");\n#endif\nm.def("l() -> ()");', ["l() -> ()"]),
        ('#if !0 || Y\n#ifdef CPU_KERNEL\nm.def("m() -> ()");\n#endif\n#endif', ["m() -> ()"]),
        ('#if 0\nR"(\n#endif\nm.def("no() -> ()"))";\n#endif', []),
        ('m.def(SCHEMA); m.impl("f", &f); undef("g");', []),
    ],
)  # fmt: skip
def test_schemas(text: str, expected: list[str]) -> None:
    assert schemas([text], ["cpu", "cuda"]) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"__init__.py": "def f(x, *, y: int = 1) -> int:\n    '''Say it.\n    So.\n\n    More.'''"},
         [Offer("f(x, *, y: int=1) -> int", "Say it. So.", "f")]),
        ({"__init__.py": "def _f(): pass\ndef g(): pass\nimport torch\nfrom torch import h"}, [Offer("g()", "", "g")]),
        ({"__init__.py": "__all__ = ['b', 'missing']\ndef a(): pass\ndef b(): pass"}, [Offer("b()", "", "b")]),
        ({"__init__.py": "__all__ = names()\ndef a(): pass"}, [Offer("a()", "", "a")]),
        ({"__init__.py": "from .layers import Linear as Dense\nfrom . import layers",
          "layers.py": "class Linear(nn.Module):\n  'Dense.'\n  def __init__(self, n): ...\n  def forward(self, x): 1"},
         [Offer("class Dense(nn.Module)\n    __init__(self, n)\n    forward(self, x)", "Dense.", "Dense")]),
        ({"__init__.py": "from .a.b import f", "a/b.py": "from ..c import f", "c/__init__.py": "from .d import g as f",
          "c/d.py": "async def g(): ..."}, [Offer("f()", "", "f")]),
        ({"__init__.py": "from .a import f", "a.py": "from . import f"}, []),
        ({"__init__.py": "from . import f\n" * 12}, []),
        ({"__init__.py": "__all__: list[str] = ['a']\n__all__ += ['c']\ndef a(): pass\ndef b(): pass\ndef c(): pass"},
         [Offer("a()", "", "a"), Offer("c()", "", "c")]),
        ({"__init__.py": "def f(x=" + "-" * 900 + "1): pass\ndef g(): pass"}, [Offer("g()", "", "g")]),
        ({"__init__.py": "from ...a import f"}, []),
        ({"__init__.py": "def f(:"}, []),
        ({"__init__.py": "from .a import f", "a.py": "def f(:"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_offers(files: dict[str, str], expected: list[Offer]) -> None:
    assert offers(files) == expected


_PIECES = st.sampled_from(["def f(x=1):", "\n", "  pass", "class A:", "from .a import", "f as g", "__all__ =", "['f']"])


@given(st.lists(_PIECES | st.text(max_size=3)).map(" ".join))
def test_any_text_is_read(text: str) -> None:
    assert all("\n" not in schema for schema in schemas([text, f'm.def("{text}")', f'm.def(R"({text})")'], ["cpu"]))
    assert all(offer.signature for offer in offers({"__init__.py": text, "a.py": text}))
