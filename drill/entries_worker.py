"""Calls of public entries with hostile arguments: `python -m drill.entries_worker SEED START STOP`."""

import random
from functools import cache

from drill import hostile
from drill.examples import example, parameters
from drill.public import Entry, entries
from drill.serving import Case, serve

_UNTOUCHED = 0.05
"""The share of calls that are made as they should be."""

public = cache(entries)


def case(seed: int, index: int) -> Case:
    """An entry with one argument, sometimes two, that nobody expects."""
    rng = random.Random(f"{seed}:{index}")
    entry: Entry = public()[index % len(public())]
    try:
        owner, given = example(entry)
    except Exception as error:
        return Case(entry.name, [f"no example: {type(error).__name__}"], _nothing, own=True)
    kinds = {name: str(annotation) for name, annotation, _ in parameters(entry)}
    changed, own = [], False
    if kinds and rng.random() > _UNTOUCHED:
        for name in rng.sample(list(kinds), min(len(kinds), rng.choice((1, 1, 1, 2)))):
            words, given[name] = hostile.draw(rng)
            changed.append(f"{name}={words}")
            own = own or (callable(given[name]) and "Callable" in kinds[name])
    first = (owner,) if entry.owner else ()
    finite = all(map(hostile.is_finite, changed))
    return Case(entry.name, changed, lambda: entry.function(*first, **given), finite, own)


def _nothing() -> None:
    """In the place of an entry for which the tables have no example yet: it counts as the caller's."""
    raise LookupError("no example")


if __name__ == "__main__":
    serve(case, warm_up=20)
