"""Compare tuning methods on the same splits: run what is missing, choose rates, summarise.

Every run is one line of `runs.jsonl`; an interrupted comparison resumes where it stopped.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attangent._core.files import only_writer, real_folder, write_whole
from attangent.papers.p1_prefix.head_to_head.run import Run, one_run, prepare_trial
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit


def compare(
    comparison: MethodComparison, out: Path, report: Callable[[Run], None] = lambda run: None
) -> list[Run]:
    """Return all runs, those of `out`/runs.jsonl and new ones, which are appended there.

    The learning rate of an entrant on a task is the one with the best validation accuracy on the first seed's
    split; the other seeds use it.
    """
    real_folder(out)
    with only_writer(out, "compare"):
        runs = read_runs(out / "runs.jsonl")
        for seed in comparison.drawn:
            for trial in comparison.trials:
                for run in _missing_runs(comparison, trial, seed, runs):
                    runs.append(run)
                    write_whole(out / "runs.jsonl", "".join(json.dumps(one) + "\n" for one in runs))
                    report(run)
    return [run for run in runs if _belongs(run, comparison)]


def read_runs(path: Path) -> list[Run]:
    """Read the runs of a file; an incomplete last line is left out."""
    runs = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            runs.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return runs


def chosen_rate(entrant: Entrant, trial: TaskSplit, runs: list[Run], first_seed: int = 0) -> float | None:
    """Return the entrant's best rate on the first seed's validation rows; None if some are not run."""
    scores = {run["rate"]: run["validation"] for run in _of(runs, entrant, trial, first_seed)}
    if not set(entrant.rates) <= set(scores):
        return None
    return max(entrant.rates, key=lambda rate: (scores[rate]["accuracy"], -scores[rate]["loss"]))


def chosen_runs(comparison: MethodComparison, runs: list[Run]) -> list[Run]:
    """Return the runs at the chosen rates: one per finished task, entrant and seed."""
    chosen = []
    for trial in comparison.trials:
        for entrant in comparison.entrants:
            rate = chosen_rate(entrant, trial, runs, comparison.first_seed)
            for seed in comparison.drawn if rate is not None else ():
                chosen += [run for run in _of(runs, entrant, trial, seed) if run["rate"] == rate][:1]
    return chosen


def _of(runs: list[Run], entrant: Entrant, trial: TaskSplit, seed: int) -> list[Run]:
    key = (trial.name, entrant.label, seed)
    return [run for run in runs if (run["task"], run["entrant"], run["seed"]) == key]


def _belongs(run: Run, comparison: MethodComparison) -> bool:
    tasks = {trial.name for trial in comparison.trials}
    labels = {entrant.label for entrant in comparison.entrants}
    return run["task"] in tasks and run["entrant"] in labels and run["seed"] in comparison.drawn


def _missing_runs(
    comparison: MethodComparison, trial: TaskSplit, seed: int, runs: list[Run]
) -> Iterator[Run]:
    done = {(run["entrant"], run["rate"]) for run in runs if (run["task"], run["seed"]) == (trial.name, seed)}
    prepared = None
    first = comparison.first_seed
    for entrant in comparison.entrants:
        rates = entrant.rates if seed == first else (chosen_rate(entrant, trial, runs, first),)
        for rate in rates:
            if rate is not None and (entrant.label, rate) not in done:
                prepared = prepared or prepare_trial(comparison, trial, seed)
                yield one_run(
                    trial.name, prepared, entrant, rate, comparison.training, seed, comparison.start
                )


def summary(comparison: MethodComparison, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one row per task and entrant that has runs, over its seeds at the chosen learning rate."""
    chosen = chosen_runs(comparison, list(runs))
    rows = []
    for trial in comparison.trials:
        for entrant in comparison.entrants:
            members = [run for run in chosen if (run["task"], run["entrant"]) == (trial.name, entrant.label)]
            if members:
                rows.append({"task": trial.name, "entrant": entrant.label, **_row(members)})
    return rows


def _row(runs: list[Run]) -> dict[str, Any]:
    accuracies = [run["test"]["accuracy"] for run in runs]
    return {
        "accuracy": statistics.fmean(accuracies),
        "sd": statistics.stdev(accuracies) if len(accuracies) > 1 else math.nan,
        "seeds": len(runs),
        "rate": runs[0]["rate"],
        "parameters": runs[0]["parameters"],
        "seconds": statistics.fmean(run["seconds"] for run in runs),
        "peak_megabytes": statistics.fmean(run["peak_megabytes"] for run in runs),
    }


def paired(
    comparison: MethodComparison, runs: Sequence[Run], first: str, second: str, tasks: Sequence[str]
) -> dict[str, float]:
    """Return the first entrant's accuracy less the second's, over the seeds both have finished on each task.

    `error` is the standard error of the mean over tasks: the root of the summed squared errors of the tasks
    divided by their number.
    """
    chosen = chosen_runs(comparison, list(runs))
    means = []
    errors = []
    for task in tasks:
        by = {(run["entrant"], run["seed"]): run["test"]["accuracy"] for run in chosen if run["task"] == task}
        gaps = [
            by[first, s] - by[second, s] for s in comparison.drawn if {(first, s), (second, s)} <= set(by)
        ]
        if len(gaps) > 1:
            means.append(statistics.fmean(gaps))
            errors.append(statistics.stdev(gaps) / math.sqrt(len(gaps)))
    if not means:
        return {"gap": math.nan, "error": math.nan}
    return {"gap": statistics.fmean(means), "error": math.hypot(*errors) / len(errors)}


def table_text(comparison: MethodComparison, runs: Sequence[Run]) -> str:
    """Return the summary as a Markdown table."""
    lines = [
        "| task | method | accuracy | seeds | rate | parameters | seconds | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in summary(comparison, runs):
        spread = "" if math.isnan(row["sd"]) else f" ± {row['sd']:.3f}"
        lines.append(
            f"| {row['task']} | {row['entrant']} | {row['accuracy']:.3f}{spread} | {row['seeds']} "
            f"| {row['rate']:g} | {row['parameters']:,.0f} | {row['seconds']:.1f} "
            f"| {row['peak_megabytes']:.0f} |"
        )
    return "\n".join(lines)
