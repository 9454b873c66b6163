# ruff: noqa: INP001  (a program of its own)
"""Installs the driver and creates, builds and tests a kernel on other machines: python bench/machines.py WORK WHEEL ...

Each machine is a root of its own, made by mmdebstrap out of Debian's packages and entered with bubblewrap: the root is
read only, its home and cache are empty, and the user is who the table says. Both programs are taken from PATH;
mmdebstrap needs root. A machine without apt gets Bazel through Bazelisk from `--bazel`, a program that answers as Bazel
does: a loopback mirror has it where the releases would be. JSON goes to stdout, and a table to stderr.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.cache.contents import size_of  # noqa: E402  (the checkout is no installed package)
from py_driver.output import Output  # noqa: E402

_PACKAGES = "python3,python3-venv,ca-certificates,dash"
_EXPIRED = 'Acquire::Check-Valid-Until "false"'
_NO_APT = ("apt", "apt-get", "apt-config", "apt-cache", "dpkg", "dpkg-deb")
_SETTINGS = ("PIP_", "NODE_", "SSL_", "REQUESTS_", "CURL_", "npm_config_")
_BUILD = "driver build scale --torch 2.13 --backend cpu --backend cu130"
_STEPS = {
    "install": "python3 -m venv venv && venv/bin/pip install -q /opt/{wheel} && torch-kernels --version",
    "init": "driver init scale --template elementwise --backends cpu cuda --name me/scale",
    "check": "driver check scale",
    "build": _BUILD,
    "again": _BUILD,
    "test": "python3 -m venv torch && torch/bin/pip install -q 'torch==2.13.*' numpy pytest kernels && "
    "RULES_TORCH_KERNELS_TORCH_PYTHON=$PWD/torch/bin/python driver test scale",
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine.

    Attributes:
        title: its name in the table.
        suite: the suite of Debian.
        python: the directory of another Python; empty for the suite's own.
        user: the user id of the commands.
        apt: whether it has Debian's package tools.
        home: whether the home is writable; if not, all files are in another directory.
    """

    title: str
    suite: str
    python: str = ""
    user: int = 1000
    apt: bool = True
    home: bool = True

    @property
    def place(self) -> str:
        """The only writable directory besides /tmp."""
        return "/home/author" if self.home else "/disk"


class _Releases(BaseHTTPRequestHandler):
    """A mirror of Bazel's releases."""

    bazel = ""

    def do_GET(self) -> None:
        """Answer any version with the program."""
        body = f'#!/bin/sh\nexec {shlex.quote(self.bazel)} "$@"\n'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def root_of(machine: Machine, args: argparse.Namespace) -> Path:
    """The root of a machine, created if missing."""
    root: Path = args.work / f"root-{machine.suite}"
    if not (root / "usr").is_dir():
        options = ["--mode=root", "--variant=minbase", f"--include={_PACKAGES}", f"--aptopt={_EXPIRED}"]
        source = f"deb {args.mirror} {machine.suite} main"
        subprocess.run(["mmdebstrap", "--quiet", *options, machine.suite, root, source], check=True, stdout=sys.stderr)
    for directory in ("home/author", "disk", *(path[1:] for path in (*args.bind, machine.python) if path)):
        (root / directory).mkdir(parents=True, exist_ok=True)
    shutil.copy(args.wheel, root / "opt" / args.wheel.name)
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).is_file():
            (root / name).unlink(missing_ok=True)
            shutil.copy(Path("/", name), root / name)
    return root


def entered(machine: Machine, root: Path, place: Path, args: argparse.Namespace, releases: str) -> list[str]:
    """The words before a shell command that runs on a machine."""
    path = [f"{machine.place}/venv/bin", *([f"{machine.python}/bin"] if machine.python else []), "/usr/bin", "/bin"]
    settings = {"HOME": "/home/author", "PATH": ":".join(path), "LANG": "C.UTF-8"}
    settings |= {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
    binds = [("--ro-bind", root, "/"), ("--bind", place, machine.place)]
    binds += [("--ro-bind", path, path) for path in args.bind]
    binds += [("--ro-bind", machine.python, machine.python)] if machine.python else []
    if not machine.apt:
        settings |= {"BAZELISK_BASE_URL": releases, "RULES_TORCH_KERNELS_DEBIAN_MIRROR": args.mirror}
        tools = [f"/usr/bin/{name}" for name in _NO_APT if (root / "usr" / "bin" / name).exists()]
        binds += [("--ro-bind", root / "usr" / "lib" / "os-release", tool) for tool in tools]
    if not machine.home:
        settings |= {"RULES_TORCH_KERNELS_CACHE": "/disk/cache"}
    words = [str(word) for bind in binds for word in bind]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108  (of the machine)
    words += ["--unshare-user", "--unshare-pid", "--die-with-parent", "--clearenv", "--chdir", machine.place]
    words += ["--uid", str(machine.user), "--gid", str(machine.user)]
    words += [word for name, value in settings.items() for word in ("--setenv", name, value)]
    return ["bwrap", *words, "/bin/sh", "-euc"]


def tried(machine: Machine, args: argparse.Namespace, releases: str) -> dict[str, object]:
    """The results of a machine: seconds of each step, or the end of the first failed step's output."""
    place = args.work / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    start, found = entered(machine, root_of(machine, args), place, args, releases), {"machine": machine.title}
    result: dict[str, object] = {**found}
    for step, command in _STEPS.items():
        if step == "test" and args.no_test:
            continue
        began = time.monotonic()
        text = command.format(wheel=args.wheel.name)
        done = subprocess.run([*start, text], capture_output=True, text=True, check=False)
        result[step] = round(time.monotonic() - began, 1)
        if step == "build":
            result["megabytes"] = round(size_of([place]) / 1e6)
        if done.returncode:
            return {**result, "failed": step, "said": (done.stdout + done.stderr)[-2000:]}
    return result


def main() -> None:
    """Try each machine, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="an empty directory; roots that are there are taken again")
    parser.add_argument("wheel", type=Path, help="of this project")
    parser.add_argument("--mirror", required=True, help="the address of a Debian archive")
    parser.add_argument("--bazel", required=True, type=Path, help="the program for machines without apt")
    parser.add_argument("--bind", action="append", default=[], help="a directory that every machine has, too")
    parser.add_argument("--python", action="append", default=[], metavar="TITLE=DIR", help="another Python")
    parser.add_argument("--only", default="", help="the machines whose title has this")
    parser.add_argument("--no-test", action="store_true", help="leave out `driver test`, which installs torch")
    args = parser.parse_args()
    machines = [
        Machine(title="Debian 12, Python 3.11, root", suite="bookworm", user=0),
        Machine(title="Debian 12, a user", suite="bookworm"),
        Machine(title="Debian 12, a user, no apt", suite="bookworm", apt=False),
        Machine(title="Debian 12, a user, read-only home, cache elsewhere", suite="bookworm", home=False),
        Machine(title="Debian 13, Python 3.13, a user", suite="trixie"),
        Machine(title="Debian forky, Python 3.14, a user", suite="forky"),
        *(
            Machine(
                title=f"Debian 12, {python.partition('=')[0]}, a user",
                suite="bookworm",
                python=python.partition("=")[2],
            )
            for python in args.python
        ),
    ]
    _Releases.bazel = str(args.bazel)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Releases)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    output, rows = Output(), []
    for machine in (machine for machine in machines if args.only in machine.title):
        result = tried(machine, args, f"http://127.0.0.1:{server.server_address[1]}")
        output.json(result)
        rows.append([machine.title, *(str(result.get(step, "-")) for step in (*_STEPS, "megabytes", "failed"))])
    output.table(["machine", *_STEPS, "MB", "failed"], rows, right=range(1, len(_STEPS) + 2))


if __name__ == "__main__":
    main()
