import os
import signal
import threading

import pytest

from attangent._core.signals import Terminated, ending_on_signals


@pytest.fixture(autouse=True)
def _hook_of_threads(monkeypatch):
    """Put back afterwards: a process that was asked to end does not need it any more, the tests do."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_block_and_handlers_are_put_back(name):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(Terminated, match=name), ending_on_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_threads_that_fail_while_all_is_taken_down_are_silent(monkeypatch, capsys):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    with pytest.raises(Terminated), ending_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    falling = threading.Thread(target=lambda: {}["no such work"])
    falling.start()
    falling.join()
    assert capsys.readouterr().err == ""


def test_it_is_not_taken_for_a_failure():
    assert not issubclass(Terminated, Exception)


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with ending_on_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
