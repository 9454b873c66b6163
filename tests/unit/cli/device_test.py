"""`driver device` on machines with and without a GPU of NVIDIA's, as nvidia-smi and python3 describe them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from sections import CPU, GENERAL, TORCH, make

from py_driver import __main__
from py_driver.errors import Code

if TYPE_CHECKING:
    from pathlib import Path

GPU = "NVIDIA H200, 9.0, 580.65.06, 143771, 1980, 3201, 700.00, 0x0000000000000024"
NVIDIA_SMI = f"""\
#!/bin/sh
case $1 in
--query-gpu=name,compute_cap,driver_version,*) echo '{GPU}' ;;
*) echo 'NVIDIA-SMI version : 580.65.06' ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH, with a python3 that has a torch for CPUs."""
    directory = tmp_path / "programs"
    (directory / "torch").mkdir(parents=True)
    (directory / "torch" / "__init__.py").touch()
    (directory / "torch" / "version.py").write_text("__version__ = '2.13.0+cpu'\ncuda = hip = None\n")
    python = directory / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={directory} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    return directory


def add_gpu(programs: Path) -> None:
    """Add an nvidia-smi that lists one GPU."""
    (programs / "nvidia-smi").write_text(NVIDIA_SMI)
    (programs / "nvidia-smi").chmod(0o755)


def test_a_gpu_is_described(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_gpu(programs)
    assert __main__.main(["device", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [gpu] = found["gpus"]
    assert (gpu["name"], gpu["capability"], gpu["driver"]) == ("NVIDIA H200", "9.0", "580.65.06")
    assert (gpu["memory_mib"], gpu["max_clock_mhz"], gpu["max_memory_clock_mhz"]) == (143771, 1980, 3201)
    assert (gpu["power_limit_w"], gpu["throttled_by"]) == (700.0, ["software thermal slowdown"])
    assert (gpu["registers_per_multiprocessor"], gpu["shared_kib"]) == (65536, [228, 227])
    assert gpu["instructions"]["wgmma"]["types"] == ["float16", "bfloat16", "tf32", "fp8", "int8"]
    assert found["torch"] == {"version": "2.13", "backend": "cpu", "python": str(programs / "python3")}
    path = str(programs / "nvidia-smi")
    assert found["tools"] == {"nvidia-smi": {"path": path, "version": "580.65.06", "use": "asks the driver"}}


def test_a_gpu_is_shown(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_gpu(programs)
    assert __main__.main(["device"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["GPU"] == "NVIDIA H200, Hopper (H100, H200), capability 9.0, driver 580.65.06"
    assert rows["clocks"] == "up to 1980 MHz, memory 3201 MHz"
    assert rows["multiprocessor"] == "65536 registers, 228 KiB of shared memory, 227 for a block"
    assert rows["throttled"] == "software thermal slowdown"
    assert rows["torch"] == f"2.13 for cpu, of {programs / 'python3'}"


@pytest.mark.usefixtures("programs")
def test_a_machine_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "project", GENERAL + TORCH + CPU)
    assert __main__.main(["device", "--project", str(tmp_path / "project")]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["GPU"] == "no NVIDIA GPU is found"
    assert rows["variant"] == "torch213-cxx11-cpu-x86_64-linux"
    assert __main__.main(["device", "--measure"]) == 4
    assert "no python3 on PATH has a torch for GPUs" in capsys.readouterr().err


def test_the_variant_of_a_project(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "project", GENERAL + TORCH + CPU)
    words = ["device", "--project", str(tmp_path / "project")]
    monkeypatch.setenv("RULES_TORCH_KERNELS_MATRIX", str(tmp_path / "missing.toml"))
    assert __main__.main(words) != 0
    assert f"cannot read the matrix {tmp_path / 'missing.toml'}" in capsys.readouterr().err
    monkeypatch.delenv("RULES_TORCH_KERNELS_MATRIX")
    (programs / "python3").unlink()
    assert __main__.main(words) == Code.SET_UP.exit_code
    assert "= help: activate an environment that has torch\n" in capsys.readouterr().err
