"""A new release of CUDA: the facts in NVIDIA's wheels on the package index."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.fetch.offered import order
from py_driver.matrix.addition import Addition
from py_driver.matrix.facts import facts
from py_driver.matrix.toolkits import numbers
from py_driver.matrix.torch_symbols import soname
from py_driver.system.machine import machine_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from py_driver.fetch.offered import Offers

_META: Final = "cuda-toolkit"
_FIRST: Final = (13, 0)
"""The first release with wheels of nvcc itself."""

_REQUIREMENT: Final = re.compile(r"([\w-]+)(?:==([\d.]+?)\.\*|<\d+,>=([\d.]+))\s*;.*extra == '([\w-]+)'")
_HEADERS: Final = "nvidia/cu13/include/"
_PARTS: Final = {
    "nvcc": "nvidia-cuda-nvcc",
    "nvvm": "nvidia-nvvm",
    "crt": "nvidia-cuda-crt",
    "cudart": "nvidia-cuda-runtime",
    "cccl": "nvidia-cuda-cccl",
    "cublas": "nvidia-cublas",
    "cusparse": "nvidia-cusparse",
    "cusolver": "nvidia-cusolver",
    "cufft": "nvidia-cufft",
    "curand": "nvidia-curand",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvjitlink": "nvidia-nvjitlink",
    "nvtx": "nvidia-nvtx",
    "profiler": "nvidia-cuda-profiler-api",
}
"""The archives of a release in the order of the matrix, by the extra of `cuda-toolkit` that requires each."""

_MEMBERS: Final = {
    **dict.fromkeys(("cublas", "cusparse", "cusolver", "cufft", "curand", "nvrtc", "nvjitlink"), _HEADERS),
    "nvtx": f"{_HEADERS}nvtx3/",
}
"""The needed parts of archives."""

_LIBRARIES: Final = ("cudart", "cublas", "cusparse", "cusolver", "cufft", "curand", "nvrtc", "nvjitlink")
"""The archives whose libraries are recorded."""

_CUDNN: Final = "nvidia-cudnn-cu13"
_GLIBC_2_41: Final = "0.14.1"
"""The first zig with the headers of glibc 2.41."""

_TRIED: Final = 19
"""The newest clang that is tested as nvcc's host compiler; a later zig's clang compiles HIP."""

_SECONDS: Final = 60
_JOBS: Final = 8


def new_cuda(
    version: str, table: Mapping[str, Any], offers: Offers, report: Callable[[str], None], *, own: bool = False
) -> Addition:
    """The addition to the matrix for a release of CUDA.

    Args:
        version: major and minor, e.g. `13.4`.
        table: the matrix.
        offers: the indexes.
        report: gets progress messages.
        own: whether it is for a user's own matrix, which then pairs it with a torch release.

    Raises:
        DriverError: BAD_VALUE for a release without nvcc on the index, and on a machine whose CPU is not x86_64; see
            `Offers`; BAD_DIGEST if a wheel is not as expected.
    """
    if numbers(version) < _FIRST:
        advice = "name NVIDIA's archive of it in a [[cuda]] table: see docs/toolchains.md"
        raise error(Code.BAD_VALUE, f"no wheel has the nvcc of CUDA {version}", help=advice)
    if machine_cpu() != "x86_64":
        raise error(Code.BAD_VALUE, "the facts of an nvcc are read by running it on x86_64", help="run this there")
    releases = offers.versions(_META, version)
    if not releases:
        raise error(Code.NOT_FOUND_UPSTREAM, f"no {_META} {version} is on the package index")
    report(f"{_META} {releases[-1]}")
    parts = _versions(offers, releases[-1])
    neighbour = _neighbour(version, table)
    report(f"nvcc {parts['nvcc']}")
    archs, option = _of_programs(offers, parts["nvcc"])
    with offers.members(_PARTS["crt"], parts["crt"], [f"{_HEADERS}crt/"]) as tree:
        newest = max_clang(_only(tree, "host_config.h").read_text(encoding="utf-8", errors="replace"))
        host = host_of(_only(tree, "math_functions.h").read_text(encoding="utf-8"), newest, table["cc"]["zig"])
    with offers.members(_PARTS["cudart"], parts["cudart"], ["nvidia/cu13/lib/libcudart.so"]) as tree:
        runtime = soname(_only(tree, "libcudart.so*"))
    report("torch")
    torch, cudnn = _torch_of(version, table, offers)
    wheels = {part: f"{_PARTS[part]}=={parts[part]}" for part in _PARTS}
    asked, whose = (cudnn, "") if cudnn else earlier_cudnn(version, table)
    known = set(table["capabilities"]["plain"])
    defaults = [c for c in neighbour["default-capabilities"] if c.partition("+")[0] in archs]
    release = {
        "version": version,
        "archs": archs,
        "default-capabilities": defaults,
        "host": host,
        "max-clang": newest,
        "runtime": runtime,
        **{key: neighbour[key] for key in ("compress",) if key in neighbour},
        "compress-option": option,
        "run-here": True,
        "archives": [
            {"layout": "toolkit", "wheel": wheels[part], **({"members": [_MEMBERS[part]]} if part in _MEMBERS else {})}
            for part in _PARTS
        ],
        "libraries": [*({"wheel": wheels[part]} for part in _LIBRARIES), {"wheel": asked}],
    }
    backend = f"cu{version.replace('.', '')}"
    pairs = {} if torch or not own else {_newest_torch(table): [backend]}
    return Addition(
        kind="cuda",
        version=version,
        table=release,
        checked=[
            f"the versions of the archives: what `{_META}` {releases[-1]} asks for",
            f"`archs`: `nvcc --list-gpu-arch` of {parts['nvcc']}; `compress-option`: `fatbinary --help`",
            "`max-clang`: crt/host_config.h; `host`: crt/math_functions.h; `runtime`: the SONAME of libcudart",
            f"torch releases whose wheels on the index ask for CUDA {version}: {', '.join(torch) or 'none'}",
        ],
        open=[
            f"`compress` and `default-capabilities` are those of CUDA {neighbour['version']}",
            *([] if cudnn else [f"cuDNN: no torch on the index says it; {asked} is that of {whose}"]),
            *(f"`{arch}` is no capability of `[capabilities]` yet" for arch in archs if arch not in known),
            *_pairing(version, backend, torch, pairs),
            "`run-here`: `driver build examples/relu` for it, split and with `--cuda-compile monolithic`",
            *([] if own else ["`[machines.aarch64.cuda]`, if it is to compile on Arm"]),
        ],
        pairs=pairs,
    )


def _pairing(version: str, backend: str, torch: Sequence[str], pairs: Mapping[str, Sequence[str]]) -> list[str]:
    """The remaining work on pairs with torch releases."""
    if pairs:
        return [f"torch {name} with CUDA {version} is no pair that torch is published in" for name in pairs]
    if torch:
        return [f"add `{backend}` to `backends` of torch {', '.join(torch)}"]
    return [f"no variant is built for `{backend}` until a torch release names it in `on-request`"]


def _versions(offers: Offers, release: str) -> dict[str, str]:
    """The version of each archive that `cuda-toolkit` requires, by its extra."""
    asked = {}
    for line in offers.requirements(_META, release):
        found = _REQUIREMENT.match(line)
        if found and _PARTS.get(found[4]) == found[1]:
            asked[found[4]] = (found[2] or found[3], bool(found[2]))
    if missing := sorted(_PARTS.keys() - asked.keys()):
        raise error(Code.NOT_FOUND_UPSTREAM, f"{_META} {release} does not ask for {', '.join(missing)}")
    versions = {}
    for part, (version, prefix) in asked.items():
        found_versions = offers.versions(_PARTS[part], version) if prefix else [version]
        if not found_versions:
            raise error(Code.NOT_FOUND_UPSTREAM, f"no wheel of {_PARTS[part]} {version} is on the package index")
        versions[part] = found_versions[-1]
    return versions


def _neighbour(version: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The release of the matrix whose choices a new one copies: the last release before it with wheels of nvcc."""
    earlier = [cuda for cuda in table["cuda"] if _FIRST <= numbers(cuda["version"]) < numbers(version)]
    if not earlier:
        raise error(Code.BAD_VALUE, f"the matrix has no release of CUDA 13 before {version}", help="add it by hand")
    return max(earlier, key=lambda cuda: numbers(cuda["version"]))


def earlier_cudnn(version: str, table: Mapping[str, Any]) -> tuple[str, str]:
    """The cuDNN of the last release before a new one that names a cuDNN, and that release.

    Args:
        version: the version of the new release.
        table: the matrix.

    Raises:
        DriverError: BAD_VALUE if no release names one.
    """
    found = [
        (library["wheel"], cuda["version"])
        for cuda in table["cuda"]
        for library in cuda.get("libraries", ())
        if _FIRST <= numbers(cuda["version"]) < numbers(version) and library.get("wheel", "").startswith(_CUDNN)
    ]
    if not found:
        message = f"neither a torch on the index nor a release of CUDA 13 before {version} in the matrix names a cuDNN"
        raise error(Code.BAD_VALUE, message, help=f"add `{_CUDNN}==...` to the `libraries` of one, or add it by hand")
    return max(found, key=lambda each: numbers(each[1]))


def _of_programs(offers: Offers, version: str) -> tuple[list[str], str]:
    """The architectures of an nvcc, ascending, and the newest compression option of its fatbinary."""
    with offers.members(_PARTS["nvcc"], version, ["nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/fatbinary"]) as tree:
        archs = _run(_only(tree, "nvcc"), "--list-gpu-arch")
        options = _run(_only(tree, "fatbinary"), "--help")
    found = sorted({order(number) for number in re.findall(r"compute_(\d+)\b", archs)})
    capabilities = [f"{number // 10}.{number % 10}" for (number,) in found]
    option = next((key for key in reversed(facts("compression")["FATBINARY"]) if key in options), "")
    if not capabilities or not option:
        raise error(Code.BAD_DIGEST, f"nvcc {version} lists no architecture, or fatbinary no option for compression")
    return capabilities, option


def _run(program: Path, option: str) -> str:
    """The output of a program for an option, in a clean environment."""
    try:
        done = subprocess.run(
            [program, option],
            env={"LANG": "C", "PATH": ""},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as wrong:
        raise error(Code.BAD_DIGEST, f"`{program.name} {option}` of the wheel does not run: {wrong}") from wrong
    return done.stdout


def max_clang(header: str) -> int:
    """The newest clang that an nvcc supports, from crt/host_config.h.

    Args:
        header: its text.

    Raises:
        DriverError: BAD_DIGEST if the header does not state it.
    """
    found = re.findall(r"__GRCO_CLANG_COMPILER__ == 1\) &&.*__clang_major__ > (\d+)", header)
    if not found:
        raise error(Code.BAD_DIGEST, "crt/host_config.h does not say which clang nvcc takes")
    return int(found[0])


def host_of(header: str, newest: int, zigs: Mapping[str, int]) -> str:
    """The zig whose clang nvcc calls: the last one that nvcc supports and whose headers do not clash with its own.

    The headers of glibc 2.41 and later declare `sinpi`, and so does crt/math_functions.h, unless it leaves it to glibc.
    CUDA 13.0 to 13.2 leave it for every clang (`__GNUC_PREREQ(2,41)`), later releases depending on the target's glibc
    (`__GLIBC_PREREQ`), which is older here.

    Args:
        header: the text of crt/math_functions.h.
        newest: the newest clang that nvcc supports.
        zigs: the releases of zig in the matrix, with their clang.

    Raises:
        DriverError: BAD_VALUE if no zig is suitable.
    """
    clashes = "__GNUC_PREREQ(2,41)" not in header
    fitting = [
        zig
        for zig, clang in zigs.items()
        if clang <= newest and clang <= _TRIED and not (clashes and order(zig) >= order(_GLIBC_2_41))
    ]
    if not fitting:
        raise error(Code.BAD_VALUE, "no zig of `[cc]` is for this nvcc", help="add one to the matrix")
    return max(fitting, key=order)


def _only(tree: Path, pattern: str) -> Path:
    """The only file below a directory that a pattern matches."""
    found = sorted(path for path in tree.rglob(pattern) if path.is_file())
    if not found:
        raise error(Code.BAD_DIGEST, f"the wheel has no {pattern}")
    return found[0]


def _torch_of(version: str, table: Mapping[str, Any], offers: Offers) -> tuple[list[str], str]:
    """The torch releases of the matrix whose wheels require a release of CUDA, and their oldest cuDNN."""
    torch, cudnn = [], []
    tags = {release["version"]: python_tag(release) for release in table["torch"]}
    releases = [release for release in table["torch"] if tags[release["version"]]]
    with ThreadPoolExecutor(_JOBS) as pool:
        read = pool.map(
            lambda release: offers.requirements("torch", release["release"], python_tag=tags[release["version"]]),
            releases,
        )
        requirements = list(read)
    for release, lines in zip(releases, requirements, strict=True):
        if cuda_of(lines) == version:
            torch.append(release["version"])
            cudnn += [found[1] for line in lines if (found := re.match(rf"{_CUDNN}==([\d.]+)", line))]
    return torch, f"{_CUDNN}=={min(cudnn, key=order)}" if cudnn else ""


def python_tag(release: Mapping[str, Any]) -> str:
    """The tag of a Python with wheels of a torch release; empty if its table names none, as a user's table may.

    Args:
        release: a table of the matrix.
    """
    versions = [python for python in release.get("pythons", ()) if "t" not in python]
    return f"cp{versions[-1].replace('.', '')}" if versions else ""


def cuda_of(requirements: Sequence[str]) -> str:
    """The CUDA, major and minor, that the wheel of a torch release requires; empty if it names none.

    Args:
        requirements: its lines `Requires-Dist`.
    """
    names = r"(?:cuda-toolkit(?:\[[\w,-]*\])?|nvidia-cuda-runtime(?:-cu1[0-9])?)"
    for line in requirements:
        if found := re.match(rf"{names}\s*\(?==(\d+\.\d+)", line):
            return found[1]
    return ""


def _newest_torch(table: Mapping[str, Any]) -> str:
    """The last torch release of a matrix that is built for CUDA 13."""
    built = [torch for torch in table["torch"] if any(name.startswith("cu13") for name in torch["backends"])]
    version: str = built[-1]["version"]
    return version
