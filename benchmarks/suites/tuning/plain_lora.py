"""LoRA as peft's own examples train it: the rival that a user has without attangent.

`AutoModelForSequenceClassification` (or ...ForImageClassification), a classifier of random weights that
reads what the model gives it, LoRA of rank 8 with a dropout of .1 on queries and values, and transformers'
Trainer with one rate for all that is trained. `rates-TASK` tries rates and two lengths on a tuning split,
`RATES` holds the best of them, and `TASK-SIZE-peft` reports on the splits of
`benchmarks.suites.tuning.recipes`. The rates of 300 examples serve for 1000 too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison
from attangent.tuning.methods import Method
from benchmarks.suites.tuning.recipes import (
    CHOSEN,
    FIRST,
    LARGEST,
    TRAINING,
    TUNING_SPLITS,
    splits_of,
    task_of,
)

LORA = Method("peft", peft={"peft_type": "LORA", "r": 8, "lora_alpha": 16, "lora_dropout": 0.1})
LABEL = "lora as peft trains it"
GRID = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
LENGTHS = {"": 4, "-long": 12}
"""Epochs: as many as every other method has, and three times as many."""
SETTINGS: dict[str, Any] = {"pooling": "first", "start": "random"}
RATES = {
    "CounterFact relations": 0.005,
    "CounterFact relations-long": 0.002,
    "CounterFact rarer answers": 0.01,
    "CounterFact rarer answers-long": 0.005,
    "digits": 0.005,
    "digits-long": 0.01,
    "Tiny ImageNet": 0.01,
    "Tiny ImageNet-long": 0.002,
}
"""The best rate of the tuning split for each task and length."""


def tried(data: Path, folder: Path, name: str, long: str) -> MethodComparison:
    """Every rate on the tuning split."""
    entrants = tuple(Entrant(f"{LABEL} at {rate:g}", LORA, (rate,)) for rate in GRID)
    return _compared(data, folder, name, 300, long, entrants, **{**TUNING_SPLITS, **SETTINGS})


def reported(data: Path, folder: Path, name: str, size: int, long: str) -> MethodComparison:
    """The best rate on fresh splits; on five of them where it is trained for longer."""
    label = LABEL + (f", {LENGTHS[long]} epochs" if long else "")
    entrant = Entrant(label, LORA, (RATES[name + long],))
    splits = {"seeds": min(splits_of(name, size), 5 if long else 10), "first_seed": FIRST}
    return _compared(data, folder, name, size, long, (entrant,), **splits, **SETTINGS)


def _compared(
    data: Path, folder: Path, name: str, size: int, long: str, entrants: tuple[Entrant, ...], **splits: Any
) -> MethodComparison:
    model, trial = task_of(data, folder, name, size)
    training = replace(TRAINING, epochs=LENGTHS[long], head_rate=None)
    return MethodComparison(model, entrants, (trial,), training, **splits)


PLAIN_LORA: dict[str, Callable[[Path, Path], MethodComparison]] = {
    **{f"rates-{name}{long}": partial(tried, name=name, long=long) for name in CHOSEN for long in LENGTHS},
    **{
        f"{name}-{size}-peft{long}": partial(reported, name=name, size=size, long=long)
        for name in CHOSEN
        for long in LENGTHS
        for size in (300, 1000)
        if name + long in RATES and size <= LARGEST.get(name, size)
    },
}
