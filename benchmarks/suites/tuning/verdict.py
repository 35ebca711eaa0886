"""What the runs say of the bars, in words: `python -m benchmarks.suites.tuning.verdict [FOLDER [PART ...]]`.

Reads FOLDER/PART/runs.jsonl as `benchmarks.suites.tuning.accuracy` writes them, and puts them into
tuning_runs.jsonl beside this file, which is what is read without a folder; trains nothing. Differences are
paired by split.
"""

import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attangent._core.files import write_whole
from attangent.papers.p1_prefix.head_to_head.run import Run
from benchmarks.harness.folders import RESULTS
from benchmarks.suites.tuning.comparison import read_runs
from benchmarks.suites.tuning.recipes import IMAGES

DEFAULT = "tune's default"
OURS, RIVAL, SMALL = (DEFAULT, "ntk+lora", "ntk", "lora r=8"), "lora r=8", "ntk, a quarter"

KEPT = RESULTS / "tuning_runs.jsonl"
_FIELDS = ("task", "entrant", "seed", "test", "seconds", "learning_rate", "parameters")


@dataclass(frozen=True)
class Gap:
    """The mean of paired differences of accuracy and its standard error, in points."""

    mean: float
    error: float
    splits: int

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} ± {100 * self.error:.1f}"


def accuracies(runs: Sequence[Run]) -> dict[tuple[str, str, int], float]:
    """Accuracy on test rows by task, entrant and split."""
    return {(run["task"], run["entrant"], run["seed"]): run["test"]["accuracy"] for run in runs}


def with_default(found: dict[tuple[str, str, int], float]) -> dict[tuple[str, str, int], float]:
    """The same and what `tune` takes by itself: rsLoRA on images, ntk on texts."""
    images = {task for task, _, _ in found if is_image(task)}
    taken = {
        (task, DEFAULT, split): accuracy
        for (task, entrant, split), accuracy in found.items()
        if entrant == ("rslora" if task in images else "ntk")
    }
    return {**found, **taken}


def gap(found: dict[tuple[str, str, int], float], task: str, first: str, second: str) -> Gap | None:
    """The first less the second on the splits of the task that both have; None below two of them."""
    seeds = sorted({s for t, e, s in found if t == task and e == first and (t, second, s) in found})
    values = [found[task, first, seed] - found[task, second, seed] for seed in seeds]
    if len(values) < 2:
        return None
    return Gap(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values))


def over_tasks(gaps: Sequence[Gap]) -> Gap:
    """The mean over tasks; its error is the root of the summed squared errors over their number."""
    error = math.hypot(*(one.error for one in gaps)) / len(gaps)
    return Gap(statistics.fmean(one.mean for one in gaps), error, min(one.splits for one in gaps))


def verdict(gaps: dict[str, Gap]) -> str:
    """The bar: the mean above 0 by more than two standard errors, no task behind by more than one."""
    whole = over_tasks(list(gaps.values()))
    ahead = whole.mean > 2 * whole.error
    behind = [task for task, one in gaps.items() if one.mean < -one.error]
    said = f"mean over {len(gaps)} tasks {whole}: {'ahead' if ahead else 'not ahead'} by two standard errors"
    return f"{said}; behind by more than one: {', '.join(behind) or 'no task'}"


def is_image(task: str) -> bool:
    return task.rpartition(" ")[0] in IMAGES


def by_kind(gaps: dict[str, Gap]) -> str:
    """The means over the tasks of texts and over those of images."""
    kinds = {"texts": [t for t in gaps if not is_image(t)], "images": [t for t in gaps if is_image(t)]}
    return ", ".join(f"{kind} {over_tasks([gaps[t] for t in own])}" for kind, own in kinds.items() if own)


def table(found: dict[tuple[str, str, int], float]) -> str:
    """Mean and standard deviation over splits, a line for each task and a column for each entrant."""
    tasks = list(dict.fromkeys(task for task, _, _ in found))
    labels = list(dict.fromkeys(entrant for _, entrant, _ in found))
    lines = ["| task | " + " | ".join(labels) + " | splits |", "|---|" + "---|" * (len(labels) + 1)]
    for task in tasks:
        own = {label: [a for (t, e, _), a in found.items() if (t, e) == (task, label)] for label in labels}
        cells = [_cell(own[label]) for label in labels]
        lines.append(f"| {task} | " + " | ".join(cells) + f" | {min(len(v) for v in own.values() if v)} |")
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}" if values else ""


def differences(found: dict[tuple[str, str, int], float], first: str, second: str) -> dict[str, Gap]:
    tasks = dict.fromkeys(task for task, _, _ in found)
    gaps = {task: gap(found, task, first, second) for task in tasks}
    return {task: one for task, one in gaps.items() if one is not None}


def report(runs: Sequence[Run]) -> str:
    """The table, differences to each rival by number of examples, and the verdict on the bars."""
    found = with_default(accuracies(runs))
    lines = [table(found), ""]
    for size in sorted({task.rpartition(" ")[2] for task, _, _ in found}, key=int):
        own = {key: value for key, value in found.items() if key[0].endswith(f" {size}")}
        lines += [f"{size} examples, {line}" for first in OURS for line in _against_rivals(own, first)]
        level = differences(own, SMALL, RIVAL)
        equal = [task for task, one in level.items() if one.mean >= -one.error]
        if level:
            many = f"{len(equal)} of {len(level)}"
            lines.append(f"{size} examples, a quarter of LoRA's numbers is as good on {many}")
    return "\n".join(lines)


def _against_rivals(found: dict[tuple[str, str, int], float], first: str) -> list[str]:
    """A line for each rival with which the method shares splits."""
    rivals = dict.fromkeys(entrant for _, entrant, _ in found if entrant != first)
    gaps = {rival: differences(found, first, rival) for rival in rivals}
    return [
        f"{first} less {rival}: {verdict(own)} ({', '.join(f'{task} {one}' for task, one in own.items())}; "
        f"{by_kind(own)})"
        for rival, own in gaps.items()
        if own
    ]


def reported(folder: Path) -> list[str]:
    """The parts below the folder that have runs, without those for choosing."""
    found = sorted(path.parent.name for path in folder.glob("*/runs.jsonl"))
    return [part for part in found if not part.startswith(("screen", "rates"))]


def kept_with(runs: Sequence[Run], kept: Path) -> list[Run]:
    """The runs of the file and these, which take the place of older ones; the file then has them all."""
    short = [{name: run[name] for name in _FIELDS if name in run} for run in [*read_runs(kept), *runs]]
    whole = list({(run["task"], run["entrant"], run["seed"]): run for run in short}.values())
    write_whole(kept, "".join(json.dumps(run) + "\n" for run in whole))
    return whole


def main(folder: Path | None = None, parts: Sequence[str] = ()) -> None:
    if folder is None:
        print(report(read_runs(KEPT)))
        return
    runs = [run for part in parts or reported(folder) for run in read_runs(folder / part / "runs.jsonl")]
    kept_with(runs, KEPT)
    print(report(runs))


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:2]), parts=sys.argv[2:])
