"""Runs that are made while planning, and kept, so that `tune --plan` need not make them again."""

import hashlib
import json
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
    """At most so many runs, one for a method, each below `folder` in a folder for its settings."""

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
        metrics = finetune(own, _place(self.folder, own))[0]
        measure = "r2" if NEEDS[tuning.kind].values else "accuracy"
        return replace(run, made=metrics[f"eval_{measure}"])


def _place(folder: Path, tuning: Tuning) -> Path:
    """Runs of other settings, as a plan made again may try, go to other folders."""
    settings = json.dumps(settings_of(tuning), sort_keys=True)
    return folder / f"{tuning.method.name}-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"


def take_made(tuning: Tuning, made: Path, out: Path) -> bool:
    """Copy the run in `made` to `out` that `tuning` asks for; whether there was one."""
    seed, asked = f"seed-{tuning.training.seed}", settings_of(tuning)
    place, part = out / seed, out / f".{seed}-part"
    if place.exists():
        return False
    for kept in sorted(made.glob(f"*/{seed}/metrics.json")):
        if not differences(read_json(kept.with_name("settings.json")), asked):
            real_folder(out)
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(kept.parent, part)
            part.rename(place)
            return True
    return False
