"""cicc as a whole and in its two halves, run by our compile program."""

from __future__ import annotations

import subprocess
from itertools import chain
from typing import TYPE_CHECKING

from py_driver.matrix.releases import Releases

if TYPE_CHECKING:
    from pathlib import Path

    from clone import Driver

_TEXT = """# 1 "a.cu"
template <typename T> __attribute__((global)) void scale(T* out, T by) {
  __attribute__((shared)) T held[8];
  for (int i = 0; i < 8; ++i) held[i] = out[i] * by;
  for (int i = 0; i < 8; ++i) out[7 - i] = held[i] / by;
}
template __attribute__((global)) void scale<float>(float*, float);
template __attribute__((global)) void scale<double>(double*, double);
"""


def sdks(driver: Driver, version: str) -> tuple[Path, Path]:
    """The directories of a CUDA release and of its host compiler, after a driver has built for that release."""
    host = Releases().lock.parts["cuda"][version]["host"]
    compiler = "cc" if host == Releases().lock.parts["cc"]["default"] else f"host_{host.replace('.', '_')}"
    found = []
    for kind in (f"cuda_{version.replace('.', '_')}", compiler):
        places = driver.output.glob(f"*/external/*torch_kernels_{kind}")
        found.append(next(directory for directory in places if directory.is_dir()))
    return found[0], found[1]


def whole_and_halves(driver: Driver, version: str, directory: Path, arch: str, *options: str) -> tuple[bytes, bytes]:
    """The PTX of a CUDA release's cicc and that of its two halves; the bitcode stays in `half.bc`."""
    bins = ("bin", "bin/external/*")
    programs = chain.from_iterable(
        driver.output.glob(f"*/execroot/_main/bazel-out/*/{binary}/rules/private/tools/compile_program")
        for binary in bins
    )
    program = max(programs, key=lambda path: path.stat().st_mtime)
    cuda, host = sdks(driver, version)
    (directory / "code.ii").write_text(_TEXT)
    # A compiler may open the targets of links in its directory.
    for name, sdk in (("cuda", cuda), ("host", host)):
        (directory / name).symlink_to(sdk)

    def phase(name: str, code: str, out: str, *more: str) -> None:
        command: list[str | Path] = [program, "phase", name, "--source", "a.cu", "--section", "k", "--in", "code", code]
        command += ["--out", out, *more, "--", "cuda/bin/nvcc", "-ccbin", "host/clang++"]
        command += ["--objdir-as-tempdir", *options, f"-gencode=arch=compute_{arch},code=sm_{arch}"]
        command += ["-c", "source.cu", "-o", "object.o"]
        subprocess.run(command, cwd=directory, env={"PATH": "/nonexistent", "LANG": "C"}, check=True)

    phase("cicc", "code.ii", "whole.ptx", "--stub", "whole.c")
    phase("device-frontend", "code.ii", "half.bc", "--stub", "half.c")
    phase("device-compile", "half.bc", "half.ptx")
    assert (directory / "whole.c").read_bytes() == (directory / "half.c").read_bytes()
    return (directory / "whole.ptx").read_bytes(), (directory / "half.ptx").read_bytes()
