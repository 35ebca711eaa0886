"""Progress of a run: a bar on a terminal or in a notebook, elsewhere one line each minute."""

import sys
import time

from attangent._core.progress import Bars, in_notebook

_SECONDS_BETWEEN_LINES = 60.0


class Watch:
    """Shows the steps of one training after another; silent when quiet.

    >>> with Watch(quiet=True) as watch:
    ...     watch.step("training", 3, 12, 0.7)
    """

    def __init__(self, quiet: bool = False):
        self._bars = Bars(quiet)
        self._lines = not quiet and not sys.stderr.isatty() and not in_notebook()
        self._last = time.monotonic()

    def __enter__(self) -> "Watch":
        self._bars.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.__exit__(*exception)

    def step(self, name: str, done: int, total: int, loss: float) -> None:
        """Report that `done` of `total` steps are taken."""
        self._bars.show(name, done, total, note=f"loss {loss:.4f}")
        if self._lines and time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            print(f"{name}: step {done} of {total}, loss {loss:.4f}", file=sys.stderr, flush=True)
