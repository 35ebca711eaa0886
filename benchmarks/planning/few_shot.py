"""Few examples: kernel regression in closed form beside tuning, on equal rows.

`python -m benchmarks.planning.few_shot FOLDER [building|reporting] [TASK ...]`; nothing is done twice.
"""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from attangent._files import write_json
from attangent.tuning.finetune import Tuning, finetune
from attangent.tuning.methods import Method
from attangent.tuning.planning import KernelTuned
from benchmarks.accuracy_data import minilm
from benchmarks.planning.tasks import TOKENS, Setting

SIZES = (50, 100, 300)
TASKS = {"building": ("account",), "reporting": ("bank", "hotel", "math-subjects", "relations")}
RIVALS = ("probe", "head", "ntk", "lora")
HELD = 200


def files(task: str, size: int, folder: Path) -> tuple[Path, Path]:
    """The first `size` of 300 rows to train on, and the first 200 to score on."""
    train, held = Setting(task).files(folder / "data")
    found = folder / "data" / f"{task}-first-{size}.csv", folder / "data" / f"{task}-held.csv"
    for source, path, count in zip((train, held), found, (size, HELD), strict=True):
        with source.open(newline="") as file:
            rows = list(csv.reader(file))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows[: count + 1])
    return found


def by_kernel(train: Path, held: Path) -> dict[str, Any]:
    (texts, labels), (others, wanted) = _columns(train), _columns(held)
    began = time.process_time()
    model = KernelTuned(minilm(), max_tokens=TOKENS + 2).fit(texts, labels)
    right = [said == label for said, label in zip(model.predict(others), wanted, strict=True)]
    seconds = time.process_time() - began
    return {"accuracy": sum(right) / len(right), "cpu_seconds": seconds, "share": model.share_}


def by_tuning(train: Path, held: Path, method: str, place: Path) -> dict[str, Any]:
    began = time.process_time()
    found = finetune(Tuning(minilm(), train, held, max_tokens=TOKENS, method=Method(method)), place)[0]
    return {"accuracy": found["eval_accuracy"], "cpu_seconds": time.process_time() - began}


def _columns(path: Path) -> tuple[list[str], list[str]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def table(folder: Path, tasks: tuple[str, ...]) -> str:
    """Accuracy by task and size, one column for each method."""
    names = ("kernel", *RIVALS)
    lines = ["| task | rows | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for task in tasks:
        for size in SIZES:
            found = {name: folder / "few" / f"{task}-{size}-{name}.json" for name in names}
            if all(path.is_file() for path in found.values()):
                cells = [f"{json.loads(path.read_text())['accuracy']:.3f}" for path in found.values()]
                lines.append(f"| {task} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(folder: Path, group: str = "reporting", *names: str) -> None:
    torch.set_num_threads(1)
    for size in SIZES:
        for task in names or TASKS[group]:
            train, held = files(task, size, folder)
            for name in ("kernel", *RIVALS):
                path = folder / "few" / f"{task}-{size}-{name}.json"
                if path.is_file():
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                place = folder / "few" / f"{task}-{size}-{name}"
                found = by_kernel(train, held) if name == "kernel" else by_tuning(train, held, name, place)
                write_json(path, found)
                print(path.stem, found, flush=True)
    print(table(folder, TASKS[group]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
