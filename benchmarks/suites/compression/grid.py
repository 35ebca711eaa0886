"""What is measured against what: which methods, on which prompts, how many times smaller than the prompt.

Fixed before the runs that are reported. Stages are in the order in which they are run. Rivals that have to be
trained for minutes, and those that are far behind at 8 and 16, are not measured at every size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attangent.compression.text import SINKS
from benchmarks.suites.compression.prompts import NEEDLES_1K, NEEDLES_2K, TASKS

PRESSES = ("KVzip", "SnapKV", "ExpectedAttention", "AdaKV", "TOVA")
MATCHING = ("Attention Matching", "Attention Matching, sizes by head")
QUICK = ("recall", *PRESSES, *MATCHING, "summary", "prompt cut")
STRONGEST = ("recall", "KVzip", *MATCHING, "summary")
LEADING = ("recall", "KVzip", MATCHING[1])
WITH_MASSES = "plain with masses"
EQUAL = ("plain", WITH_MASSES, "anchors")
"""The same number of tokens for each head: as any engine can hold them, and with masses of their own."""
CARTRIDGES = {"CARTRIDGE": 12, "CARTRIDGE, longer": 96}
"""Steps of training: about as long as `recall` takes, and eight times as long."""
DISTILLED = ("recall, distilled",)
"""Trained for as long as the text needs, as the default command does it."""
EXPORTED = ("plain, distilled",)
"""What `--export peft` writes."""
UNTOUCHED = ("railway", "observatory")


@dataclass(frozen=True)
class Stage:
    """Some prompts, how many times smaller they become, and by which methods."""

    prompts: tuple[str, ...]
    times: tuple[int, ...]
    methods: tuple[str, ...]


GRID = (
    Stage(TASKS["facts"], (8, 16), QUICK),
    Stage(NEEDLES_1K, (8, 16), QUICK),
    Stage(NEEDLES_2K, (8, 16), LEADING),
    Stage(TASKS["examples"], (8, 16), QUICK),
    Stage(TASKS["instructions"], (8, 16), QUICK),
    Stage(TASKS["facts"], (32,), LEADING),
    Stage(TASKS["facts"], (4, 8, 16), EQUAL),
    Stage(TASKS["facts"], (4, 8), EXPORTED),
    Stage(UNTOUCHED, (4, 32, 64), (*STRONGEST, "prompt cut")),
    Stage(TASKS["facts"], (4, 64), LEADING),
    Stage(NEEDLES_1K[:1], (4, 32, 64), STRONGEST),
    Stage(TASKS["instructions"], (4, 32, 64), STRONGEST),
    Stage(TASKS["examples"][:1], (4, 32, 64), STRONGEST),
    Stage(UNTOUCHED, (8,), tuple(CARTRIDGES)),
    Stage(TASKS["facts"], (16, 32), DISTILLED),
    Stage(TASKS["instructions"], (8, 16, 32), DISTILLED),
    Stage(TASKS["examples"][:1], (16, 32), DISTILLED),
    Stage(NEEDLES_1K, (16, 32), DISTILLED),
    Stage(UNTOUCHED, (64,), DISTILLED),
    Stage(("needles-4k",), (16, 64), LEADING),
)


def size_of(tokens: int, times: int) -> int:
    """Tokens for each head that make a prompt so many times smaller; the first four and one more at least."""
    return max(SINKS + 1, round(tokens / times))


def wanted(
    prompts: Sequence[str] = (), times: Sequence[int] = (), methods: Sequence[str] = ()
) -> Iterator[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """The stages one prompt at a time: its name, how many times smaller, and the methods.

    What is named narrows the grid; a prompt that is not in it is measured as the first stage says.
    """
    stages = [*GRID, *(Stage((name,), (8, 16), QUICK) for name in prompts if not _in_grid(name))]
    for stage in stages:
        for name in stage.prompts:
            some_times = tuple(t for t in stage.times if not times or t in times)
            some_methods = tuple(m for m in stage.methods if not methods or m in methods)
            if (not prompts or name in prompts) and some_times and some_methods:
                yield name, some_times, some_methods


def _in_grid(name: str) -> bool:
    return any(name in stage.prompts for stage in GRID)
