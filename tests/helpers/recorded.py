"""Wheels of setuptools from a project with empty libraries, as the recorder leaves them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

from py_driver.recording.record import Module, Record

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

SETUP = """\
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class Recorded(build_ext):
    def build_extension(self, ext):
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


setup(
    name="Demo.Project",
    version="{version}",
    packages=["demo"],
    package_data={{"demo": ["*.txt", "*.so"]}},
    ext_modules=[Extension(name, ["a.cpp"]) for name in {modules}],
    cmdclass={{"build_ext": Recorded}},
    install_requires={requires},
    license="Apache-2.0",
    license_files=["LICENSE"],
    scripts=["run.sh"],
    data_files=[("share/demo", ["LICENSE"])],
    entry_points={{"console_scripts": ["demo = demo:main"]}},
)
"""


def project(root: Path, version: str = "1.0", modules: tuple[str, ...] = ("demo._C",), **more: object) -> Path:
    """Write a project with empty libraries, and return the wheel that setuptools builds."""
    values = {"requires": ["torch", "einops>=0.7"], **more}
    files = {
        "setup.py": SETUP.format(version=version, modules=list(modules), **values),
        "demo/__init__.py": "def main():\n    from demo import _C\n    print(_C.cos(0.0))\n",
        "demo/größe, [1].txt": "data\n",
        "LICENSE": "text of the license\n",
        "run.sh": "#!/bin/sh\n",
    }
    for name, text in files.items():
        path = root / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return wheel_of(root / "project")


def wheel_of(directory: Path) -> Path:
    """The wheel that the PEP 517 backend makes when pip calls it."""
    out = directory.parent / "recorded"
    program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    out.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", program, str(out)], cwd=directory, check=True, capture_output=True)
    [wheel] = out.glob("*.whl")
    return wheel


def record_of(skeleton: Path, *modules: str, version: str = "1.0") -> Record:
    return Record(
        torch="2.13",
        backend="cu130",
        cxx_abi="cxx11",
        cpu="x86_64",
        arch_list="9.0",
        name="Demo.Project",
        version=version,
        wheel=skeleton.name,
        modules=tuple(
            Module(
                name=name,
                kind="cuda",
                file=f"{name.replace('.', '/')}{SUFFIX}",
                script="setup.py",
                line=19,
                sources=("a.cpp",),
            )
            for name in modules
        ),
        requirements=("setuptools==80.9.0",),
    )
