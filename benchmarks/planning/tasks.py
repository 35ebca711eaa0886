"""The tasks that planning is measured on: files to train on and to score on, made from what is at hand."""

import csv
import os
import random
from dataclasses import dataclass
from pathlib import Path

from attangent.tuning.training import Training
from benchmarks.accuracy_data import (
    counterfact_eight_answers,
    counterfact_languages,
    counterfact_relations,
    gsm8k_steps,
    math_levels,
    math_subjects,
)
from benchmarks.newcomers_data import write_task

HELD = 300
TOKENS = 24
_MADE = {
    "math-subjects": math_subjects,
    "gsm8k-steps": gsm8k_steps,
    "relations": counterfact_relations,
    "math-levels": math_levels,
    "rarer-answers": counterfact_eight_answers,
    "languages": counterfact_languages,
}


@dataclass(frozen=True)
class Setting:
    """A task and how many of its rows are trained on: 152 steps of 8 rows for 300 (four epochs, as `tune`
    has it by default), 300 steps for 1000."""

    task: str
    rows: int = 300

    @property
    def name(self) -> str:
        return f"{self.task}-{self.rows}"

    @property
    def training(self) -> Training:
        return Training(epochs=4.0 if self.rows <= 300 else 300 * 8 / self.rows, batch=8)

    def files(self, folder: Path, seed: int = 0) -> tuple[Path, Path]:
        """The rows to train on and the rows to score on, as .csv files with the columns text and label."""
        if self.task not in _MADE:
            return write_task(self.task, folder, seed, self.rows, HELD)
        whole = _MADE[self.task](Path(os.environ["ATTANGENT_DATA"]), folder)
        return _parted(whole, folder / self.name, self.rows, seed)


BUILDING = (
    Setting("travel"),
    Setting("math-subjects"),
    Setting("gsm8k-steps"),
    Setting("relations"),
    Setting("hotel"),
    Setting("math-subjects", 1000),
    Setting("math-levels"),
    Setting("delivery"),
)
"""What rules were made on; no reported figure comes from them."""
REPORTING = (
    Setting("bank"),
    Setting("mobile"),
    Setting("software"),
    Setting("rarer-answers"),
    Setting("languages"),
    Setting("rarer-answers", 1000),
)


def _parted(whole: Path, place: Path, rows: int, seed: int) -> tuple[Path, Path]:
    with whole.open(newline="") as file:
        header, *found = list(csv.reader(file))
    random.Random(f"{place.name}/{seed}").shuffle(found)
    files = place.with_name(f"{place.name}-train.csv"), place.with_name(f"{place.name}-eval.csv")
    for path, part in zip(files, (found[:rows], found[rows : rows + HELD]), strict=True):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *part])
    return files
