"""A progress bar on the terminal; silent where nobody watches."""

import sys
from collections.abc import Iterable, Sequence


def track(steps: Sequence, name: str, quiet: bool) -> Iterable:
    """`steps`, with a bar where standard error is a terminal."""
    if quiet or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track as bar

    return bar(steps, description=name, console=Console(stderr=True), transient=True)
