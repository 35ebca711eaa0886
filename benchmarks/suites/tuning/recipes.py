"""The grid of the comparison with the recipe of `tune`: tasks, entrants, splits.

Every method is run as `tune` runs it by default: its own start, rate and length. `screen-TASK` runs a task
on a tuning split with 300 examples. A task has signal where the probe is above guessing and at least 3
points below the best. `python -m benchmarks.suites.tuning.recipes FOLDER` prints what came out, and
`CHOSEN` holds the tasks with signal. The other parts, one for each task and number of examples, report on
splits that the screens have not drawn.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attangent.adapters.config import NTKConfig
from attangent.papers.p1_prefix.head_to_head.run import Run, split_task
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit
from attangent.tuning.data.images import ImageTask
from attangent.tuning.methods import Method, default_settings
from attangent.tuning.request import TrainingSettings
from benchmarks.suites.tuning.comparison import read_runs
from benchmarks.suites.tuning.data import (
    PRETRAINED_TINY,
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

TRAINING = TrainingSettings(epochs=4, batch=16, by_length=True)
SETTINGS: dict[str, Any] = {"pooling": "declared", "start": "closed-form"}
TUNING_SPLITS: dict[str, Any] = {"seeds": 1, "first_seed": 40, **SETTINGS}
FIRST = 160
"""The first of the splits that are reported; those before were drawn for earlier comparisons."""
SPLITS = {100: 5, 300: 5, 1000: 3}
"""How many fresh splits each number of examples is run on."""
IMAGE_SPLITS = 10
"""The same for 300 images or fewer, whose runs are short."""
TOKENS, TESTED, UNUSED = 48, 600, 10
"""Tokens of a text, rows to test on, and rows kept apart, on which nothing is chosen here."""


class AsTuned(Entrant):
    """A method at the rate that `tune` takes by itself, which depends on how sure the first classifier is."""

    def at(self, rate: float) -> Method:
        return self.method


PROBE = AsTuned("probe", Method("probe"))
LORA = AsTuned("lora r=8", Method("lora", rank=8))
NTK = AsTuned("ntk", Method("ntk"))
QUARTER = AsTuned("ntk, a quarter", Method("ntk", ntk=NTKConfig(size=4)))
BOTH = AsTuned("ntk+lora", Method.from_dict({"name": "ntk+lora"}))
SCREENED = (PROBE, LORA, NTK)
CORE = (PROBE, LORA, BOTH, NTK)
"""The methods that are compared; all have as many numbers as LoRA of rank 8, within 5 %."""
IMAGE_DEFAULT = AsTuned("rslora", Method.from_dict(default_settings("image-classification")))
"""What `tune` takes for images."""
LINEAR = {
    "q": r"attention\.self\.query|q_proj",
    "k": r"attention\.self\.key|k_proj",
    "v": r"attention\.self\.value|v_proj",
    "o": r"attention\.output\.dense|o_proj",
    "up": r"intermediate\.dense|fc1",
    "down": r"layer\.\d+\.output\.dense|fc2",
}
"""The linear layers of MiniLM's and of the ViT's blocks."""


def lora_on(ranks: Mapping[str, int], scale: float = 2.0, **settings: Any) -> Method:
    """LoRA with these ranks on these of the `LINEAR` layers, its matrices multiplied by `scale`."""
    patterns = {f"({LINEAR[layer]})": rank for layer, rank in ranks.items()}
    given = {
        "peft_type": "LORA",
        "target_modules": f".*\\.({'|'.join(patterns)})",
        "rank_pattern": patterns,
        "alpha_pattern": {pattern: scale * rank for pattern, rank in patterns.items()},
    }
    return Method("peft", peft={**given, **settings})


ALL_LINEAR = {
    "texts": {"q": 1, "k": 1, "v": 2, "o": 2, "up": 2, "down": 2},
    "images": {"q": 2, "k": 2, "v": 3, "o": 3, "up": 2, "down": 2},
}
"""Ranks with which LoRA on every linear layer has as many numbers as LoRA of rank 8 on queries and values."""
RIVALS: dict[str, Mapping[str, Any]] = {
    "rslora": {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": True},
    "dora": {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_dora": True},
    "VeRA": {"peft_type": "VERA", "r": 256},
    "IA3": {
        "peft_type": "IA3",
        "target_modules": ["key", "value", "output.dense", "k_proj", "v_proj", "fc2"],
        "feedforward_modules": ["output.dense", "fc2"],
    },
    "layer norms": {
        "peft_type": "LN_TUNING",
        "target_modules": ["LayerNorm", "layernorm_before", "layernorm_after", "layernorm"],
    },
}
RSLORA, *OTHER_CONFIGS = (AsTuned(label, Method("peft", peft=given)) for label, given in RIVALS.items())
OTHERS = (AsTuned("head", Method("head")), RSLORA, *OTHER_CONFIGS)
"""The classifier alone and further configs of peft's."""
CHOSEN = (
    *("CounterFact relations", "CounterFact rarer answers", "MATH level", "GSM8K steps"),
    *("digits", "Tiny ImageNet"),
)
"""Tasks with signal."""


def texts(data: Path, folder: Path, size: int) -> dict[str, TaskSplit]:
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
    trial = partial(TaskSplit, train=size, validation=UNUSED, test=TESTED, max_tokens=TOKENS)
    found = {name: trial(f"{name} {size}", files) for name, files in pools.items()}
    if size <= 300:
        found["CB"] = TaskSplit(
            f"CB {size}", both(glue / "CB"), min(size, 200), UNUSED, 96, max_tokens=TOKENS
        )
    return found


TEXTS = (
    "CounterFact relations",
    "CounterFact rarer answers",
    "MATH subject",
    "MATH level",
    "GSM8K steps",
    "CB",
    "BoolQ",
)


def digits(data: Path, folder: Path, size: int) -> tuple[str, TaskSplit]:
    """The ViT that was trained on the digits 0 to 4, and 5 to 9 to adapt it to."""
    images = drawn_digits(folder / "digits")
    model = pretrained_vit(images, folder / "vit-digits", 8, epochs=40)
    return model, TaskSplit(
        f"digits {size}", (images / "adapt/train",), size, UNUSED, 400, (images / "adapt/test",)
    )


def cifar(data: Path, folder: Path, size: int) -> tuple[str, TaskSplit]:
    """The ViT that was trained on five classes of CIFAR-10, and the other five to adapt it to."""
    images = unpacked(data / "cifar10/cifar10_jpeg_subset.zip", folder / "images")
    trial = TaskSplit(
        f"CIFAR-10 {size}", (images / "adapt/train",), size, UNUSED, TESTED, (images / "adapt/test",)
    )
    return pretrained_vit(images, folder / "vit", 32), trial


def tiny_imagenet(
    data: Path, folder: Path, size: int, place: str = "tiny", pretrained: Sequence[str] = PRETRAINED_TINY
) -> tuple[str, TaskSplit]:
    """The ViT that was trained on ten classes of Tiny ImageNet, and ten others to adapt it to."""
    archive = data / "tiny_imagenet/tiny_imagenet_20c_subset.zip"
    images = unpacked(archive, folder / place, pretrained)
    files = (images / "adapt/train",)
    trial = TaskSplit(f"Tiny ImageNet {size}", files, size, UNUSED, 500, (images / "adapt/test",))
    return pretrained_vit(images, folder / f"vit-{place}", 32), trial


IMAGES = {"digits": digits, "CIFAR-10": cifar, "Tiny ImageNet": tiny_imagenet}
LARGEST = {"digits": 300, "CB": 300}
"""The largest number of examples where there are not enough for all."""


def screen(data: Path, folder: Path, name: str) -> MethodComparison:
    """One task on a tuning split."""
    model, trial = task_of(data, folder, name, 300)
    return MethodComparison(model, SCREENED, (trial,), TRAINING, **TUNING_SPLITS)


def has_signal(accuracies: Mapping[str, float], guessing: float) -> bool:
    """Whether the probe is above guessing, and at least 3 points below the best."""
    probe = accuracies["probe"]
    return probe > guessing and max(accuracies.values()) - probe >= 0.03 - 1e-9


def guessing_rate(trial: TaskSplit) -> float:
    """The share of the most frequent class on the tuning split."""
    targets = Counter(target for part in split_task(trial, 40) for target in _targets(part))
    return max(targets.values()) / targets.total()


def _targets(part: Any) -> list[int]:
    return list(part.targets) if isinstance(part, ImageTask) else [one.label for one in part.examples]


def screened(runs: Sequence[Run], trial: TaskSplit) -> str | None:
    """What the screen says of a task; None where it has not been run whole."""
    here = [run for run in runs if run["task"] == trial.name]
    if len(here) < sum(len(one.rates) for one in SCREENED):
        return None
    best = {
        one.label: max(r["test"]["accuracy"] for r in here if r["entrant"] == one.label) for one in SCREENED
    }
    found = ", ".join(f"{label} {accuracy:.3f}" for label, accuracy in best.items())
    signal = "signal" if has_signal(best, guessing_rate(trial)) else "no signal"
    return f"{trial.name}: {signal} (guessing {guessing_rate(trial):.3f}, {found})"


def compared(data: Path, folder: Path, name: str, size: int) -> MethodComparison:
    """The methods of one size on one task, on fresh splits."""
    entrants = (*CORE, IMAGE_DEFAULT) if name in IMAGES else CORE
    return _on(data, folder, name, size, entrants, splits_of(name, size))


def splits_of(name: str, size: int) -> int:
    """How many fresh splits the task is run on."""
    return IMAGE_SPLITS if name in IMAGES and size <= 300 else SPLITS[size]


def quarter(data: Path, folder: Path, name: str) -> MethodComparison:
    """A quarter of a state, on five of the splits."""
    return _on(data, folder, name, 300, (QUARTER,), 5)


def stronger(data: Path, folder: Path, name: str) -> MethodComparison:
    """Forms of LoRA with its numbers that may do better."""
    entrants = (everywhere(name),) if name in IMAGES else (RSLORA, everywhere(name))
    return _on(data, folder, name, 300, entrants, splits_of(name, 300))


def everywhere(name: str) -> Entrant:
    """LoRA on every linear layer, with the numbers of LoRA of rank 8."""
    return AsTuned("lora everywhere", lora_on(ALL_LINEAR["images" if name in IMAGES else "texts"]))


def rivals(data: Path, folder: Path, name: str) -> MethodComparison:
    """Further methods on one task, on two of the same splits."""
    return _on(data, folder, name, 300, OTHERS, 2)


def _on(
    data: Path,
    folder: Path,
    name: str,
    size: int,
    entrants: tuple[Entrant, ...],
    splits: int,
) -> MethodComparison:
    model, trial = task_of(data, folder, name, size)
    return MethodComparison(model, entrants, (trial,), TRAINING, seeds=splits, first_seed=FIRST, **SETTINGS)


def task_of(data: Path, folder: Path, name: str, size: int) -> tuple[str, TaskSplit]:
    """A model and a task with this number of examples."""
    return IMAGES[name](data, folder, size) if name in IMAGES else (minilm(), texts(data, folder, size)[name])


RECIPES: dict[str, Callable[[Path, Path], MethodComparison]] = {
    **{f"screen-{name}": partial(screen, name=name) for name in (*TEXTS, *IMAGES)},
    **{
        f"{name}-{size}": partial(compared, name=name, size=size)
        for name in CHOSEN
        for size in SPLITS
        if size <= LARGEST.get(name, size)
    },
    **{f"{name}-quarter": partial(quarter, name=name) for name in CHOSEN},
    **{f"{name}-stronger": partial(stronger, name=name) for name in CHOSEN},
    **{f"{name}-rivals": partial(rivals, name=name) for name in CHOSEN},
}


def main(folder: Path) -> None:
    data = Path(os.environ["ATTANGENT_DATA"])
    for name in (*TEXTS, *IMAGES):
        runs = read_runs(folder / f"screen-{name}/runs.jsonl")
        said = screened(runs, task_of(data, folder, name, 300)[1]) if runs else None
        print(said or f"{name}: not screened")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
