"""The progress bar of a run; silent where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str], None]


@contextmanager
def progress_bar(expected: dict[str, float], quiet: bool = False) -> Iterator[Advance]:
    """Show the tasks with their expected seconds; the function given notes that a task is done."""
    if quiet or not sys.stderr.isatty() or not expected:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]} of {task.fields[count]}"),
        TimeRemainingColumn(),
    )
    waiting = dict(expected)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        total = sum(expected.values())
        shown = bar.add_task(next(iter(waiting)), total=total, done=0, count=len(expected))

        def advance(name: str) -> None:
            seconds = waiting.pop(name)
            done = len(expected) - len(waiting)
            bar.update(shown, advance=seconds, done=done, description=next(iter(waiting), "done"))

        yield advance
