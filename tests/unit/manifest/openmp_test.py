"""Which flags ask for OpenMP."""

from __future__ import annotations

import pytest

from py_driver.manifest.openmp import asks_for_openmp, gpu_asks_for_openmp


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ([], False),
        (["-fopenmp-simd", "-mavx512f"], False),
        (["-O3", "-fopenmp"], True),
        (["-fopenmp", "-fno-openmp"], False),
        (["-fno-openmp", "-fopenmp"], True),
        (["-lgomp"], True),
    ],
)
def test_flags_that_ask_for_openmp(flags: list[str], asked: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    assert asks_for_openmp(flags) is asked
    assert gpu_asks_for_openmp([], flags) is asked
    assert gpu_asks_for_openmp(["-O3", *(word for flag in flags for word in ("-Xcompiler", flag))], []) is asked
    assert gpu_asks_for_openmp([f"--compiler-options={','.join(flags)}"], []) is asked
    assert not gpu_asks_for_openmp(flags, [])
