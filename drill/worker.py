"""A process that makes the calls of a range of cases: `python -m drill.worker SEED START STOP`.

Case i of a seed is always the same call. A line "start i" goes before the call and one with its outcome
after it, so that the parent knows what a hung or dead worker was doing.
"""

import json
import os
import random
import resource
import sys
import warnings
from typing import Any

from drill import hostile
from drill.examples import example, parameters
from drill.outcomes import Outcome, outcome_of
from drill.public import Entry, entries

MEMORY = 2 * 2**30
_UNTOUCHED = 0.05
"""The share of calls that are made as they should be."""


def case(seed: int, index: int, public: list[Entry]) -> tuple[Entry, Any, dict[str, Any], list[str]]:
    """The entry of a case, its instance and arguments, and what was put in place of which arguments."""
    rng = random.Random(f"{seed}:{index}")
    entry = public[index % len(public)]
    owner, given = example(entry)
    names = [name for name, _, _ in parameters(entry)]
    changed = []
    if names and rng.random() > _UNTOUCHED:
        for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
            words, given[name] = hostile.draw(rng)
            changed.append(f"{name}={words}")
    return entry, owner, given, changed


def call(seed: int, index: int, public: list[Entry]) -> tuple[str, list[str], Outcome]:
    """The name of the entry, what was changed, and how it ended."""
    entry, owner, given, changed = case(seed, index, public)
    function = entry.function
    finite = all(map(hostile.is_finite, changed))
    made = (lambda: function(owner, **given)) if entry.owner else (lambda: function(**given))
    return entry.name, changed, outcome_of(made, finite)


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
        call(seed, index, public)
    limit_memory()
    for index in range(start, stop):
        out.write(f"start {index}\n")
        name, changed, outcome = call(seed, index, public)
        out.write(json.dumps([index, name, changed, *outcome]) + "\n")


if __name__ == "__main__":
    main()
