"""Tune a model on files: read, encode, adapt, train, score, save. What `attangent tune` calls.

Runs unchanged on one process or under `torchrun` and `accelerate launch`, as transformers' Trainer does.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent._files import write_json
from attangent.tuning.preparing import prepare
from attangent.tuning.processes import is_first_process
from attangent.tuning.request import Tuning, settings_of
from attangent.tuning.training import Job, drop_checkpoints, score, train

__all__ = ["Tuning", "finetune"]


def finetune(
    tuning: Tuning, out: Path, report: Callable[[dict[str, Any]], None] = lambda metrics: None, seeds: int = 1
) -> list[dict[str, Any]]:
    """Tune with seeds s, s+1, ... (s that of the training) into `out`/seed-N; the metrics of each.

    A seed that is done is not computed again; one that was cut off goes on from its last checkpoint.
    """
    check_size("seeds", seeds)
    first = tuning.training.seed
    found = []
    for seed in range(first, first + seeds):
        own = replace(tuning, training=replace(tuning.training, seed=seed))
        found.append(_one(own, out / f"seed-{seed}"))
        report(found[-1])
    return found


def _one(tuning: Tuning, folder: Path) -> dict[str, Any]:
    settings = settings_of(tuning)
    done, described = folder / "metrics.json", folder / "settings.json"
    if described.is_file() and json.loads(described.read_text()) != settings:
        raise AttangentError(f"{folder} holds a run with other settings; give another folder or remove it")
    if done.is_file():
        return json.loads(done.read_text())
    prepared = prepare(tuning)
    folder.mkdir(parents=True, exist_ok=True)
    if is_first_process():
        write_json(described, settings)
    job = Job(prepared.model, tuning.kind, tuning.method.rate, prepared.train, prepared.collate, folder)
    trainer, numbers = train(job, tuning.training)
    metrics = {
        "seed": tuning.training.seed,
        "method": tuning.method.name,
        "learning_rate": tuning.method.rate,
        **{f"eval_{name}": value for name, value in score(trainer, prepared.evaluate, tuning.kind).items()},
        **numbers,
    }
    if trainer.is_world_process_zero():
        tuning.method.technique.save(prepared.model, folder, prepared.tokenizer)
        write_json(done, metrics)
        drop_checkpoints(folder)
    trainer.accelerator.wait_for_everyone()
    return metrics
