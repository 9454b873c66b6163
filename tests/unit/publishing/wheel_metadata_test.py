"""METADATA for one torch: what changes, and that nothing else does."""

from __future__ import annotations

import email.policy
from email.parser import BytesParser

import pytest

from py_driver.errors import Code, DriverError
from py_driver.publishing.wheel_metadata import for_torch, local_version, narrow

TEXT = b"""\
Metadata-Version: 2.4
Name: demo
Version: 1.0
License: Some text
        Version: 9
        Requires-Dist: torch
Requires-Dist: einops
Requires-Dist: torch>=2.1
Requires-Dist: torch<2; extra == "old"
Provides-Extra: old
Dynamic: requires-dist

Version: 3
Requires-Dist: torch
"""


@pytest.mark.parametrize(
    ("requirement", "narrowed"),
    [
        ("torch", "torch==2.13.*"),
        ("Torch", "Torch==2.13.*"),
        ("torch (>=1.0)", "torch==2.13.*"),
        ("torch>=2.0,<3", "torch==2.13.*"),
        ("torch<2.14", "torch==2.13.*"),
        ("torch>=2.13", "torch==2.13.*"),
        ("torch==2.13.*", "torch==2.13.*"),
        ("torch~=2.1", "torch==2.13.*"),
        ("torch==2.*", "torch==2.13.*"),
        ("torch!=2.12.1", "torch==2.13.*"),
        ("torch>=2.1,!=2.13.1", "torch!=2.13.1,==2.13.*"),
        ("torch>=2.13.1", "torch==2.13.*,>=2.13.1"),
        ("torch==2.13.0", "torch==2.13.*,==2.13.0"),
        ("torch==2.13.0+cu130", "torch==2.13.*,==2.13.0+cu130"),
        ("torch>=2.13.0rc1", "torch==2.13.*"),
        ("torch[opt-einsum]>=2", "torch[opt-einsum]==2.13.*"),
        ("torchvision", None),
        ("pytorch-triton", None),
        ('torch; extra == "x"', None),
        ("torch @ https://localhost/torch.whl", None),
        ("torch >= ???", None),
    ],
)
def test_requirement_of_torch(requirement: str, narrowed: str | None) -> None:
    assert narrow(requirement, "2.13") == narrowed


@pytest.mark.parametrize("requirement", ["torch<2.13", "torch==2.1.0", "torch~=2.12.0", "torch>=2.14", "torch!=2.13.*"])
def test_torch_that_the_project_does_not_want(requirement: str) -> None:
    with pytest.raises(DriverError) as caught:
        narrow(requirement, "2.13")
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.UNSUPPORTED
    assert diagnostic.message == f"the project requires `{requirement}`, which torch 2.13 is not"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_only_version_and_torch_change(end: bytes) -> None:
    text = TEXT.replace(b"\n", end)
    changed = for_torch(text, "cu130.torch213", "2.13")
    expected = text.replace(b"Version: 1.0", b"Version: 1.0+cu130.torch213", 1)
    assert changed == expected.replace(b"torch>=2.1" + end, b"torch==2.13.*" + end, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"Requires-Dist: einops\n", b"Requires-Dist: einops\nRequires-Dist: torch==2.13.*\n"),
        (
            b"Requires-Dist: einops\nProvides-Extra: x\n",
            b"Requires-Dist: einops\nRequires-Dist: torch==2.13.*\nProvides-Extra: x\n",
        ),
        (b"", b"Requires-Dist: torch==2.13.*\n"),
        (
            b'Requires-Dist: torch; extra == "x"\n',
            b'Requires-Dist: torch; extra == "x"\nRequires-Dist: torch==2.13.*\n',
        ),
        (b"Requires-Dist: torch\nRequires-Dist: torch>=2\n", b"Requires-Dist: torch==2.13.*\n"),
        (b"requires-dist:torch\n", b"requires-dist: torch==2.13.*\n"),
        (b"Requires-Dist: torch\n  >=2\n", b"Requires-Dist: torch==2.13.*\n"),
    ],
)
@pytest.mark.parametrize("body", [b"", b"\n", b"\nText\n", b"\n\n\nText"])
def test_torch_is_required_once(before: bytes, after: bytes, body: bytes) -> None:
    head = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    changed = for_torch(head + before + body, "cpu.torch213", "2.13")
    assert changed == head.replace(b"1.0", b"1.0+cpu.torch213") + after + body
    values = BytesParser(policy=email.policy.compat32).parsebytes(changed)
    assert values["Version"] == "1.0+cpu.torch213"


def test_local_version() -> None:
    assert local_version("1.0", "cu130.torch213") == "1.0+cu130.torch213"
    assert local_version("1.0+git1", "cu130.torch213") == "1.0+git1.cu130.torch213"
