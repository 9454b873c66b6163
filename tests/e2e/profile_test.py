"""`driver profile` on a report that Nsight Compute 2025.3 wrote on an H200: of the template `elementwise`, float32."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from clone import Driver

pytestmark = pytest.mark.e2e

REPORT = Path(__file__).parent / "reports" / "silu-h200.ncu-rep.xz"


def test_a_recorded_report(clone: Driver, tmp_path: Path) -> None:
    report = tmp_path / "silu.ncu-rep"
    report.write_bytes(lzma.decompress(REPORT.read_bytes()))
    [one] = json.loads(clone.run("profile", f"--report={report}", "--json").stdout)["launches"]
    assert one["kernel"] == "dense"
    values = {name: round(value, 2) for name, value in one["values"].items()}
    assert (values["duration"], values["DRAM"], values["SM"]) == (132.7, 80.64, 61.49)
    assert (values["registers"], values["blocks"], values["threads of a block"]) == (32, 65536, 256)
    assert one["advice"][0].startswith("Achieved Occupancy: ")
    rows = clone.run("profile", f"--report={report}", f"--diff={report}").stdout.splitlines()
    assert rows[0].split() == ["kernel", "dense", "dense,", "earlier"]
    said = clone.run("profile", f"--report={Path(__file__)}", code=2).stderr
    assert "is not a report of Nsight Compute" in said
