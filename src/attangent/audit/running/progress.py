"""The progress bar of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attangent._core.progress import Bars

Advance = Callable[[str], None]


@contextmanager
def progress_bar(expected: dict[str, float], quiet: bool = False) -> Iterator[Advance]:
    """Show the tasks with their expected seconds; call the function it gives whenever a task is done."""
    waiting, total = dict(expected), sum(expected.values())

    def show() -> None:
        done = len(expected) - len(waiting)
        bars.show(
            "audit",
            done=total - sum(waiting.values()),
            total=total,
            label=next(iter(waiting), "done"),
            note=f"{done} of {len(expected)}",
        )

    def advance(name: str) -> None:
        waiting.pop(name)
        show()

    with Bars(quiet or not expected) as bars:
        show()
        yield advance
