"""Environment variables that builds with torch's own tools read, as defaults of `--jobs` and `--archs`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, error

if TYPE_CHECKING:
    import argparse

    from py_driver.output import Output

_JOBS: Final = "MAX_JOBS"

_ARCHS: Final = ("TORCH_CUDA_ARCH_LIST", "PYTORCH_ROCM_ARCH")

_TAKE_ARCHS: Final = frozenset({"run", "test", "batch", "bench", "profile", "trace"})
"""Commands that build only for this machine."""

_ALL_ARCHS: Final = frozenset({"build", "demo", "wheel"})
"""Commands whose builds may be published."""


def is_count(text: str) -> bool:
    """Whether a text is a number from 1 to 9999."""
    return re.fullmatch(r"[1-9][0-9]{0,3}", text) is not None


def take_variables(name: str, args: argparse.Namespace, output: Output) -> None:
    """Apply variables as defaults of the command line, and report those that are used or ignored.

    A build for all variants must have the same architectures everywhere, whatever a container sets.

    Args:
        name: the command.
        args: its command line; gets `jobs`, and `listed`: the architectures that the variables name.
        output: where to report.

    Raises:
        DriverError: USAGE if a used variable has a word that is not an architecture.
    """
    jobs = os.environ.get(_JOBS, "")
    if jobs and getattr(args, "jobs", 0) is None:
        if is_count(jobs):
            args.jobs = int(jobs)
            output.say(f"note: --jobs {jobs} comes from {_JOBS}")
        else:
            output.say(f"note: {_JOBS} is not used: `{jobs}` is not a number from 1 to 9999")
    if getattr(args, "archs", ()) is not None:
        return
    found = {variable: os.environ[variable] for variable in _ARCHS if os.environ.get(variable, "").strip()}
    if name in _TAKE_ARCHS:
        args.listed = {variable: _listed(variable, text) for variable, text in found.items()}
    elif found and name in _ALL_ARCHS:
        output.say(
            f"note: {' and '.join(found)} {'is' if len(found) == 1 else 'are'} not used: variants and wheels "
            "have all architectures of the project, unless --archs names some"
        )


def _listed(variable: str, text: str) -> tuple[str, ...]:
    """The architectures in a variable, without duplicates; see `listed_archs`.

    Raises:
        DriverError: USAGE for a word that is not an architecture.
    """
    from py_driver.matrix.listed_archs import listed_archs

    archs, wrong = listed_archs(text)
    if wrong:
        advice = f"write e.g. {variable}={'gfx942' if 'ROCM' in variable else '8.0;9.0+PTX'}, or unset it"
        raise error(Code.USAGE, f"{variable} names `{wrong[0]}`, which is not a GPU architecture", help=advice)
    return archs
