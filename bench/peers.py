# ruff: noqa: INP001  (a program of its own)
"""The columns of the benchmark that are not ours: one nvcc for each file and variant, with and without a cache.

The flags are those that torch.utils.cpp_extension 2.13 writes into its build.ninja, with what an author would add so
that the code is that of the other columns: `-O3`, extended lambdas, and the operators of half types, which it takes
away. Its CUDA sources see torch's headers whether they need them or not, and nvcc compiles one architecture after
another, since it gives no `--threads`. Objects lie in the project, as a build directory does, and caches are told where
the project is.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import tomllib
from typing import TYPE_CHECKING, Any

from columns import ROOT, children, digests, server, sources

if TYPE_CHECKING:
    from pathlib import Path

    from columns import Ours

_BINDING = "torch-ext/torch_binding.cpp"
_REGISTRATION = ROOT / "rules" / "private" / "include"
_NVCC = "--expt-relaxed-constexpr --expt-extended-lambda"
_NINJA = """ninja_required_version = 1.3
cflags = {common} -fPIC -std=c++20 -O3 -DNDEBUG
cuda_flags = {common} {nvcc} {codes} --compiler-options '-fPIC' -O3 -DNDEBUG -std=c++20 -ccbin {host}

rule compile
  command = {launcher}{host} -MMD -MF $out.d $cflags -c $in -o $out
  depfile = $out.d
  deps = gcc

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = {launcher}{toolkit}/bin/nvcc -MD -MF $out.d $cuda_flags -c $in -o $out

"""
_CMAKE = """cmake_minimum_required(VERSION 3.26)
set(CMAKE_CUDA_ARCHITECTURES {archs})
project(bench LANGUAGES CXX CUDA)
add_library(bench OBJECT {sources})
set_target_properties(bench PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20 CUDA_STANDARD 20)
target_compile_definitions(bench PRIVATE TORCH_EXTENSION_NAME=bench)
target_compile_options(bench PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:{nvcc}>)
target_include_directories(bench PRIVATE . {registration})
target_include_directories(bench SYSTEM PRIVATE {libraries} "$<{torch}:${{TORCH}}>")
target_include_directories(bench SYSTEM PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${{CUDA}}>)
"""
# CMake links a program to see what nvcc is, and the toolkit here has nothing to link. So it is told what it would see:
# nvcc's own dry run of that link.
_TOOLCHAIN = """set(CMAKE_CXX_COMPILER "{host}")
set(CMAKE_CUDA_COMPILER "{toolkit}/bin/nvcc")
set(CMAKE_CUDA_HOST_COMPILER "{host}")
set(CMAKE_CUDA_COMPILER_FORCED 1)
set(CMAKE_CUDA_COMPILER_ID_RUN 1)
set(CMAKE_CUDA_COMPILER_ID NVIDIA)
set(CMAKE_CUDA_COMPILER_VERSION {version})
set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT [=[
{output}]=])
"""


class Ninja:
    """The build.ninja of torch.utils.cpp_extension, without its link.

    Args:
        work: directory for what is kept between builds.
        toolchains: whose compilers and headers to use.
    """

    name = "ninja"
    launcher = ""

    def __init__(self, work: Path, toolchains: Ours) -> None:
        self._work = work
        self._toolchains = toolchains
        self._environ = {k: v for k, v in os.environ.items() if not k.startswith(("CCACHE_", "SCCACHE_"))}
        self._commands: list[int] = []

    def build(self, project: Path, variants: list[str]) -> int:
        """Build variants, one after another; how many compilers ran."""
        before = self._actions()
        for variant in variants:
            self._run(project, self._prepare(project, variant))
        return self._actions() - before

    def alone(self, project: Path, variant: str) -> tuple[float, int]:
        """Wall seconds of ninja with one object to make."""
        directory = self._prepare(project, variant)
        before, start = self._actions(), time.monotonic()
        self._run(project, directory, self._object(sources(project)[0]))
        return time.monotonic() - start, self._actions() - before

    def digests(self, project: Path, variants: list[str]) -> dict[str, str]:
        """Of the objects."""
        root = project / "objects"
        return digests((file for variant in variants for file in (root / variant).rglob("*.o")), root)

    def cpu(self) -> float:
        """CPU seconds of ninja and all that it ran."""
        return children()

    def close(self) -> None:
        """Nothing is left running."""

    def _run(self, _project: Path, directory: Path, *targets: str) -> None:
        command = ["ninja", "-v", *targets]
        done = subprocess.run(command, cwd=directory, env=self._environ, check=True, capture_output=True, text=True)
        self._commands.append(sum(line.startswith("[") and " -c " in line for line in done.stdout.splitlines()))

    def _actions(self) -> int:
        """How many compilers ran up to now."""
        return sum(self._commands)

    def _object(self, source: Path) -> str:
        return f"{source.stem}.cuda.o"

    def _prepare(self, project: Path, variant: str) -> Path:
        """Write what ninja reads; where it runs."""
        facts = self._facts(project, variant)
        directory = project / "objects" / variant
        directory.mkdir(parents=True, exist_ok=True)
        own = [project, _REGISTRATION, *facts["libraries"]]
        includes = [f"-I{path}" for path in own] + [f"-isystem {path}" for path in (*facts["torch"], facts["include"])]
        text = _NINJA.format(
            common=f"-DTORCH_EXTENSION_NAME=bench {' '.join(includes)}",
            nvcc=_NVCC,
            codes=" ".join(sorted(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in facts["archs"])),
            launcher=f"{shutil.which(self.launcher)} " if self.launcher else "",
            **{key: facts[key] for key in ("host", "toolkit")},
        )
        text += "".join(f"build {self._object(source)}: cuda_compile {source}\n" for source in sources(project))
        put(directory / "build.ninja", f"{text}build torch_binding.o: compile {project / _BINDING}\n")
        return directory

    def _facts(self, project: Path, variant: str) -> dict[str, Any]:
        """What to compile a project with in a variant."""
        torch, _, cuda = variant.split("-")[:3]
        toolkit = self._toolchains.external(f"cuda_{cuda[2:4]}_{cuda[4:]}")
        headers = self._toolchains.external(f"torch_{torch[5]}_{torch[6:]}") / "include"
        [section] = tomllib.loads((project / "build.toml").read_text())["kernel"].values()
        others = [self._toolchains.external(name) for name in section["depends"] if name != "torch"]
        return {
            "host": self._toolchains.external("cc") / "clang++",
            "toolkit": toolkit,
            "include": toolkit / "include",
            "version": f"{cuda[2:4]}.{cuda[4:]}",
            "torch": [headers, headers / "torch" / "csrc" / "api" / "include"],
            "torch-free": "torch" not in section["depends"],
            "libraries": [root / path for root in others for path in ("include", "tools/util/include")],
            "archs": [arch.replace(".", "") for arch in section["cuda-capabilities"]],
        }


class Ccache(Ninja):
    """The same with ccache before both compilers."""

    name = "ninja + ccache"
    launcher = "ccache"

    def _run(self, project: Path, directory: Path, *targets: str) -> None:
        # Directories are alike for it, so that it finds in one what it made in another.
        self._environ |= {"CCACHE_DIR": str(self._work / "ccache"), "CCACHE_BASEDIR": str(project)}
        super()._run(project, directory, *targets)

    def _actions(self) -> int:
        environ = {**self._environ, "CCACHE_DIR": str(self._work / "ccache")}
        said = subprocess.run(["ccache", "--print-stats"], env=environ, check=True, capture_output=True, text=True)
        counts = dict(line.split("\t") for line in said.stdout.splitlines())
        return int(counts.get("cache_miss", 0))


class Sccache(Ninja):
    """The same with sccache before both compilers; it runs the phases of nvcc one by one, and its server runs them."""

    name = "ninja + sccache"
    launcher = "sccache"

    def __init__(self, work: Path, toolchains: Ours) -> None:
        super().__init__(work, toolchains)
        self._server: subprocess.Popen[bytes] | None = None

    def cpu(self) -> float:
        """CPU seconds of ninja, of sccache's clients, and of its server with all that it ran."""
        return children() + (server(self._server.pid) if self._server else 0.0)

    def close(self) -> None:
        """Stop the server."""
        if self._server:
            subprocess.run(["sccache", "--stop-server"], env=self._environ, check=False, capture_output=True)
            self._server.wait()
            self._server = None

    def _actions(self) -> int:
        self._start()
        command = ["sccache", "--show-stats", "--stats-format=json"]
        said = subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True).stdout
        misses: dict[str, int] = json.loads(said)["stats"]["cache_misses"]["counts"]
        return sum(misses.values())

    def _start(self) -> None:
        """Start the server, if it does not run, on a port that is free; wait until it listens."""
        if self._server:
            return
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        directories = (self._work / "here", self._work / "another" / "directory")
        self._environ |= {
            "SCCACHE_SERVER_PORT": str(port),
            "SCCACHE_DIR": str(self._work / "sccache"),
            "SCCACHE_IDLE_TIMEOUT": "0",
            "SCCACHE_BASEDIRS": ":".join(map(str, directories)),
        }
        foreground = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1"}
        environ = {**self._environ, **foreground}
        self._server = subprocess.Popen(["sccache"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise OSError("sccache's server does not listen")


class CMake(Ninja):
    """An object library of CMake, whose CUDA sources see torch's headers only if they need them."""

    name = "cmake"

    def _object(self, source: Path) -> str:
        return f"CMakeFiles/bench.dir/csrc/{source.name}.o"

    def _prepare(self, project: Path, variant: str) -> Path:
        """Write what CMake reads, and run it if it has not run; it runs itself when what it reads has changed."""
        facts = self._facts(project, variant)
        text = _CMAKE.format(
            archs=" ".join(f"{arch}-real" for arch in facts["archs"]),
            sources=" ".join([*(f"csrc/{source.name}" for source in sources(project)), _BINDING]),
            nvcc=_NVCC.replace(" ", ";"),
            registration=_REGISTRATION,
            libraries=" ".join(map(str, facts["libraries"])),
            torch="$<COMPILE_LANGUAGE:CXX>" if facts["torch-free"] else "1",
        )
        put(project / "CMakeLists.txt", text)
        directory = project / "objects" / variant
        if not (directory / "build.ninja").is_file():
            directory.mkdir(parents=True, exist_ok=True)
            nvcc = facts["toolkit"] / "bin" / "nvcc"
            link = [nvcc, "--dryrun", "-ccbin", facts["host"], "none.cu", "-o", "a.out"]
            output = subprocess.run(link, check=True, capture_output=True, text=True).stderr
            known = {key: facts[key] for key in ("host", "toolkit", "version")}
            put(directory / "toolchain.cmake", _TOOLCHAIN.format(output=output, **known))
            command = ["cmake", "-G", "Ninja", "-S", str(project), "-B", str(directory), "-DCMAKE_BUILD_TYPE=Release"]
            command += [f"-DCMAKE_TOOLCHAIN_FILE={directory / 'toolchain.cmake'}", f"-DCUDA={facts['include']}"]
            command += [f"-DTORCH={';'.join(map(str, facts['torch']))}"]
            subprocess.run(command, env=self._environ, check=True, capture_output=True, text=True)
        return directory


def put(path: Path, text: str) -> None:
    """Write a file, unless it says that already."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


PEERS = (CMake, Ninja, Ccache, Sccache)
