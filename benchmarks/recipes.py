"""The grid of the comparison with the recipe of `tune`: tasks, entrants, rates, splits.

`screen` runs every task on a tuning split with 300 examples. From it come which tasks have signal (the probe
is above guessing and at least 3 points below the best method) and the rate of each entrant. What is reported
has splits that `screen` has not drawn.
"""

from pathlib import Path
from typing import Any

from attangent.adapters.config import NTKConfig
from attangent.tuning.compare.settings import Comparison, Entrant, Trial
from attangent.tuning.methods import Method
from attangent.tuning.recipe import Recipe
from attangent.tuning.training import Training
from benchmarks.accuracy_data import (
    counterfact_relations,
    drawn_digits,
    gsm8k_steps,
    math_levels,
    math_subjects,
    minilm,
    pretrained_vit,
)

TRAINING = Training(epochs=4, batch=16, by_length=True)
SETTINGS: dict[str, Any] = {"top": 2, "pooling": "declared", "recipe": Recipe()}
TUNING_SPLITS: dict[str, Any] = {"seeds": 1, "first_seed": 40, **SETTINGS}
FRESH_SPLITS: dict[str, Any] = {"seeds": 3, "first_seed": 60, **SETTINGS}

PROBE = Entrant("probe", Method("probe"), (1.0,))
BOTH = Method("ntk+lora", rank=4, ntk=NTKConfig(size=8))
SCREENED = (
    PROBE,
    Entrant("lora r=8", Method("lora", rank=8), (5e-4, 2e-3)),
    Entrant("ntk", Method("ntk"), (2.5e-3, 1e-2)),
    Entrant("ntk+lora", BOTH, (2.5e-3, 1e-2)),
)


def texts(data: Path, folder: Path, size: int, test: int = 300) -> dict[str, Trial]:
    """Every task of texts at this size."""
    tables = {
        "MATH subject": math_subjects(data, folder),
        "MATH level": math_levels(data, folder),
        "GSM8K steps": gsm8k_steps(data, folder),
        "CounterFact relations": counterfact_relations(data, folder),
    }
    return {
        name: Trial(f"{name} {size}", (table,), size, 100, test, max_tokens=32)
        for name, table in tables.items()
    }


def digits(folder: Path, size: int) -> tuple[str, Trial]:
    """The ViT that was trained on the digits 0 to 4, and 5 to 9 to adapt it to."""
    images = drawn_digits(folder / "digits")
    model = pretrained_vit(images, folder / "vit-digits", 8, epochs=40)
    trial = Trial(f"digits {size}", (images / "adapt/train",), size, 100, 400, (images / "adapt/test",))
    return model, trial


def screen(data: Path, folder: Path) -> Comparison:
    """Every task of texts on tuning splits, two rates for each entrant."""
    trials = tuple(texts(data, folder, 300).values())
    return Comparison(minilm(), SCREENED, trials, TRAINING, **TUNING_SPLITS)


def screen_digits(data: Path, folder: Path) -> Comparison:
    model, trial = digits(folder, 300)
    return Comparison(model, SCREENED, (trial,), TRAINING, **TUNING_SPLITS)


RECIPES = {"screen": screen, "screen-digits": screen_digits}
