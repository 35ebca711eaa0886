"""Command lines with hostile values: `python -m chaos.commands_worker SEED START STOP`."""

import contextlib
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import httpx

from attangent.cli.commands import TERMINATED
from attangent.serving.server import address_of
from attangent.serving.server import run as run_server
from chaos.command_lines import BEFORE, commands, lines
from chaos.fuzz import LIMIT
from chaos.serving import Case, serve

VALUES = (
    *("", "x", "-1", "0", "1", "3", "1e300", "nan", "inf", "99999999999999999999", "0.5", "a,b", ","),
    *("../outside", "/outside", "/dev/full", "/proc/self/mem", ".", "no/such/place"),
    *("\udcff", "(a+)+$", "x" * 5000, "{}", "[1]"),
    *("inputs/data/rows.jsonl", "inputs/data/series-20.csv", "inputs/data/prompt.txt", "inputs/encoder"),
)


def case(seed: int, index: int) -> Case:
    """A command with one option, or one word, that nobody expects."""
    rng = random.Random(f"{seed}:{index}")
    name = list(commands())[index % len(commands())]
    words = list(lines().get(name, []))
    options = [p for p in commands()[name].params if p.param_type_name == "option" and p.name != "help"]
    if words and rng.random() < 0.4:
        words[rng.randrange(len(words))] = rng.choice(VALUES)
    elif not options:
        words.append(rng.choice(VALUES))
    else:
        option = rng.choice(options)
        words += [option.opts[0]] if option.is_flag else [option.opts[0], rng.choice(VALUES)]
    return Case(f"attangent {name}", [" ".join(words)[:300]], lambda: run(name, words), finite=False)


def run(name: str, words: list[str]) -> None:
    """The whole of `attangent`, with the border that says errors in words; other exceptions come through.

    A server that starts must be healthy and end on SIGTERM.
    """
    from attangent import AttangentError
    from attangent.cli import main

    sys.argv = ["attangent", *name.split(), *words]
    visits: list[int] = []
    try:
        with mock.patch("attangent.serving.server.run", partial(_serve, visits)):
            main()
    except SystemExit as error:
        if error.code == TERMINATED and visits == [200]:
            return
        if visits:
            raise RuntimeError(f"a server answered {visits} and ended with {error.code}") from None
        if error.code:
            raise AttangentError(f"exit {error.code}") from None


def _serve(visits: list[int], service: Any, listener: Any, on_ready: Callable[[], None]) -> None:
    """Run a server until one visitor has seen its health and asks it to end."""

    def visit() -> None:
        visits.append(0)
        try:
            url = f"{address_of(listener)}health"
            visits[0] = httpx.get(url, timeout=LIMIT / 2, trust_env=False).status_code
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def start_visit() -> None:
        on_ready()
        threading.Thread(target=visit).start()

    run_server(service, listener, start_visit)


def _prepare() -> None:
    """What other commands start from, unless an earlier worker made it."""
    from attangent import AttangentError

    os.environ["HF_HUB_OFFLINE"] = "1"  # a name that is nowhere is no reason to wait for the net
    for name in BEFORE:
        with contextlib.suppress(AttangentError):  # exit code 3: a goal that was missed
            run(name, lines()[name])


if __name__ == "__main__":
    serve(case, warm_up=0, prepare=_prepare)
