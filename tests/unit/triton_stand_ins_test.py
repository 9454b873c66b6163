"""What a kernel's module sees of packages that are not there while Triton compiles it."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "toolchains" / "triton" / "stand_ins.py"


def _program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stand_ins", PROGRAM)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STAND_INS = _program().StandIns


def _read(text: str, *, answer: bool, backend: str = "cuda", arch: str = "9.0") -> ModuleType:
    """A module of a text, read with stand-ins."""
    finder = STAND_INS(backend, arch, "pkg", answer=answer)
    module = ModuleType("pkg.kernels")
    module.__spec__ = importlib.machinery.ModuleSpec("pkg.kernels", None)
    module.__package__ = "pkg"
    before = {*sys.modules}
    sys.meta_path.append(finder)
    try:
        finder.run(text, "kernels.py", module, {"pkg": False, "pkg.kernels": True, "pkg.there": True})
    finally:
        sys.meta_path.remove(finder)
        for name in {*sys.modules} - before:
            del sys.modules[name]
    return module


@pytest.mark.parametrize(
    ("text", "cuda", "hip"),
    [
        ("import torch\nX = torch.version.hip is not None", False, True),
        ("from torch import version\nX = version.cuda is None", False, True),
        ("from torch.version import hip\nX = hip is None", True, False),
        ("import torch.cuda\nX = torch.cuda.is_available()", True, True),
        ('import torch\nX = getattr(torch.version, "hip", None) is not None', False, True),
    ],
)
def test_what_is_known_of_the_target_is_told(text: str, cuda: bool, hip: bool) -> None:  # noqa: FBT001
    for answer in (False, True):
        assert bool(_read(text, answer=answer).X) is cuda
        assert bool(_read(text, answer=answer, backend="hip", arch="gfx942").X) is hip


def test_a_capability_is_that_of_the_target() -> None:
    text = "import torch\nX = torch.cuda.get_device_capability(0)"
    assert [_read(text, answer=True, arch=arch).X for arch in ("8.0", "12.0")] == [(8, 0), (12, 0)]
    assert repr(_read(text, answer=True, backend="hip", arch="gfx942").X) != "(9, 4)"


@pytest.mark.parametrize(
    "text",
    [
        "import einops\nX = 1 if einops.fast else 2",
        "import torch\nX = torch.backends.x is None",
        "import torch\nX = torch.backends is not None",
        'import torch\nX = hasattr(torch, "compiler")',
        'import torch\nX = bool(getattr(torch, "size", None))',
        "import torch\nX = int(torch.cuda.get_device_properties(0).multi_processor_count) + 1",
        "import torch\nX = repr(2 * torch.cuda.get_device_properties(0).warp_size)",
        'import torch\nX = torch.__version__ >= "2.9"',
        'import torch\nX = torch.__version__.startswith("2") and 3',
        'import torch\nX = f"{torch.__version__}"',
        "try:\n    import apex\n    X = 1\nexcept ImportError:\n    X = 2",
        "try:\n    from . import extension\n    X = 1\nexcept ImportError:\n    X = 2",
        "try:\n    from .extension import fast\n    X = 1\nexcept ImportError:\n    X = 2",
        "try:\n    import pkg.extension\n    X = 1\nexcept ImportError:\n    X = 2",
        "import torch\nX = isinstance(1, torch.Tensor)",
        "import torch\nX = len([0 for _ in torch.things])",
        'import torch\nX = "sm_90" in torch.cuda.get_arch_list()',
        "from torch.cuda import get_device_name\nX = get_device_name() == 1",
        "import torch\nX = {True: 1, False: 2}[torch.cuda.device_count() > 1]",
        "import torch\nX = int(torch.cuda.get_device_properties(0).multi_processor_count) > 100",
        "import torch\nX = tuple(int(part) for part in torch.__version__.split('.')[:2]) >= (2, 5)",
        "import math, numpy\nX = max(math.ceil(numpy.log2(64)), 2)",
        "import torch\nX = {torch.float16: 1, torch.float32: 2}.get(torch.float32, 7)",
        "import torch\nX = int(-torch.inf) + abs(round(torch.inf))",
        "import importlib.util\nX = importlib.util.find_spec('apex') is None",
    ],
)
def test_what_is_not_known_is_other_with_another_answer(text: str) -> None:
    values = [repr(_read(text, answer=answer).X) for answer in (False, True)]
    assert values[0] != values[1]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\nclass A(torch.autograd.Function):\n    X = 1\n\nX = A.X",
        "from torch.library import custom_op\n\n@custom_op('a::b', mutates_args=())\ndef f(x):\n    pass\n\nX = 1",
        "import torch\nimport einops.layers.torch\nX = 5 is None or hasattr(1, 'real') and getattr(3, 'real', 0)",
        "try:\n    import json\nexcept ImportError:\n    json = None\nX = json.dumps(1)",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\nX = 1 if torch else 1",
        "import torch\nY = -torch.inf, ~torch.x ^ 1 << torch.y, f'{torch.z:.2f}'\nwith torch.no_grad():\n    X = 1",
        "import importlib.util\nX = 1 if importlib.util.find_spec('torch') else 2",
    ],
)
def test_code_around_kernels_can_be_read(text: str) -> None:
    assert [repr(_read(text, answer=answer).X) for answer in (False, True)] in (["1", "1"], ["3", "3"], ["'1'", "'1'"])


@pytest.mark.parametrize(
    ("name", "found"), [("apex", [False, True]), ("torch", [True, True]), ("pytest", [False, True])]
)
def test_whether_a_package_is_installed_is_unknown_except_for_torch(name: str, found: list[bool]) -> None:
    def is_installed(*, answer: bool) -> bool:
        try:
            return bool(repr(STAND_INS("cuda", "9.0", "pkg", answer=answer).distribution(name).version))
        except importlib.metadata.PackageNotFoundError:
            return False

    assert [is_installed(answer=answer) for answer in (False, True)] == found
