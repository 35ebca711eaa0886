"""A process that makes the calls of a range of cases: `python -m drill.worker SEED START STOP`.

Case i of a seed is always the same call. A line goes before the call and one with its outcome after it, so
that the parent knows what a hung or dead worker was doing.
"""

import json
import os
import random
import resource
import sys
import warnings
from typing import Any, NamedTuple

from drill import hostile
from drill.examples import example, parameters
from drill.outcomes import STARTED, Outcome, outcome_of
from drill.public import Entry, entries

MEMORY = 2 * 2**30
_UNTOUCHED = 0.05
"""The share of calls that are made as they should be."""


class Case(NamedTuple):
    """A call to be made, and which arguments were replaced by what."""

    entry: Entry
    owner: Any
    given: dict[str, Any]
    changed: list[str]


def case(seed: int, index: int, public: list[Entry]) -> Case:
    """The case of a number: always the same for a seed and a public list."""
    rng = random.Random(f"{seed}:{index}")
    entry = public[index % len(public)]
    owner, given = example(entry)
    names = [name for name, _, _ in parameters(entry)]
    changed = []
    if names and rng.random() > _UNTOUCHED:
        for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
            words, given[name] = hostile.draw(rng)
            changed.append(f"{name}={words}")
    return Case(entry, owner, given, changed)


def call(made: Case) -> Outcome:
    """How the call of a case ends."""
    function, first = made.entry.function, (made.owner,) if made.entry.owner else ()
    finite = all(map(hostile.is_finite, made.changed))
    return outcome_of(lambda: function(*first, **made.given), finite)


def limit_memory(extra: int = MEMORY) -> None:
    """Allow this process `extra` bytes beyond what it has by now."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + extra, held + extra))


def main() -> None:
    seed, start, stop = map(int, sys.argv[1:4])
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the entries print is not the report
    warnings.simplefilter("ignore")
    public = entries()
    for index in range(min(20, len(public))):
        call(case(seed, index, public))
    limit_memory()
    for index in range(start, stop):
        made = case(seed, index, public)
        about = [index, made.entry.name, made.changed]
        out.write(json.dumps([*about, STARTED]) + "\n")
        out.write(json.dumps([*about, *call(made)]) + "\n")


if __name__ == "__main__":
    main()
