"""The table of a comparison: mean and spread over seeds, parameters, seconds, memory."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from attangent.papers.p1_prefix.head_to_head.run import Run, chosen_runs
from attangent.papers.p1_prefix.head_to_head.settings import Comparison


def summary(comparison: Comparison, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row for each task and entrant that has runs, over its seeds at the chosen learning rate."""
    chosen = chosen_runs(comparison, list(runs))
    rows = []
    for trial in comparison.trials:
        for entrant in comparison.entrants:
            own = [run for run in chosen if (run["task"], run["entrant"]) == (trial.name, entrant.label)]
            if own:
                rows.append({"task": trial.name, "entrant": entrant.label, **_row(own)})
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
    comparison: Comparison, runs: Sequence[Run], first: str, second: str, tasks: Sequence[str]
) -> dict[str, float]:
    """The first entrant's accuracy less the second's, over the seeds both have done on each of the tasks.

    `error` is the standard error of the mean over tasks: the root of the summed squared errors of the tasks
    divided by their number.
    """
    chosen = chosen_runs(comparison, list(runs))
    means, errors = [], []
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


def table_text(comparison: Comparison, runs: Sequence[Run]) -> str:
    """The summary as a Markdown table."""
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
