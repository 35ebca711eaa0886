"""Progress bars on standard error; silent where that is no terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Bars:
    """One bar for each name that is shown, with the time left and, where given, a note.

    >>> with Bars(quiet=True) as bars:
    ...     bars.show("fitting", done=3, total=12)
    """

    def __init__(self, quiet: bool = False):
        self._bars: Any = None if quiet or not sys.stderr.isatty() else _new_bars()
        self._shown: dict[str, Any] = {}

    def __enter__(self) -> "Bars":
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, name: str, done: float, total: float, *, label: str | None = None, note: str = "") -> None:
        """Move the bar of this name; `label` is written in the place of the name."""
        if self._bars is None:
            return
        if name not in self._shown:
            self._shown[name] = self._bars.add_task(label or name, total=total, note=note)
        self._bars.update(
            self._shown[name], completed=done, total=total, description=label or name, note=note
        )


def track(steps: Sequence[T], name: str, quiet: bool = False) -> Iterable[T]:
    """The steps one by one, with a bar."""
    with Bars(quiet) as bars:
        for count, step in enumerate(steps):
            bars.show(name, count, len(steps))
            yield step


def _new_bars() -> Any:
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
