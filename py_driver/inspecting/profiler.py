"""Runs a workload under Nsight Compute and reads its report."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tomli

from py_driver.authoring.device import counters, may_count
from py_driver.authoring.session import exit_code, start
from py_driver.errors import Code, error
from py_driver.inspecting.instruments import log_file, on_path
from py_driver.inspecting.profile import profiled
from py_driver.resources import resource
from py_driver.system.environment import curated
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_driver.authoring.dev_build import DevBuild
    from py_driver.inspecting.profile import Profiled
    from py_driver.output import Output

_WORKER: Final = "rules_torch_kernels.profiled"
_RANGE: Final = "driver/"
"""Nsight Compute's filter for the range that `rules_torch_kernels.profiled` opens."""

_READ: Final = """
import json, sys
import ncu_report
found = []
for part in ncu_report.load_report(sys.argv[1]):
    for action in part:
        metrics = {name: action[name].value() for name in action.metric_names()}
        metrics = {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
        found.append({"name": action.name(), "metrics": metrics, "rules": action.rule_results_as_dicts()})
print(json.dumps(found, default=str))
"""


def profile(  # noqa: PLR0913  (the workload, the metrics, the interpreter, and the output)
    build: DevBuild, scripts: Sequence[Path], workload: str, kind: str, python: str, output: Output
) -> Path:
    """Profile a workload, and return the report.

    Args:
        build: the variant.
        scripts: the benchmarks of the project.
        workload: its title.
        kind: the set of metrics, `basic` or `full`.
        python: the interpreter, with torch and the `kernels` client.
        output: shows the command for repeating it.

    Raises:
        DriverError: SET_UP if Nsight Compute is missing, or must not read the GPU's counters; LOAD_FAILED if it fails.
    """
    ncu = on_path("ncu", "NVIDIA Nsight Compute (Debian: apt install nsight-compute)")
    if counters() and not may_count():
        advice = (
            "let an administrator load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0; "
            "`driver bench` needs no counters"
        )
        raise error(Code.SET_UP, "only root may read this GPU's counters", help=advice)
    report = log_file(build.directory, f"{re.sub(r'[^A-Za-z0-9_.-]', '_', workload)}.ncu-rep")
    with tempfile.TemporaryDirectory(prefix="driver-") as directory:
        asked = Path(directory, "asked.json")
        asked.write_text(
            json.dumps({"variant": build.as_json(), "scripts": [*map(str, scripts)], "workload": workload}),
            encoding="utf-8",
        )
        options = ("--nvtx", f"--nvtx-include={_RANGE}", f"--set={kind}", "--clock-control=none", "--force-overwrite")
        command = (ncu, *options, f"--export={report}", "--quiet", python, "-m", _WORKER, str(asked))
        process = start(command, build, python)
        code = exit_code(process.wait())
    if code or not report.is_file():
        raise error(Code.LOAD_FAILED, f"Nsight Compute ended with exit code {code}", help="see its output above")
    output.say(f"recorded: {report}")
    return report


def read(report: Path, output: Output) -> list[Profiled]:
    """The launches of a report.

    Args:
        report: a file of Nsight Compute.
        output: shows progress.

    Raises:
        DriverError: WRONG_TYPE if it is not a report; see `ensure_venv`.
    """
    python = ensure_venv("ncu-report", tomli.loads(resource("profile.toml"))["tools"]["requirements"], output)
    done = subprocess.run(
        [python, "-I", "-c", _READ, str(report)], capture_output=True, text=True, env=curated(), check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise error(Code.WRONG_TYPE, f"{report} is not a report of Nsight Compute: {lines[0]}")
    found = [profiled(load) for load in json.loads(done.stdout)]
    if not found:
        raise error(Code.WRONG_TYPE, f"{report} is not a report of Nsight Compute, or has no kernel")
    return found
