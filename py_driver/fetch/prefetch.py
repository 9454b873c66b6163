"""Fetches many entries at once, with one line of progress."""

from __future__ import annotations

import filecmp
import queue
import shutil
import threading
from typing import TYPE_CHECKING, Final

from py_driver.errors import Code, DriverError, error
from py_driver.fetch.fetcher import Fetched, Fetcher
from py_driver.fetch.transfer import Meter
from py_driver.output import counted
from py_driver.system.cache import storage_errors
from py_driver.system.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from py_driver.fetch.entry import Entry
    from py_driver.output import Output

_MEGABYTE: Final = 1_000_000
_POLL_SECONDS: Final = 0.1


def fetch_all(  # noqa: PLR0913  (how, by name)
    entries: Sequence[Entry],
    output: Output,
    jobs: int = 4,
    fetcher: Fetcher | None = None,
    *,
    check: bool = False,
    stop: threading.Event | None = None,
) -> list[Fetched]:
    """Bring entries into the store, several at a time, without output if the store has all of them.

    Existing files are checked by size only: a build that does not use them need not read gigabytes.

    Args:
        entries: the entries; duplicates are fetched once.
        output: shows one line of progress.
        jobs: the number of entries at a time.
        fetcher: the fetcher (default: this user's store and the environment's mirror).
        check: whether to read existing files too, and fetch them again if they do not match the lock.
        stop: set when the archives are no longer needed.

    Returns:
        A result for each entry, in order.

    Raises:
        DriverError: the diagnostics of every entry that failed, see Fetcher.fetch; INTERRUPTED if stopped.
        KeyboardInterrupt: Ctrl-C; received bytes are kept, and the next run resumes.
    """
    fetcher = Fetcher() if fetcher is None else fetcher
    missing = list({e.key: e for e in entries if check or not fetcher.store.has(e)}.values())
    done: dict[str, Fetched] = {}
    if missing:
        crew = _Crew(fetcher, missing, stop or threading.Event())
        with output.task("fetching toolchains") as task:
            crew.start(jobs)
            try:
                while not crew.finished.wait(_POLL_SECONDS):
                    task.update(crew.progress())
            finally:
                crew.stop.set()
            if crew.failures:
                raise DriverError(dict.fromkeys(d for failure in crew.failures for d in failure.diagnostics))
            done = crew.done
            total = sum(fetched.bytes_fetched for fetched in done.values())
            task.done(f"{counted(len(done), 'archive')}, {_megabytes(total)} MB from the network")
        for fetched in done.values():
            if fetched.replaced:
                output.warn(fetched.warning)
    return [
        done.get(entry.key) or Fetched(entry=entry, path=fetcher.store.path(entry), source="store") for entry in entries
    ]


def fill_mirror(fetched: Sequence[Fetched], directory: Path) -> None:
    """Copy fetched archives into a directory, as a mirror for a machine without network.

    Args:
        fetched: the result of fetch_all.
        directory: the directory, created if missing; existing files with the same bytes are kept.

    Raises:
        DriverError: the directory cannot be written (NO_SPACE, PERMISSION).
    """
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for download in fetched:
            target = directory / download.entry.mirror_name
            if target.is_file() and filecmp.cmp(target, download.path, shallow=False):
                continue
            with download.path.open("rb") as archive, replacing(target) as file:
                shutil.copyfileobj(archive, file, _MEGABYTE)


def _megabytes(count: int) -> str:
    return f"{count / _MEGABYTE:.0f}" if count >= 10 * _MEGABYTE else f"{count / _MEGABYTE:.1f}"


class _Crew:
    """Threads that fetch a list of entries."""

    def __init__(self, fetcher: Fetcher, entries: Sequence[Entry], stop: threading.Event) -> None:
        self.stop = stop
        self.finished = threading.Event()
        self.done: dict[str, Fetched] = {}
        self.failures: list[DriverError] = []
        self._fetcher = fetcher
        self._total = len(entries)
        self._expected = sum(entry.size for entry in entries if not entry.members_only)
        self._bytes = 0
        self._running = 0
        self._guard = threading.Lock()
        self._todo: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        for entry in sorted(entries, key=lambda entry: -entry.size):
            self._todo.put(entry)

    def start(self, jobs: int) -> None:
        """Start the threads, which end with the process: a partial file is valid at any point."""
        self._running = max(1, min(jobs, self._total))
        for number in range(self._running):
            threading.Thread(target=self._work, name=f"fetch-{number}", daemon=True).start()

    def progress(self) -> str:
        """Their progress."""
        with self._guard:
            expected = max(self._expected, self._bytes)
            return f"{len(self.done)} of {self._total}, {_megabytes(self._bytes)} of {_megabytes(expected)} MB"

    def _count(self, number: int) -> None:
        with self._guard:
            self._bytes += number

    def _work(self) -> None:
        try:
            while not self.stop.is_set():
                self._fetch(self._todo.get_nowait())
        except queue.Empty:
            pass
        finally:
            with self._guard:
                self._running -= 1
                if not self._running:
                    self.finished.set()

    def _fetch(self, entry: Entry) -> None:
        try:
            fetched = self._fetcher.fetch(entry, Meter(self.stop, self._count))
        except DriverError as failure:
            with self._guard:
                self.failures.append(failure)
        except OSError as wrong:
            with self._guard:
                self.failures.append(error(Code.SET_UP, f"cannot fetch {entry.label}: {wrong}"))
        else:
            with self._guard:
                self.done[entry.key] = fetched
