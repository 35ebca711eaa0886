"""The grid of the comparison with the recipe of `tune`: tasks, entrants, splits, rates.

`screen`, `screen-digits` and `screen-CIFAR-10` run every task on a tuning split with 300 examples, each
method at its default rate and at four times that. A task has signal where the probe is above guessing and at
least 3 points below the best. `python -m benchmarks.recipes FOLDER` prints what came out, and `CHOSEN` holds
it: tasks with signal, and the better rate of each method. The other parts, one for each task and number of
examples, report on splits that the screens have not drawn.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attangent.adapters.config import NTKConfig
from attangent.tuning.compare.run import Run, read_runs, split_task
from attangent.tuning.compare.settings import Comparison, Entrant, Trial
from attangent.tuning.data.images import ImageTask
from attangent.tuning.methods import Method
from attangent.tuning.recipe import Recipe
from attangent.tuning.training import Training
from benchmarks.accuracy_data import (
    both,
    counterfact_rarer_answers,
    counterfact_relations,
    drawn_digits,
    gsm8k_steps,
    math_levels,
    math_subjects,
    minilm,
    pretrained_vit,
    unpacked,
)

TRAINING = Training(epochs=4, batch=16, by_length=True)
SETTINGS: dict[str, Any] = {"pooling": "declared", "recipe": Recipe()}
TUNING_SPLITS: dict[str, Any] = {"seeds": 1, "first_seed": 40, **SETTINGS}
FRESH_SPLITS: dict[str, Any] = {"seeds": 5, "first_seed": 80, **SETTINGS}
TOKENS, TESTED = 48, 600


def entrant(label: str, method: Method, *factors: float) -> Entrant:
    """The method at the rate that `tune` gives it, times each of the factors."""
    return Entrant(label, method, tuple(factor * Recipe().rate_of(method) for factor in factors or (1.0,)))


LORA, NTK = Method("lora", rank=8), Method("ntk")
BOTH = Method("ntk+lora", rank=4, ntk=NTKConfig(size=8))
QUARTER = Method("ntk", ntk=NTKConfig(size=4))
PROBE = entrant("probe", Method("probe"))
SCREENED = (PROBE, entrant("lora r=8", LORA, 1, 4), entrant("ntk", NTK, 1, 4))
RIVALS = {
    "rslora": {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": True},
    "dora": {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_dora": True},
    "VeRA": {"peft_type": "VERA", "r": 256},
    "IA3": {"peft_type": "IA3"},
    "layer norms": {"peft_type": "LN_TUNING"},
}


@dataclass(frozen=True)
class Chosen:
    """How many times its default rate each method is trained at on a task."""

    lora: float
    ntk: float


CHOSEN = {
    "CounterFact relations": Chosen(lora=4, ntk=4),
    "digits": Chosen(lora=4, ntk=4),
    "CounterFact rarer answers": Chosen(lora=4, ntk=4),
}
"""The rates that `tune` takes by itself where the classifier is not sure.

On the relations the screen chose them and found signal; the digits and the rarer answers were not screened
before they were run.
"""


def core(chosen: Chosen) -> tuple[Entrant, ...]:
    """The methods that are compared; those made of a state have the state's rate."""
    states = {"ntk": NTK, "ntk, a quarter": QUARTER}
    trained = (entrant(label, method, chosen.ntk) for label, method in states.items())
    return (PROBE, entrant("lora r=8", LORA, chosen.lora), *trained)


def others(chosen: Chosen) -> tuple[Entrant, ...]:
    """Further configs of peft's at LoRA's rate, a state beside LoRA in one budget, the classifier alone."""
    found = [entrant(label, Method("peft", peft=given), chosen.lora) for label, given in RIVALS.items()]
    return (entrant("head", Method("head")), entrant("ntk+lora", BOTH, chosen.ntk), *found)


def texts(data: Path, folder: Path, size: int) -> dict[str, Trial]:
    """Every task of texts at this size, the shortest texts first."""
    glue = data / "superglue"
    pools: dict[str, tuple[Path, ...]] = {
        "CounterFact relations": (counterfact_relations(data, folder),),
        "CounterFact rarer answers": (counterfact_rarer_answers(data, folder),),
        "MATH subject": (math_subjects(data, folder),),
        "MATH level": (math_levels(data, folder),),
        "GSM8K steps": (gsm8k_steps(data, folder),),
        "BoolQ": (glue / "BoolQ/val.jsonl.gz",),
    }
    found = {
        name: Trial(f"{name} {size}", files, size, 100, TESTED, max_tokens=TOKENS)
        for name, files in pools.items()
    }
    if size <= 300:
        found["CB"] = Trial(f"CB {size}", both(glue / "CB"), 200, 10, 96, max_tokens=TOKENS)
    return found


def digits(data: Path, folder: Path, size: int) -> tuple[str, Trial]:
    """The ViT that was trained on the digits 0 to 4, and 5 to 9 to adapt it to."""
    images = drawn_digits(folder / "digits")
    model = pretrained_vit(images, folder / "vit-digits", 8, epochs=40)
    return model, Trial(f"digits {size}", (images / "adapt/train",), size, 100, 400, (images / "adapt/test",))


def cifar(data: Path, folder: Path, size: int) -> tuple[str, Trial]:
    """The ViT that was trained on five classes of CIFAR-10, and the other five to adapt it to."""
    images = unpacked(data / "cifar10/cifar10_jpeg_subset.zip", folder / "images")
    trial = Trial(f"CIFAR-10 {size}", (images / "adapt/train",), size, 100, TESTED, (images / "adapt/test",))
    return pretrained_vit(images, folder / "vit", 32), trial


IMAGES = {"digits": digits, "CIFAR-10": cifar}


def screen(data: Path, folder: Path) -> Comparison:
    """Every task of texts on a tuning split."""
    return Comparison(minilm(), SCREENED, tuple(texts(data, folder, 300).values()), TRAINING, **TUNING_SPLITS)


def screen_images(data: Path, folder: Path, name: str) -> Comparison:
    model, trial = IMAGES[name](data, folder, 300)
    return Comparison(model, SCREENED, (trial,), TRAINING, **TUNING_SPLITS)


def has_signal(accuracies: Mapping[str, float], guessing: float) -> bool:
    """Whether the probe is above guessing, and at least 3 points below the best."""
    probe = accuracies["probe"]
    return probe > guessing and max(accuracies.values()) - probe >= 0.03 - 1e-9


def guessing_rate(trial: Trial) -> float:
    """The share of the most frequent class on the tuning split."""
    targets = Counter(target for part in split_task(trial, 40) for target in _targets(part))
    return max(targets.values()) / targets.total()


def _targets(part: Any) -> list[int]:
    return list(part.targets) if isinstance(part, ImageTask) else [one.label for one in part.examples]


def screened(runs: Sequence[Run], trial: Trial) -> str | None:
    """What the screen says of a task; None where it has not been run whole."""
    here = [run for run in runs if run["task"] == trial.name]
    if len(here) < sum(len(one.rates) for one in SCREENED):
        return None
    best = {
        one.label: max(r["test"]["accuracy"] for r in here if r["entrant"] == one.label) for one in SCREENED
    }
    factors = {one.label: best_factor(here, one) for one in SCREENED[1:]}
    found = ", ".join(f"{label} {accuracy:.3f}" for label, accuracy in best.items())
    rates = ", ".join(f"{label} x {factor:g}" for label, factor in factors.items())
    signal = "signal" if has_signal(best, guessing_rate(trial)) else "no signal"
    return f"{trial.name}: {signal} (guessing {guessing_rate(trial):.3f}, {found}; rates {rates})"


def best_factor(runs: Sequence[Run], method: Entrant) -> float:
    """How many times its default the better rate of a method is on the tuning split, by accuracy, loss."""
    own = [run for run in runs if run["entrant"] == method.label]
    best = max(own, key=lambda run: (_accuracy(run), -run["test"]["loss"]))
    return best["rate"] / method.rates[0]


def _accuracy(run: Run) -> float:
    """On all rows of the tuning split that were not trained on."""
    return (100 * run["validation"]["accuracy"] + TESTED * run["test"]["accuracy"]) / (100 + TESTED)


def compared(data: Path, folder: Path, name: str, size: int) -> Comparison:
    """The methods on one task, on fresh splits."""
    return _on(data, folder, name, size, core(CHOSEN[name]))


def rivals(data: Path, folder: Path, name: str, size: int) -> Comparison:
    """Further methods on one task, on fewer of the same splits."""
    return replace(_on(data, folder, name, size, others(CHOSEN[name])), seeds=2)


def _on(data: Path, folder: Path, name: str, size: int, entrants: tuple[Entrant, ...]) -> Comparison:
    if name in IMAGES:
        model, trial = IMAGES[name](data, folder, size)
    else:
        model, trial = minilm(), texts(data, folder, size)[name]
    return Comparison(model, entrants, (trial,), TRAINING, **FRESH_SPLITS)


RECIPES: dict[str, Callable[[Path, Path], Comparison]] = {
    "screen": screen,
    **{f"screen-{name}": partial(screen_images, name=name) for name in IMAGES},
    **{f"{name}-{size}": partial(compared, name=name, size=size) for name in CHOSEN for size in (300, 1000)},
    **{f"{name}-rivals": partial(rivals, name=name, size=300) for name in CHOSEN},
}


def main(folder: Path) -> None:
    data = Path(os.environ["ATTANGENT_DATA"])
    for part in ("screen", *(f"screen-{name}" for name in IMAGES)):
        runs = read_runs(folder / part / "runs.jsonl")
        trials = RECIPES[part](data, folder).trials if runs else ()
        print(*filter(None, (screened(runs, trial) for trial in trials)), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
