# ruff: noqa: INP001  (a program of its own)
"""The interface of the benchmark's columns, and our own columns. peers.py has the others."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import resource
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")


class Column(Protocol):
    """A way to build."""

    name: str

    def build(self, project: Path, variants: list[str]) -> int:
        """Build variants; returns the number of compile actions that ran."""

    def alone(self, project: Path, variant: str) -> tuple[float, int]:
        """Seconds and actions of the longest chain that compiles the first source, without other builds."""

    def digests(self, project: Path, variants: list[str]) -> dict[str, str]:
        """The digest of each binary of variants, by name."""

    def cpu(self) -> float:
        """The CPU seconds of its processes so far."""

    def close(self) -> None:
        """End its remaining processes."""


def children() -> float:
    """The CPU seconds of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def server(pid: int) -> float:
    """The CPU seconds of a running process and of its ended children; layout: proc(5)."""
    stat = Path("/proc", str(pid), "stat")
    if not stat.exists():
        return 0.0
    return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) / _TICKS


def sources(project: Path) -> list[Path]:
    """The CUDA sources of a project."""
    return sorted(project.glob("csrc/*.cu"))


def digests(files: Iterable[Path], root: Path) -> dict[str, str]:
    """The digest of each file, by its path below a directory.

    Raises:
        ValueError: there are no files.
    """
    found = {file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    if not found:
        raise ValueError("nothing was built")
    return found


def longest_chain(actions: Iterable[tuple[str, str, float]], source: str) -> tuple[float, int]:
    """Seconds and actions of the longest chain of actions from a source to its objects.

    The host code waits for cicc of a single architecture, here the slowest, or for the front ends of all.

    Args:
        actions: mnemonic, Bazel's progress message, and seconds.
        source: the path of the source in its package.

    Raises:
        ValueError: an action of the chain is missing.
    """
    host: dict[str, float] = {}
    device: dict[str, dict[str, float]] = {}
    for mnemonic, said, seconds in actions:
        if f" {source} " in said:
            arch = re.search(r" for (sm_\w+) ", said)
            (device.setdefault(arch[1], {}) if arch else host)[mnemonic] = seconds
    try:
        if "KernelCudaCompile" in host:
            return host["KernelCudaCompile"], 1
        text = host["CudaPreprocess"]
        read = []
        if "CudaDeviceShare" in host:
            read = [max(seconds.get("CudaDeviceFrontend", 0.0) for seconds in device.values()), host["CudaDeviceShare"]]
        compiled = [
            ([seconds.get("CudaPreprocess", text), *read, seconds["CudaDeviceCompile"]], seconds["CudaAssemble"])
            for seconds in device.values()
        ]
        launches = [text, *read] if read else max((chain for chain, _ in compiled), key=sum)
        image = max(([*chain, assembled] for chain, assembled in compiled), key=sum)
        code = [*max([text, host["CudaFrontend"]], launches, key=sum), host["CudaHostCompile"]]
        chain = max([*image, host["CudaFatbinary"]], code, key=sum)
        chain += [host["CudaFallback"]] if "CudaFallback" in host else []
        return sum(chain), len(chain)
    except (KeyError, ValueError) as missing:
        raise ValueError(f"the profile has not all actions of {source}") from missing


MODES = {
    "split": ["--cuda-compile=split"],
    "split, full headers": ["--headers=full"],
    "monolithic": ["--cuda-compile=monolithic"],
}
"""Ways to build with the driver, with the options of each."""


class Ours:
    """`driver build`, with a cache and a Bazel of its own.

    Args:
        work: directory for them.
        mode: one of `MODES`.
    """

    def __init__(self, work: Path, mode: str) -> None:
        self.name = f"ours, {mode}"
        self._mode = mode
        place = work / mode.replace(", ", "-")
        self._output = place / "output"
        self._cache = place / "cache"
        self._cache.mkdir(parents=True)
        self.shared = Path(os.environ.get("RULES_TORCH_KERNELS_CACHE", Path.home() / ".cache" / "rules_torch_kernels"))
        for name in ("bazel", "store", "venvs"):
            (self._cache / name).symlink_to(self.shared / name)
        self._environ = {
            **os.environ,
            "RULES_TORCH_KERNELS_CACHE": str(self._cache),
            "RULES_TORCH_KERNELS_OUTPUT_USER_ROOT": str(self._output),
        }

    def build(self, project: Path, variants: list[str]) -> int:
        """Build variants; returns the number of compile actions that ran."""
        return self._build(project, variants)

    def alone(self, project: Path, variant: str) -> tuple[float, int]:
        """Run one action after another; the seconds are those of Bazel's profile, including sandbox and cache."""
        self._build(project, [variant], "--jobs=1")
        [profile] = self._output.glob("*/command.profile.gz")
        with gzip.open(profile) as file:
            events = json.load(file)["traceEvents"]
        actions = [
            (event["args"]["mnemonic"], event["name"], event["dur"] / 1e6)
            for event in events
            if event.get("cat") == "action processing"
        ]
        return longest_chain(actions, sources(project)[0].relative_to(project).as_posix())

    def digests(self, project: Path, variants: list[str]) -> dict[str, str]:
        """The digests of the extensions."""
        build = project / "build"
        return digests((file for variant in variants for file in (build / variant).rglob("*.so")), build)

    def cpu(self) -> float:
        """The CPU seconds of the driver and of Bazel's server with its processes."""
        files = self._output.glob("*/server/server.pid.txt")
        return sum(server(int(file.read_text())) for file in files) + children()

    def close(self) -> None:
        """Shut down Bazel."""
        for workspace in self._cache.glob("workspaces/*/MODULE.bazel"):
            command = [str(ROOT / "driver"), "bazel", "--", "shutdown"]
            subprocess.run(command, cwd=workspace.parent, env=self._environ, check=False, capture_output=True)

    def external(self, name: str) -> Path:
        """A repository of the toolchains, in this column's Bazel."""
        return next(path for path in self._output.glob(f"*/external/*torch_kernels_{name}") if path.is_dir())

    def _build(self, project: Path, names: list[str], *options: str) -> int:
        variants = [f"--variant={variant}" for variant in names]
        command = [str(ROOT / "driver"), "build", str(project), "--json"]
        command += [*MODES[self._mode], *options, *variants]
        done = subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True)
        return sum(variant["actions"]["run"] for variant in json.loads(done.stdout)["variants"])
