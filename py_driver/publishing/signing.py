"""Signed statements that variants were rebuilt: written with a key, and judged by a policy.

The program that signs and verifies runs in its own environment, created at first use: the driver itself needs no
cryptography. `rules_torch_kernels.get_kernel` verifies with the same code, so both reach the same verdict.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import tomli

from py_driver.errors import Code, Diagnostic, error
from py_driver.publishing.rebuilt_statement import STATEMENTS, statement_file
from py_driver.resources import resource
from py_driver.system.client import CLIENT
from py_driver.system.environment import curated
from py_driver.system.files import write, writing
from py_driver.system.venv import ensure_venv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from py_driver.output import Output
    from py_driver.publishing.rebuilt_statement import Same

_WORKER: Final = "rules_torch_kernels.signing_worker"


class Confirmed(NamedTuple):
    """A policy's verdict on a variant.

    Attributes:
        variant: its identifier.
        source: its location.
        builders: the builders who have confirmed it.
        required: how many builders the policy requires.
        refused: why a statement does not count, by its path.
        problem: one sentence; empty if enough builders have confirmed it.
    """

    variant: str
    source: str
    builders: tuple[str, ...]
    required: int
    refused: Mapping[str, str]
    problem: str


class Signer:
    """The key of a builder."""

    def __init__(self, key: Path, output: Output) -> None:
        """Check that the key can sign.

        Args:
            key: the file of a private key: PEM, ECDSA on P-256 or Ed25519.
            output: where progress is shown.

        Raises:
            DriverError: USAGE if the file is not such a key; see `ensure_venv`.
        """
        self._key, self._output = key, output
        self.fingerprint: str = self._call("signer")["fingerprint"]

    def sign(self, variants: Sequence[Same], directory: Path) -> list[Path]:
        """Write a signed statement for each variant into a directory of statements; returns the files.

        Args:
            variants: the rebuilt variants.
            directory: the directory with a directory for each variant.

        Raises:
            DriverError: PERMISSION or NO_SPACE.
        """
        statements = [{"files": dict(variant.files), "predicate": variant.predicate} for variant in variants]
        paths = [directory / statement_file(variant.variant, self.fingerprint) for variant in variants]
        for path, bundle in zip(paths, self._call("sign", statements=statements)["bundles"], strict=True):
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write(path, bundle.encode())
        return paths

    def _call(self, call: str, **more: object) -> dict[str, Any]:
        return _answer({"call": call, "key": str(self._key.absolute()), **more}, "--sign-with", self._output)


def judged(
    policy: Path, wanted: Sequence[Mapping[str, Any]], statements: Mapping[str, Path], shown: str, output: Output
) -> list[Confirmed]:
    """Judge variants by a policy.

    Args:
        policy: the file of the policy.
        wanted: the variants; see `rules_torch_kernels.rebuilders.Wanted`.
        statements: directories with statements, besides the policy's, by their names in messages.
        shown: the name in messages of the directory with the variants.
        output: where progress is shown.

    Raises:
        DriverError: USAGE if the policy is wrong; see `ensure_venv`.
    """
    paths = {name: str(path.absolute()) for name, path in statements.items()}
    request = {"call": "judge", "policy": str(policy.absolute()), "statements": paths, "wanted": list(wanted)}
    answer = _answer(request, "--policy", output)
    return [
        Confirmed(
            variant=variant["variant"],
            source=f"{shown}/{variant['variant']}",
            builders=tuple(verdict["builders"]),
            required=answer["require"],
            refused=verdict["refused"],
            problem=verdict["problem"],
        )
        for variant, verdict in zip(wanted, answer["verdicts"], strict=True)
    ]


def not_confirmed(confirmed: Sequence[Confirmed]) -> list[Diagnostic]:
    """NOT_CONFIRMED for each variant that too few builders have confirmed."""
    advice = f"ask its builders to run `driver verify --published --sign-with KEY`, and add their {STATEMENTS}/"
    return [
        Diagnostic(code=Code.NOT_CONFIRMED, message=f"{variant.source}: {variant.problem}", help=advice)
        for variant in confirmed
        if variant.problem
    ]


def _answer(request: Mapping[str, Any], option: str, output: Output) -> dict[str, Any]:
    """The worker's answer to a request."""
    python = ensure_venv("signing", tomli.loads(resource("signing.toml"))["requirements"], output)
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(CLIENT)!r}); runpy.run_module({_WORKER!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [str(python), "-I", "-c", program],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=curated(),
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        advice = f"remove {python.parents[1]}, and try again"
        raise error(Code.SET_UP, f"the signing program failed: {last}", help=advice)
    answer: dict[str, Any] = json.loads(done.stdout)
    if problem := answer.get("problem"):
        raise error(Code.USAGE, f"{option}: {problem}")
    return answer
