"""What `--method auto` takes: `python -m benchmarks.suites.tuning.auto_choices FOLDER [TASK ...]`.

On the splits with 300 examples that `benchmarks.suites.tuning.accuracy` has run into FOLDER, each candidate
is trained on four fifths of the rows as `auto` does it, and the choice is kept in FOLDER/auto.jsonl;
finished ones are not repeated. `auto` then trains what it took on all rows, which is the run that is there
already.
"""

import json
import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attangent.papers.p1_prefix.head_to_head.run import prepare_trial
from attangent.papers.p1_prefix.head_to_head.settings import MethodComparison
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.selection import choose_method
from benchmarks.suites.tuning.comparison import read_runs
from benchmarks.suites.tuning.recipes import CHOSEN, RECIPES
from benchmarks.suites.tuning.verdict import RIVAL, accuracies, by_kind, differences, verdict

Accuracies = dict[tuple[str, str, int], float]


def labels_of(task: str, found: Accuracies) -> dict[str, str]:
    """The entrants that stand for the candidates: on images the LoRA that is tried is rsLoRA."""
    image = any(key[:2] == (task, "rslora") for key in found)
    return {"ntk+lora": "ntk+lora", "lora": "rslora" if image else "lora r=8"}


def choice(comparison: MethodComparison, seed: int) -> dict[str, Any]:
    """The errors of the candidates on the rows kept apart, and which of them is taken."""
    (trial,) = comparison.trials
    prepared = prepare_trial(comparison, trial, seed)
    task = PreparedTask(prepared.model, prepared.kind, prepared.train, prepared.collate)
    with tempfile.TemporaryDirectory() as folder:
        own = replace(comparison.training, seed=seed)
        trial_run, errors = choose_method(task, Method("auto"), own, "closed-form", Path(folder))
    return {"task": trial.name, "seed": seed, "taken": trial_run.started.method.name, "errors": errors}


def table(choices: list[dict[str, Any]], found: Accuracies) -> str:
    """Mean accuracies on the splits of each task: ntk+lora, LoRA, what `auto` took, the better of the two."""
    lines = ["| task | ntk+lora | lora | auto | the better one | LoRA taken |", "|---|---|---|---|---|---|"]
    for task in dict.fromkeys(one["task"] for one in choices):
        labels = labels_of(task, found)
        own = [one for one in choices if one["task"] == task and (task, labels["lora"], one["seed"]) in found]
        pairs = [{name: found[task, label, one["seed"]] for name, label in labels.items()} for one in own]
        taken = [pair[one["taken"]] for pair, one in zip(pairs, own, strict=True)]
        values = [[pair["ntk+lora"] for pair in pairs], [pair["lora"] for pair in pairs], taken]
        values.append([max(pair.values()) for pair in pairs])
        count = sum(one["taken"] == "lora" for one in own)
        cells = " | ".join(f"{statistics.fmean(some):.3f}" for some in values)
        lines.append(f"| {task} | {cells} | {count} of {len(own)} |")
    return "\n".join(lines)


def against_lora(choices: list[dict[str, Any]], found: Accuracies) -> str:
    """What `auto` took less LoRA of rank 8, paired by split."""
    taken = {
        (one["task"], "auto", one["seed"]): found[one["task"], label, one["seed"]]
        for one in choices
        if (one["task"], label := labels_of(one["task"], found)[one["taken"]], one["seed"]) in found
    }
    gaps = differences({**found, **taken}, "auto", RIVAL)
    by_task = ", ".join(f"{task} {gap}" for task, gap in gaps.items())
    return f"auto less {RIVAL}: {verdict(gaps)} ({by_task}; {by_kind(gaps)})" if gaps else ""


def main(folder: Path, tasks: list[str]) -> None:
    torch.set_num_threads(1)
    path = folder / "auto.jsonl"
    choices = read_runs(path)
    found: Accuracies = {}
    for name in tasks or CHOSEN:
        part = f"{name}-300"
        comparison = RECIPES[part](Path(os.environ["ATTANGENT_DATA"]), folder)
        found |= accuracies(read_runs(folder / part / "runs.jsonl"))
        for seed in comparison.drawn:
            if not any((one["task"], one["seed"]) == (comparison.trials[0].name, seed) for one in choices):
                choices.append(choice(comparison, seed))
                path.write_text("".join(json.dumps(one) + "\n" for one in choices))
                print(json.dumps(choices[-1]), flush=True)
    print(table(choices, found), against_lora(choices, found), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
