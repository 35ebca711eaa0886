"""How far the work is: each stage reports its progress and adds up its seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int], Any]
"""Called with the name of a stage, how much of it is done, and how much there is."""


class Stages:
    """The stages of one job, with the seconds that each took."""

    def __init__(self, progress: Progress | None = None):
        self.progress: Progress = progress or (lambda name, done, total: None)
        self.seconds: dict[str, float] = {}
        self._purpose = ""

    @contextmanager
    def named(self, purpose: str) -> Iterator[None]:
        """Meanwhile the stages are those of something else, and say so: "fitting for peft"."""
        self._purpose = f" {purpose}"
        try:
            yield
        finally:
            self._purpose = ""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Yields a function to call with how much more is done."""
        started, done, name = time.perf_counter(), 0, name + self._purpose

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.progress(name, done, total)

        advance(0)
        try:
            yield advance
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
