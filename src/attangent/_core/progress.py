"""Progress bars on a terminal or in a notebook; none elsewhere."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")
Advance = Callable[[int], Any]
"""Called with the amount of work just done."""
Progress = Callable[[str, int, int], object]
"""Called with the name of a stage, the work done and the total."""


class Bars:
    """One progress bar per name, with the remaining time and an optional note.

    Args:
        quiet: Show nothing.

    Example:
        >>> with Bars(quiet=True) as bars:
        ...     bars.show("fitting", done=3, total=12)
    """

    def __init__(self, quiet: bool = False):
        shown = not quiet and (sys.stderr.isatty() or in_notebook())
        self._bars: Any = _rich_bars() if shown else None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "Bars":
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, name: str, done: float, total: float, *, label: str | None = None, note: str = "") -> None:
        """Update the bar of this name; `label` is shown instead of the name."""
        if self._bars is None:
            return
        fields = {"description": label or name, "total": total, "note": note}
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(**fields)
        self._bars.update(self._tasks[name], completed=done, **fields)


class Stages:
    """Named stages of a job: reports the progress of each and adds up its seconds.

    Args:
        progress: Called whenever a stage advances.

    Example:
        >>> stages = Stages(lambda name, done, total: print(name, done, "of", total))
        >>> with stages.stage("fitting", 2) as advance:
        ...     advance(2)
        fitting 0 of 2
        fitting 2 of 2
    """

    def __init__(self, progress: Progress | None = None):
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.purpose = ""

    @contextmanager
    def named(self, purpose: str) -> Iterator[None]:
        """Add a purpose to the names of the stages in this context: "fitting for peft"."""
        self.purpose = f" {purpose}"
        try:
            yield
        finally:
            self.purpose = ""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Time a stage; yield a function to call with the amount of work just done."""
        started = time.perf_counter()
        label = name + self.purpose
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if self.progress is not None:
                self.progress(label, done, total)

        advance(0)
        try:
            yield advance
        finally:
            self.seconds[label] = self.seconds.get(label, 0.0) + time.perf_counter() - started


def no_progress(done: int) -> None:
    """Report nothing."""


def track(steps: Sequence[T], name: str, quiet: bool = False) -> Iterable[T]:
    """Yield the steps one by one and show a bar."""
    with Bars(quiet) as bars:
        for count, step in enumerate(steps):
            bars.show(name, count, len(steps))
            yield step


def in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this and has ipywidgets, which rich's bars need there."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell" and find_spec("ipywidgets") is not None


def _rich_bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
