"""Runs that are made while planning, and kept, so that `tune --plan` need not make them again."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from attangent._checks import check_size
from attangent._files import real_folder
from attangent._settings import read_json
from attangent.tuning.finetune import finetune
from attangent.tuning.kinds import NEEDS
from attangent.tuning.methods import Method
from attangent.tuning.planning.plan import PlannedRun
from attangent.tuning.request import Tuning, differences, settings_of


@dataclass(frozen=True)
class Trials:
    """At most so many runs, one for a method, each in its own folder below `folder`."""

    most: int
    folder: Path

    def __post_init__(self) -> None:
        check_size("most", self.most, least=0)

    def made(
        self, tuning: Tuning, method: Method, run: PlannedRun, report: Callable[[str], None]
    ) -> PlannedRun:
        """The planned run with the score it comes to; one that was made before is read."""
        report(f"{run.method}: making the run at rate {run.learning_rate:g}, {run.steps} steps")
        own = replace(
            tuning,
            method=replace(method, learning_rate=run.learning_rate),
            training=replace(tuning.training, epochs=run.epochs),
        )
        metrics = finetune(own, self.folder / run.method)[0]
        measure = "r2" if NEEDS[tuning.kind].values else "accuracy"
        return replace(run, made=metrics[f"eval_{measure}"])


def take_made(tuning: Tuning, made: Path, out: Path) -> bool:
    """Copy the run in `made` to `out` if it is the one that `tuning` asks for; whether it was."""
    seed = f"seed-{tuning.training.seed}"
    kept, place = made / tuning.method.name / seed, out / seed
    if place.exists() or not (kept / "metrics.json").is_file():
        return False
    if differences(read_json(kept / "settings.json"), settings_of(tuning)):
        return False
    real_folder(out)
    part = out / f".{seed}-part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(kept, part)
    part.rename(place)
    return True
