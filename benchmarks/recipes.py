"""The grid of the comparison with the recipe of `tune`: tasks, entrants, splits; rates are tune's defaults.

`screen` runs every task on a tuning split with 300 examples and decides which tasks have signal: those on
which the probe is above guessing and at least 3 points below the best method. `recipe-300` and `recipe-1000`
report on these, with splits that `screen` has not drawn.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attangent.adapters.config import NTKConfig
from attangent.tuning.compare.run import read_runs
from attangent.tuning.compare.settings import Comparison, Entrant, Trial
from attangent.tuning.data.text import read_task
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

BOTH = Method("ntk+lora", rank=4, ntk=NTKConfig(size=8))
CORE = (
    Entrant("probe", Method("probe"), (1.0,)),
    Entrant("lora r=8", Method("lora", rank=8), (5e-4,)),
    Entrant("ntk", Method("ntk"), (2.5e-3,)),
    Entrant("ntk+lora", BOTH, (2.5e-3,)),
)
QUARTER = Entrant("ntk, a quarter", Method("ntk", ntk=NTKConfig(size=4)), (2.5e-3,))
RSLORA = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": True}
OTHERS = (
    Entrant("head", Method("head"), (2.5e-3,)),
    Entrant("rslora", Method("peft", peft=RSLORA), (5e-4,)),
    Entrant("IA3", Method("peft", peft={"peft_type": "IA3"}), (5e-4,)),
    Entrant("layer norms", Method("peft", peft={"peft_type": "LN_TUNING"}), (5e-4,)),
    Entrant("prefix 16", Method("prefix", tokens=16), (2.5e-3,)),
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
    """Every task of texts on a tuning split."""
    trials = sorted(texts(data, folder, 300).values(), key=lambda trial: trial.name)  # the cheapest first
    return Comparison(minilm(), CORE[:3], tuple(trials), TRAINING, **TUNING_SPLITS)


def has_signal(accuracies: Mapping[str, float], guessing: float) -> bool:
    """Whether the probe is above guessing, and at least 3 points below the best."""
    probe = accuracies["probe"]
    return probe > guessing and max(accuracies.values()) - probe >= 0.03 - 1e-9


def with_signal(data: Path, folder: Path, size: int) -> tuple[Trial, ...]:
    """The tasks of texts that have signal on the tuning split, of those that `screen` has run."""
    runs = read_runs(folder / "screen/runs.jsonl")
    rates = {entrant.label: entrant.rates for entrant in CORE[:3]}
    found = []
    for name, trial in texts(data, folder, size).items():
        here = [run for run in runs if run["task"] == f"{name} 300"]
        own = [run for run in here if run["rate"] in rates.get(run["entrant"], ())]
        accuracies = {run["entrant"]: run["test"]["accuracy"] for run in own}
        counts = read_task(trial.files).counts.values()
        if len(own) == len(CORE[:3]) and has_signal(accuracies, max(counts) / sum(counts)):
            found.append(trial)
    return tuple(found)


def recipe_300(data: Path, folder: Path) -> Comparison:
    return Comparison(minilm(), (*CORE, QUARTER), with_signal(data, folder, 300), TRAINING, **FRESH_SPLITS)


def recipe_1000(data: Path, folder: Path) -> Comparison:
    return Comparison(minilm(), CORE, with_signal(data, folder, 1000), TRAINING, **FRESH_SPLITS)


def recipe_digits(data: Path, folder: Path) -> Comparison:
    """Images, on which damping was chosen: the digits 0 to 4 were used for that, these are 5 to 9."""
    model, trial = digits(folder, 300)
    return Comparison(model, (*CORE, QUARTER), (trial,), TRAINING, **FRESH_SPLITS)


def rivals(data: Path, folder: Path) -> Comparison:
    """Further configs of peft's, and the classifier alone, with 300 examples."""
    return Comparison(minilm(), OTHERS, with_signal(data, folder, 300), TRAINING, **FRESH_SPLITS)


def screen_digits(data: Path, folder: Path) -> Comparison:
    """Rates from tune's default upwards on a tuning split: how far the default is from the best one there."""
    model, trial = digits(folder, 300)
    tried = [replace(one, rates=tuple(factor * one.rates[0] for factor in (1, 4, 16))) for one in CORE[1:]]
    return Comparison(model, (CORE[0], *tried), (trial,), TRAINING, **TUNING_SPLITS)


CHOSEN = {"lora r=8": 8e-3, "ntk": 4e-2, "ntk+lora": 1e-2}
"""The rates with the best validation accuracy, then loss, on the tuning split of the digits."""


def chosen_digits(data: Path, folder: Path) -> Comparison:
    """The digits on fresh splits at the rates that `screen-digits` chose."""
    model, trial = digits(folder, 300)
    entrants = [replace(one, rates=(CHOSEN[one.label],)) for one in CORE[1:]]
    return Comparison(model, (CORE[0], *entrants), (trial,), TRAINING, **FRESH_SPLITS)


RECIPES = {
    "chosen-digits": chosen_digits,
    "screen-digits": screen_digits,
    "screen": screen,
    "recipe-300": recipe_300,
    "recipe-1000": recipe_1000,
    "recipe-digits": recipe_digits,
    "rivals-300": rivals,
}
