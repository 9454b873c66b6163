"""The policy of the ABI check: of each library that it allows the check knows a symbol, and misses others."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from py_driver.building import abi_check
from py_driver.matrix.releases import Releases
from py_driver.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
POLICY = ROOT / "rules" / "private" / "policy"
# torch's symbols are recorded as hashes: for each library one that it has had in all releases.
TORCH: Final = {
    "libc10.so": "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "libc10_cuda.so": "_ZN3c104cuda14current_deviceEv",
    "libc10_hip.so": "_ZN3c103hip14current_deviceEv",
    "libtorch.so": "_ZN2at15get_num_threadsEv",
    "libtorch_cpu.so": "_ZN2at15get_num_threadsEv",
    "libtorch_cuda.so": "_ZN3c104cuda14current_deviceEv",
    "libtorch_hip.so": "_ZN3c103hip14current_deviceEv",
}
UNRECORDED: Final = {
    "libcufile.so.0": "cuFileRead",
    "libcupti.so.13": "cuptiGetVersion",
    "libcusparseLt.so.0": "cusparseLtInit",
    "libnccl.so.2": "ncclAllReduce",
    "libnvshmem_host.so.3": "nvshmem_malloc",
}


class Call(NamedTuple):
    """A symbol that a library defines.

    Attributes:
        soname: of the library.
        symbol: the name.
        version: of the symbol; empty without one.
        backend: of a variant that may call it; empty for one of tvm-ffi.
        cpu: that it is for.
    """

    soname: str
    symbol: str
    version: str = ""
    backend: str = "cpu"
    cpu: str = "x86_64"


def _lines(name: str) -> list[str]:
    lines = (POLICY / name).read_text(encoding="ascii").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _of_system() -> Iterator[Call]:
    cpu = soname = ""
    new = False
    for line in _lines("system_symbols.txt"):
        if line.startswith("["):
            cpu, soname = line.strip("[]").split()
            new = True
        elif new:
            symbol, version, *_ = line.split()
            yield Call(soname, symbol, version, cpu=cpu)
            new = False


def _of_tables() -> Iterator[Call]:
    for backend, path in Releases().symbols_files().items():
        lines = path.read_text(encoding="ascii").splitlines()
        for line, symbol in itertools.pairwise(lines):
            if line.startswith("["):
                yield Call(line[1:].partition("]")[0], symbol, backend="" if backend == "tvm_ffi" else backend)


def _known() -> dict[str, Call]:
    """A symbol of each library by its name, of the newest release."""
    calls = {call.soname: call for call in [*_of_tables(), *_of_system()] if call.cpu == "x86_64"}
    calls |= {call.soname: call for call in _of_system() if call.soname not in calls}
    calls |= {name: Call(name, symbol, backend="cu130") for name, symbol in UNRECORDED.items()}
    return calls | {
        name: Call(name, symbol, backend="rocm72" if "hip" in name else "cu130") for name, symbol in TORCH.items()
    }


def _call(entry: str) -> Call:
    known = _known()
    beginning, _, end = entry.partition("#")
    names = [name for name in known if name == entry or ("#" in entry and name.startswith(beginning))]
    assert names, f"nothing is known of {entry}"
    return known[max(names)] if not end else known[names[0]]


if TYPE_CHECKING:
    Link = Callable[[Call, Path], Path]


@pytest.fixture(scope="module")
def program() -> Path:
    return abi_check.build_program(Output())


@pytest.fixture(scope="module")
def link(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Link:
    """What makes a library that calls a symbol."""
    spec = importlib.util.spec_from_file_location("abi_build", ROOT / "tests" / "abi" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    [output_base] = [parent.parent for parent in program.parents if parent.name == "execroot"]
    zig = next(output_base.glob("external/*torch_kernels_cc/zig/zig"))
    builder = module.Builder(zig=str(zig), work=tmp_path_factory.mktemp("stubs"))

    def linked(call: Call, directory: Path) -> Path:
        calls = (f"{call.symbol} {call.soname} {call.version}",)
        how = module.Library(calls=calls, module=call.cpu == "x86_64", target=f"{call.cpu}-linux-gnu")
        return Path(builder.library("called", how, directory))

    return linked


def _findings(program: Path, made: Path, call: Call) -> list[str]:
    options = {"--torch": "2.13", "--backend": call.backend} if call.backend else {"--framework": "tvm-ffi"}
    checked = abi_check.check(program, made, {**options, "--cpu": call.cpu}, Releases())
    assert not checked.failure
    # The libraries for another CPU, and those of tvm-ffi, have no entry point here; Python's function is in module.s.
    skipped = {"init-function", "exported-symbol"}
    return [
        f"{finding['rule']}: {finding['subject']}" for finding in checked.findings if finding["rule"] not in skipped
    ]


ENTRIES: Final = [line.split()[0] for line in _lines("libraries.txt")]


@pytest.mark.e2e
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_symbol_of_each_library_that_the_policy_allows_is_known(
    program: Path, link: Link, entry: str, tmp_path: Path
) -> None:
    call = _call(entry)
    assert _findings(program, link(call, tmp_path), call) == []


@pytest.mark.e2e
@pytest.mark.parametrize("call", list(_of_system()), ids=lambda call: f"{call.cpu}-{call.soname}")
def test_a_symbol_that_claims_a_version_of_the_system_is_there(
    program: Path, link: Link, call: Call, tmp_path: Path
) -> None:
    assert _findings(program, link(call, tmp_path), call) == []
    wrong = call._replace(symbol="of_nobody")
    assert _findings(program, link(wrong, tmp_path), wrong) == ["undefined-symbol: of_nobody"]


@pytest.mark.e2e
@pytest.mark.parametrize("symbol", ["__tls_get_addr", "pthread_create", "_ZSt4cout"])
def test_a_symbol_of_the_system_needs_no_version(program: Path, link: Link, symbol: str, tmp_path: Path) -> None:
    call = Call("libtorch_cpu.so", symbol)
    assert _findings(program, link(call, tmp_path), call) == []
    newer = Call("libtorch_cpu.so", "arc4random")
    assert _findings(program, link(newer, tmp_path), newer) == ["undefined-symbol: arc4random"]


@pytest.mark.parametrize("cpu", ["x86_64", "aarch64"])
def test_each_library_of_the_system_is_recorded(cpu: str) -> None:
    names = {call.soname for call in _of_system() if call.cpu == cpu}
    of_other_cpu = {"x86_64": {"ld-linux-aarch64.so.1"}, "aarch64": {"ld-linux-x86-64.so.2", "libmvec.so.1"}}[cpu]
    libraries = {*ENTRIES[ENTRIES.index("ld-linux-aarch64.so.1") :], "libgomp.so.1"}
    assert names == libraries - of_other_cpu
