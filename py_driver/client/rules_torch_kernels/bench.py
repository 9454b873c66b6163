"""Runs the benchmark classes of a project, those of the `kernels` client, and says what came of each workload.

`driver bench` starts it in the Python that has torch: a line of JSON on stdin says what to run, and each line that it
writes to the file it is given is a value of JSON about one workload.
"""

from __future__ import annotations

import importlib.util
import json
import math
import platform
import random
import subprocess
import sys
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rules_torch_kernels.loading import load_variant
from rules_torch_kernels.timing import Times, host_time, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TOLERANCE = 1e-2
"""As `kernels benchmark` compares: torch.allclose(out, reference, atol=1e-2). Here outputs may also differ by two units
in the last place, which in bfloat16 is more than that."""

_COMPILED, _MODE = "torch.compile", "max-autotune-no-cudagraphs"

_STICKY = ("CUDA error", "HIP error", "cudaError", "device-side assert")
"""In messages after which nothing runs on the GPU in this process any more."""


class Workload(NamedTuple):
    """A method of a benchmark class.

    Attributes:
        script: the file's name.
        owner: the class.
        name: of the method, without `benchmark_`.
    """

    script: str
    owner: type
    name: str

    @property
    def title(self) -> str:
        """What reports call it, as the client does."""
        return f"{self.owner.__name__}.{self.name}"


def workloads(scripts: list[Path]) -> dict[str, Workload]:
    """All workloads of benchmark scripts by their titles, in the order of the client.

    Where two scripts have a class of the same name, its titles begin with the name of the script.

    Raises:
        Exception: whatever a script raises when it is imported.
    """
    found = [workload for number, script in enumerate(scripts) for workload in _workloads(number, script)]
    count = Counter(workload.title for workload in found)
    return {
        workload.title if count[workload.title] == 1 else f"{workload.script}:{workload.title}": workload
        for workload in found
    }


def _workloads(number: int, script: Path) -> Iterator[Workload]:
    """The workloads of one script."""
    from kernels.benchmark import Benchmark  # type: ignore[import-untyped]

    name = f"benchmark_module_{number}"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None  # noqa: S101  (the name ends in .py)
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # As `python SCRIPT` does, for what lies beside it.
    sys.path.insert(0, str(script.parent))
    spec.loader.exec_module(module)
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Benchmark) and value.__module__ == name:
            methods = [name for name in dir(value) if name.startswith("benchmark_") and callable(getattr(value, name))]
            yield from (Workload(script.name, value, method.removeprefix("benchmark_")) for method in methods)


def instance(workload: Workload, kernel: Any, device: str) -> Any:  # noqa: ANN401  (a benchmark class of the user's)
    """An object of a benchmark class with its tensors, as the client makes it."""
    import torch

    benchmark: Any = workload.owner()
    benchmark.kernel, benchmark.device = kernel, device
    if benchmark.seed is not None:
        torch.manual_seed(benchmark.seed)
        random.seed(benchmark.seed)
    getattr(benchmark, f"setup_{workload.name}", benchmark.setup)()
    return benchmark


def differs(out: Any, expected: Any, name: str = "`self.out` of the benchmark") -> str:  # noqa: ANN401  (tensors)
    """What is wrong with an output; nothing if it is right.

    Args:
        out: the output.
        expected: that of the reference.
        name: what the output is called.
    """
    import torch

    for value, title in ((out, name), (expected, "what the reference returns")):
        if not isinstance(value, torch.Tensor):
            return f"{title} is no tensor but {value!r:.40}"
    if out.shape != expected.shape:
        return f"the output has shape {tuple(out.shape)}, the reference {tuple(expected.shape)}"
    if _is_real(out) != _is_real(expected):
        return f"the output is of {out.dtype}, the reference of {expected.dtype}"
    if not _is_real(out):
        count = int((out != expected).sum())
        return f"{count} of {out.numel()} elements differ from the reference" if count else ""
    near = max(1e-5, 2 * torch.finfo(out.dtype).eps)
    wide = torch.complex128 if out.dtype.is_complex or expected.dtype.is_complex else torch.float64
    own, right = out.to(wide), expected.to(out.dtype).to(wide)
    if torch.allclose(own, right, rtol=near, atol=_TOLERANCE, equal_nan=True):
        return ""
    distance = (own - right).abs().nan_to_num(nan=float("inf"))
    return f"the output differs from the reference by up to {distance.max().item():.3g}"


def _is_real(tensor: Any) -> bool:  # noqa: ANN401
    """Whether a tensor has numbers with a point, real or complex."""
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


class Peers(NamedTuple):
    """How the peers of a workload run.

    Attributes:
        compiled: whether the reference is timed with torch.compile, too.
        excluded: those that are not run, by name, with the reason.
        begun: is told which run from now on: one for its first call, all that are timed, or none.
    """

    compiled: bool
    excluded: dict[str, str]
    begun: Callable[[Iterable[str]], None]


def _run(workload: Workload, kernels: list[Any], device: str, how: Peers) -> dict[str, Any]:
    """Check and time a workload; what came of it, but for its title.

    Args:
        workload: the workload.
        kernels: the variant in question, and those to compare it with.
        device: `cuda` or `cpu`.
        how: how its peers are run.
    """
    import torch

    benchmarks = [instance(workload, kernels[0], device)]
    reference = getattr(benchmarks[0], f"verify_{workload.name}", None)
    if wrong := _checked(benchmarks[0], workload):
        return {"verified": False, "problem": wrong}
    base_problem = ""
    for other in kernels[1:]:
        # Another revision may lack what is new, or have the fault that is mended.
        try:
            benchmarks.append(instance(workload, other, device))
            base_problem = _checked(benchmarks[-1], workload)
        except (Exception, SystemExit) as problem:  # noqa: BLE001  (the user's own code)
            base_problem = named(problem)
    compared = len(benchmarks) > 1 and not base_problem
    calls: list[Callable[[], Any]] = [
        getattr(benchmark, f"benchmark_{workload.name}") for benchmark in (benchmarks if compared else benchmarks[:1])
    ]
    if device == "cuda":
        torch.cuda.synchronize()
    peers, excluded = _peers(benchmarks[0], workload, how)
    own = [*calls, *([reference] if reference else [])]
    how.begun(peers)
    times: list[Times] = measure([*own, *peers.values()], device, len(own))
    found: dict[str, Any] = {"verified": True if reference else None}
    found["times"] = times[0].as_json()
    found["samples_us"] = [*times[0].samples]
    if device == "cuda":
        found["clocks_event_reasons"] = _clocks()
        found["times"]["host_us"] = host_time(calls[0])
    if compared:
        found["base"] = times[1].as_json()
    elif base_problem:
        found["base_problem"] = base_problem
    if reference:
        found["reference"] = times[len(calls)].as_json()
        if device == "cuda":
            found["reference"]["host_us"] = host_time(reference)
    of_peers = dict(zip(peers, times[len(own) :], strict=True))
    excluded |= {name: "it ran nothing on the GPU" for name, time in of_peers.items() if not time.samples}
    found["peers"] = [
        {"name": name, **time.as_json(), **({"host_us": host_time(peers[name])} if device == "cuda" else {})}
        for name, time in of_peers.items()
        if time.samples
    ]
    how.begun(())
    found["peers"] += [{"name": name, "problem": problem} for name, problem in excluded.items()]
    found |= _amounts(benchmarks[0], workload)
    tensor = next((var for var in vars(benchmarks[0]).values() if isinstance(var, torch.Tensor)), None)
    found["dtype"] = str(tensor.dtype).removeprefix("torch.") if tensor is not None else None
    return found


def _checked(benchmark: Any, workload: Workload) -> str:  # noqa: ANN401  (an object of a benchmark class)
    """Run a workload once; what is wrong with its output, if there is a reference."""
    getattr(benchmark, f"benchmark_{workload.name}")()
    reference = getattr(benchmark, f"verify_{workload.name}", None)
    return differs(benchmark.out, reference()) if reference is not None else ""


def _peers(
    benchmark: Any,  # noqa: ANN401  (an object of a benchmark class)
    workload: Workload,
    how: Peers,
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Other ways to compute the same, by their names: those that give what the reference does, and why others do not.

    `peers_NAME` returns them as a dict of callables. One that cannot run leaves the kernel's own times alone.

    Raises:
        TypeError: it returns something else.
        RuntimeError: a peer changes the inputs, or leaves the GPU in a state in which nothing runs any more.
    """
    import torch

    reference = getattr(benchmark, f"verify_{workload.name}", None)
    method = f"peers_{workload.name}"
    stated: Any = {}
    wrong: dict[str, str] = {**how.excluded}
    try:
        if method not in how.excluded:
            how.begun((method,))
            stated = getattr(benchmark, method, dict)()
            how.begun(())
    except (Exception, SystemExit) as problem:  # noqa: BLE001  (a library that is not installed)
        wrong[method] = named(problem)
    if not isinstance(stated, dict) or not all(callable(call) for call in stated.values()):
        raise TypeError(f"{method} returns {stated!r:.40}, not a dict of names and callables")
    found = {str(name): call for name, call in stated.items()}
    if how.compiled and reference is not None:
        # Else it gives up without an error on the ninth workload whose reference is the same code.
        torch.compiler.reset()
        # Without CUDA graphs: these would hide what a call costs on the host.
        found[_COMPILED] = torch.compile(reference, mode=_MODE, dynamic=False)
    # A copy: the reference may write to the same memory in each call.
    expected = _copied(reference()) if found and reference is not None else None
    for name, call in found.items():
        if name in how.excluded:
            continue
        how.begun((name,))
        try:
            out = call()
            wrong[name] = differs(out, expected, "what it returns") if reference is not None else ""
        except (Exception, SystemExit) as problem:  # noqa: BLE001  (another library, which may lack this GPU)
            wrong[name] = named(problem)
            if benchmark.device == "cuda" and _is_lost():
                raise RuntimeError(f"CUDA error in the peer {name}: {wrong[name]}") from None
        if reference is not None and differs(reference(), expected):
            raise RuntimeError(f"the peer {name} changes the inputs: the reference gives something else after it")
    how.begun(())
    right = {name: call for name, call in found.items() if not wrong[name]}
    return right, {name: problem for name, problem in wrong.items() if problem}


def _copied(value: Any) -> Any:  # noqa: ANN401  (whatever a reference returns)
    """A tensor in memory of its own."""
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value


def _is_lost() -> bool:
    """Whether nothing runs on the GPU in this process any more. The error of a single launch is told once, and gone."""
    import torch

    for _ in range(2):
        with suppress(RuntimeError):
            torch.zeros(1, device="cuda").add_(1)
            torch.cuda.synchronize()
            return False
    return True


def _amounts(benchmark: Any, workload: Workload) -> dict[str, float]:  # noqa: ANN401
    """How much a call does, where its author says so.

    Raises:
        ValueError: that is no number above 0.
    """
    counts = ((what, getattr(benchmark, f"{what}_{workload.name}", None)) for what in ("bytes", "flops"))
    return {what: _amount(count(), f"{what}_{workload.name}") for what, count in counts if count is not None}


def _amount(value: Any, method: str) -> float:  # noqa: ANN401  (whatever the user's method returns)
    """How much a call does, as its author says.

    Raises:
        ValueError: it is no number above 0.
    """
    with suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(amount := float(value)) and amount > 0:
            return amount
    raise ValueError(f"{method} returns {value!r:.40}, which is no number above 0")


def _clocks() -> str:
    """Why the clocks of the GPU are not higher, as nvidia-smi says it: bits; nothing where it says none."""
    command = ["nvidia-smi", "--query-gpu=clocks_event_reasons.active", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter(done.stdout.splitlines()), "").strip()


def machine(device: str) -> dict[str, Any]:
    """What it runs on, with the client's names."""
    import torch

    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0) if device == "cuda" else "none",
        "backend": "CPU",
        "pytorchVersion": torch.__version__,
        "os": f"{platform.system()} {platform.release()}",
        "cpu": platform.processor() or platform.machine(),
    }
    if device == "cuda":
        hip = torch.version.hip
        found["backend"] = f"ROCm {hip}" if hip else f"CUDA {torch.version.cuda}"
    return found


def main() -> int:
    """Run what stdin asks for; 0 unless a GPU fails for good or a script cannot be imported, which is 1."""
    asked = json.loads(sys.stdin.readline())
    device = "cpu" if asked["variants"][0]["backend"] == "cpu" else "cuda"
    kernels, compiled = [load_variant(variant) for variant in asked["variants"]], bool(asked.get("compile"))
    with Path(asked["results"]).open("a", encoding="utf-8") as results:

        def say(value: dict[str, Any]) -> None:
            results.write(json.dumps(value) + "\n")
            results.flush()

        running: list[str] = []

        def begun(names: Iterable[str]) -> None:
            running[:] = names
            say({"peers": running})

        say({"machine": machine(device), "id": kernels[0].__name__})
        try:
            found = workloads([Path(script) for script in asked["scripts"]])
        except (Exception, SystemExit) as problem:  # noqa: BLE001  (the user's own code)
            say({"refused": _where(problem, asked["scripts"])})
            return 1
        if asked.get("list"):
            say({"titles": [*found]})
            return 0
        for title, workload in found.items():
            if title in asked["done"]:
                continue
            say({"started": title})
            begun(())
            peers = Peers(compiled, asked["excluded"].get(title, {}), begun)
            try:
                say({"workload": title, **_run(workload, kernels, device, peers)})
            except (Exception, SystemExit) as problem:  # noqa: BLE001  (likewise)
                text = named(problem)
                sticky = device == "cuda" and any(sign in str(problem) for sign in _STICKY)
                if sticky and running:
                    # The driver runs the workload again, without these peers.
                    sys.stderr.write(f"{text}\n")
                    return 1
                say({"workload": title, "verified": False, "problem": text, "trace": traceback.format_exc()})
                if sticky:
                    return 1
        say({"finished": len(found)})
    return 0


def named(problem: BaseException) -> str:
    """An exception, in a line: the first of its text, since torch ends long ones with advice."""
    lines = "".join(traceback.format_exception_only(type(problem), problem)).strip().splitlines()
    return lines[-1 if isinstance(problem, SyntaxError) else 0]


def _where(problem: BaseException, scripts: list[str]) -> str:
    """An exception of a script that is imported, with the line that it came from."""
    if isinstance(problem, SyntaxError) and problem.filename in scripts:
        return f"{problem.filename}:{problem.lineno}: {named(problem)}"
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename in scripts]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {named(problem)}" if frames else named(problem)


if __name__ == "__main__":
    sys.exit(main())
