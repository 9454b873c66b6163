from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from py_driver.system.interrupts import held


def test_a_signal_comes_at_the_end() -> None:
    done = []

    def twice() -> None:
        with held():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_comes_when_it_is_let() -> None:
    with held() as let_come:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            let_come()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_holds_nothing() -> None:
    seen = []

    def hold() -> None:
        with held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("call", range(1, 6))
def test_signals_while_handlers_change_are_not_lost(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, change = [], signal.signal

    def interrupted(*what: Any) -> Any:  # noqa: ANN401  (as signal.signal's)
        before = change(*what)
        calls.append(what)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return before

    for name in (signal.SIGTERM, signal.SIGHUP):
        change(name, signal.default_int_handler)
    monkeypatch.setattr(signal, "signal", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            _hold()
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), name)
    finally:
        change(signal.SIGINT, signal.default_int_handler)
        for name in (signal.SIGTERM, signal.SIGHUP):
            change(name, signal.SIG_DFL)


def _hold() -> None:
    with held():
        pass
