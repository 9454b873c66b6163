"""What a setup.py wants of this machine: commands and addresses, each with the line that asks."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .places import Places

_LENGTH = 200


class Wanted:
    """Notes what is asked for, as Python's audit events tell.

    Attributes:
        notes: `kind` (`command` or `address`), `program`, `text`, `answer`, `place`.

    Args:
        places: of the project.
        answers: what a program of the stand-ins answers, by its name.
    """

    def __init__(self, places: Places, answers: Mapping[str, str]) -> None:
        self.notes: list[dict[str, Any]] = []
        self._places = places
        self._answers = answers
        self._busy = False

    def watch(self) -> None:
        """Note from now on."""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or event not in {
            "subprocess.Popen",
            "os.system",
            "os.posix_spawn",
            "os.exec",
            "urllib.Request",
            "socket.getaddrinfo",
            "socket.connect",
        }:
            return
        self._busy = True
        try:
            if event.startswith(("urllib", "socket")):
                self._address(event, args)
            else:
                self._command(event, args)
        finally:
            self._busy = False

    def _command(self, event: str, args: tuple[Any, ...]) -> None:
        words = args[0] if event == "os.system" else args[1]
        if isinstance(words, (str, bytes)):
            text = os.fsdecode(words)
            try:
                words = shlex.split(text)
            except ValueError:
                words = text.split()
        words = [os.fsdecode(word) for word in words]
        if words[:2] in (["/bin/sh", "-c"], ["sh", "-c"]) and len(words) > 2:  # noqa: PLR2004
            words = words[2].split()
        while words and "=" in words[0]:
            words = words[1:]
        if not words:
            return
        program = os.path.basename(words[0])  # noqa: PTH119
        answer = self._answers.get(program)
        if answer is None:
            answer = "ran without a network" if shutil.which(words[0]) else "is not there"
        self._note("command", program, " ".join([program, *words[1:]]), answer)

    def _address(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "urllib.Request":
            self._note("address", urlsplit(str(args[0])).hostname or "", str(args[0]), "no network")
            return
        address = args[1] if event == "socket.connect" else args[:2]
        if not isinstance(address, tuple):
            return  # a socket of this machine
        host = os.fsdecode(address[0]) if isinstance(address[0], (str, bytes)) else ""
        place = self._places.caller()
        known = any(note["kind"] == "address" and note["place"] == place for note in self.notes)
        if host and not known:
            self._note("address", host, f"{host}:{address[1]}", "no network")

    def _note(self, kind: str, program: str, text: str, answer: str) -> None:
        place = self._places.caller()
        note = {"kind": kind, "program": program, "text": text[:_LENGTH], "answer": answer, "place": place}
        if note not in self.notes:
            self.notes.append(note)
