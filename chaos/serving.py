"""The side of a worker: it makes the calls of a range of cases and says how each ended.

Case i of a seed is always the same call. A line goes before the call and one with its outcome after it, so
that the parent knows what a hung or dead worker was doing.
"""

import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from chaos.outcomes import STARTED, outcome_of

MEMORY = 2 * 2**30


class Case(NamedTuple):
    """A call to be made: of what, with what in it that nobody expects."""

    name: str
    changed: list[str]
    call: Callable[[], Any]
    finite: bool = True
    own: bool = False


def serve(case: Callable[[int, int], Case], warm_up: int, prepare: Callable[[], None] = lambda: None) -> None:
    """Serve `SEED START STOP` of the command line; memory is limited after so many cases of warming up."""
    seed, start, stop = map(int, sys.argv[1:4])
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the calls print is not the report
    warnings.simplefilter("ignore")
    prepare()
    for index in range(warm_up):
        made = case(seed, index)
        outcome_of(made.call, made.finite, made.own)
    limit_memory()
    for index in range(start, stop):
        made = case(seed, index)
        about = [index, made.name, made.changed]
        out.write(json.dumps([*about, STARTED]) + "\n")
        out.write(json.dumps([*about, *outcome_of(*made[2:])]) + "\n")


def limit_memory(extra: int = MEMORY) -> None:
    """Allow this process `extra` bytes beyond what it has by now."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + extra, held + extra))
