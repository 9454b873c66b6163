"""What GitHub's runner does with the steps of a job, as far as these workflows go: expressions, inputs, files, shells.

Steps of this repository are run. Of GitHub's own actions only what they are called with is recorded.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from clone import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

WORKFLOW = ROOT / ".github" / "workflows" / "kernel.yml"
EXTENSION = ROOT / ".github" / "workflows" / "extension.yml"
ACTION = ROOT / "docs" / "ci" / "action.yml"
OWN = "$/docs/ci"
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||[=!]=|[!(),]|\d+|[A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*")
_SIGNS = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False", "null": "None"}
_WHOLE = re.compile(r"\$\{\{((?:(?!\}\}).)*)\}\}")
_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")


def load(path: Path) -> Any:  # noqa: ANN401  (YAML)
    """A workflow or an action; the key `on` is not read as a truth value."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in loaded.items()}


def evaluate(expression: str, contexts: Mapping[str, Any]) -> Any:  # noqa: ANN401  (as in GitHub's)
    """The value of an expression without its braces; empty for a missing value."""

    def get(path: str) -> Any:  # noqa: ANN401
        value: Any = contexts
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        return value

    parts, place = [], 0
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        assert match, expression[place:]
        token, place = match[1], match.end()
        if token.startswith("'"):
            parts.append(repr(token[1:-1].replace("''", "'")))
        elif token[0].isalpha() and token not in _SIGNS and expression[place : place + 1] != "(":
            parts.append(f"get({token!r})")
        else:
            parts.append(_SIGNS.get(token, token))
    known: dict[str, Callable[..., Any]] = {
        "get": get,
        "format": str.format,
        "startsWith": str.startswith,
        "fromJSON": json.loads,
        "cancelled": lambda: False,
    }
    return eval("".join(parts).strip(), {"__builtins__": {}}, known)  # noqa: S307  (of this repository, in its tests)


def filled(text: object, contexts: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A value of a workflow with its expressions evaluated."""
    if not isinstance(text, str):
        return text
    if only := _WHOLE.fullmatch(text):
        return evaluate(only[1], contexts)
    return _WHOLE.sub(lambda match: str(evaluate(match[1], contexts)), text)


@dataclass(kw_only=True)
class Runner:
    """A machine that runs a job.

    Attributes:
        root: the checkout with the action.
        workspace: the checkout of the kernel's repository.
        temp: RUNNER_TEMP.
        contexts: the contexts of expressions: `github`, `inputs`, `needs`, `matrix`, `secrets`.
        environ: the environment of all steps.
        used: the called actions of GitHub, with their inputs.
        said: the output of the steps on stdout.
        failed: the failed step's output on stderr, and its exit code.
        summary: the summary on the page of the run.
    """

    root: Path
    workspace: Path
    temp: Path
    contexts: dict[str, Any]
    environ: dict[str, str]
    used: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failed: tuple[str, int] | None = None
    summary: str = ""

    def run(self, job: Mapping[str, Any], *names: str) -> dict[str, str]:
        """Run the steps of a job in order, or only the named steps; returns its outputs."""
        self.temp.mkdir(exist_ok=True)
        chosen = [step for step in job["steps"] if not names or step.get("name") in names]
        contexts = self._steps(chosen, {**self.contexts}, {})
        return {name: filled(value, contexts) for name, value in job.get("outputs", {}).items()}

    def _steps(
        self, steps: list[dict[str, Any]], contexts: dict[str, Any], environ: Mapping[str, str]
    ) -> dict[str, Any]:
        """Run steps until a step fails; returns the contexts after them."""
        contexts["steps"] = {}
        for step in steps:
            if self.failed or not evaluate(step.get("if", "true"), contexts):
                continue
            given = {name: filled(value, contexts) for name, value in step.get("with", {}).items()}
            if step.get("uses") == OWN:
                action = load(self.root / "docs" / "ci" / "action.yml")
                inputs = {name: given.get(name, value.get("default", "")) for name, value in action["inputs"].items()}
                assert set(given) <= set(inputs)
                path = {"GITHUB_ACTION_PATH": str(self.root / "docs" / "ci")}
                self._steps(action["runs"]["steps"], {"github": contexts["github"], "inputs": inputs}, path)
            elif "uses" in step:
                self.used.append((step["uses"], given))
            else:
                outputs = self._shell(step, contexts, environ)
                contexts["steps"][step.get("id", "")] = {"outputs": outputs}
        return contexts

    def _shell(
        self, step: Mapping[str, Any], contexts: Mapping[str, Any], environ: Mapping[str, str]
    ) -> dict[str, str]:
        """Run the script of a step; returns its outputs."""
        files = {name: self.temp / f"file-{name}" for name in _FILES}
        for file in files.values():
            file.write_text("")
        (self.temp / "script.sh").write_text(step["run"])
        own = {name: str(filled(value, contexts)) for name, value in step.get("env", {}).items()}
        places = {"GITHUB_WORKSPACE": self.workspace, "RUNNER_TEMP": self.temp, **files}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(self.temp / "script.sh")],
            cwd=self.workspace / filled(step.get("working-directory", "."), contexts),
            env={**self.environ, **{name: str(directory) for name, directory in places.items()}, **environ, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += done.stdout.splitlines()
        self.failed = (done.stderr, done.returncode) if done.returncode else None
        read = {name: file.read_text().splitlines() for name, file in files.items()}
        self.environ |= dict(line.split("=", 1) for line in read["GITHUB_ENV"])
        self.environ["PATH"] = ":".join([*reversed(read["GITHUB_PATH"]), self.environ["PATH"]])
        self.summary += "".join(f"{line}\n" for line in read["GITHUB_STEP_SUMMARY"])
        return dict(line.split("=", 1) for line in read["GITHUB_OUTPUT"])
