"""Ending in good order when the system asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 143
"""What a shell shows for a process that SIGTERM ended."""


class Terminated(BaseException):
    """The process was asked to end. Not an Exception, so that nothing takes it for a failure of its own."""


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise `Terminated` in the main thread: files are tidied, workers ended.

    Elsewhere than in the main thread it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), _raise) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _raise(number: int, frame: FrameType | None) -> None:
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(
                getattr(signal, name), signal.SIG_IGN
            )  # one is enough: the way out is not disturbed
    threading.excepthook = _say_nothing
    raise Terminated(signal.Signals(number).name)


def _say_nothing(failure: object) -> None:
    """For threads of pools that are taken down in the middle of handing out work."""
