"""Many entries at once, with one line of progress."""

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
    """Bring entries into the store, several at a time; nothing is said if all of them are there.

    What is there is taken by its size: a build that makes nothing of it need not read gigabytes.

    Args:
        entries: what is wanted; the same one twice is fetched once.
        output: shows one line of progress.
        jobs: how many at a time.
        fetcher: what to fetch with (default: this user's store and the environment's mirror).
        check: read what is there too, and bring it again if it is not what the lock pins.
        stop: set when the archives are no longer wanted.

    Returns:
        One result for each entry, in their order.

    Raises:
        DriverError: the diagnostics of every entry that failed, see Fetcher.fetch; INTERRUPTED if stopped.
        KeyboardInterrupt: Ctrl-C; what came so far is kept and goes on from there next time.
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
    """Copy what was fetched into a directory that serves as a mirror on a machine without network.

    Args:
        fetched: what fetch_all returned.
        directory: made if it does not exist; files that are there already, with the same bytes, are left alone.

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
    """Threads that work off a list of entries."""

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
        """Start the threads; they end with the process, as a partial file may be left at any point."""
        self._running = max(1, min(jobs, self._total))
        for number in range(self._running):
            threading.Thread(target=self._work, name=f"fetch-{number}", daemon=True).start()

    def progress(self) -> str:
        """How far they are."""
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
