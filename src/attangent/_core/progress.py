"""Progress bars on standard error or in a notebook; silent elsewhere."""

import sys
import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")
_SECONDS_BETWEEN = 0.1


class Bars:
    """One bar for each name that is shown, with the time left and, where given, a note.

    >>> with Bars(quiet=True) as bars:
    ...     bars.show("fitting", done=3, total=12)
    """

    def __init__(self, quiet: bool = False):
        self._bars: Any = None if quiet else _bars_for_here()
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


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return type(running).__name__ == "ZMQInteractiveShell"


class NotebookBars:
    """The part of rich's Progress that `Bars` uses, for notebooks: HTML that is replaced as it moves.

    rich itself needs ipywidgets there.
    """

    def __init__(self) -> None:
        self._tasks: list[dict[str, Any]] = []
        self._display: Any = None
        self._drawn = float("-inf")

    def start(self) -> None:
        """Nothing is shown before the first bar."""

    def stop(self) -> None:
        """Take the bars away: what they told of is over."""
        if self._display is not None:
            self._display.update({"text/html": "", "text/plain": ""}, raw=True)

    def add_task(self, description: str, total: float, note: str) -> int:
        self._tasks.append({"description": description, "total": total, "note": note, "completed": 0.0})
        return len(self._tasks) - 1

    def update(self, task: int, **named: Any) -> None:
        self._tasks[task] |= named
        now = time.monotonic()
        if now - self._drawn > _SECONDS_BETWEEN:
            self._drawn = now
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        shown = {
            "text/html": "".join(map(_bar_html, self._tasks)),
            "text/plain": self._tasks[-1]["description"],
        }
        if self._display is None:
            self._display = display(shown, raw=True, display_id=True)
        else:
            self._display.update(shown, raw=True)


def _bar_html(task: dict[str, Any]) -> str:
    share = min(task["completed"] / task["total"], 1.0) if task["total"] else 0.0
    note = f" {escape(str(task['note']))}" if task["note"] else ""
    return (
        f"<div>{escape(str(task['description']))} <progress max='1' value='{share:.4f}'></progress> "
        f"{share:.0%}{note}</div>"
    )


def _bars_for_here() -> Any:
    if in_notebook():
        return NotebookBars()
    return _terminal_bars() if sys.stderr.isatty() else None


def _terminal_bars() -> Any:
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
