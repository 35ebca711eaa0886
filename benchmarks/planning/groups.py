"""Planned runs beside real ones: those of one method on one task, and all methods of a task together."""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attangent.tuning.planning.choosing import best_run, own_choices, to_make
from attangent.tuning.planning.plan import PlannedRun
from benchmarks.planning.predicted import read_planned
from benchmarks.planning.real import METHODS, read_run
from benchmarks.planning.tasks import Setting

TRIALS = 2
"""How many runs `attangent plan` makes by default."""
SEEDS = 2


@dataclass(frozen=True)
class Pair:
    """A run as planned and as it came, with one seed or more; the plan is for the first."""

    planned: PlannedRun
    reals: list[dict[str, Any]]

    @property
    def real(self) -> dict[str, Any]:
        return self.reals[0]

    @property
    def accuracy(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(real["accuracy"] for real in self.reals)

    @property
    def loss_off(self) -> float:
        """Of the mean training loss, relative."""
        return self.planned.train_loss / statistics.fmean(self.real["losses"]) - 1

    @property
    def score_off(self) -> float:
        """Of the accuracy on held-out rows, in points."""
        return 100 * (self.planned.score - self.real["accuracy"])

    @property
    def inside(self) -> bool:
        return self.planned.low <= self.real["accuracy"] <= self.planned.high


@dataclass(frozen=True)
class Group:
    """The runs of one method on one task: all that are planned, and those that were made too.

    pairs: all rates at full length. others: shorter runs that were made since the plan takes them.
    """

    name: str
    method: str
    planned: list[PlannedRun]
    pairs: list[Pair]
    others: list[Pair]
    seconds: float
    megabytes: float

    @property
    def sure_losses(self) -> list[float]:
        """How far the loss was off, where the plan did not warn of it."""
        return [abs(pair.loss_off) for pair in self.pairs if pair.planned.loss_sure]

    @property
    def sure_scores(self) -> list[float]:
        """How far the accuracy was off, where the plan did not warn of it."""
        return [abs(pair.score_off) for pair in self.pairs if pair.planned.score_sure]

    def pair_of(self, run: PlannedRun) -> Pair | None:
        return next((pair for pair in [*self.pairs, *self.others] if pair.planned == run), None)

    @property
    def chosen(self) -> Pair | None:
        """The run that the plan takes of this method, if it was made."""
        return self.pair_of(self.planned[own_choices(self.planned)[0]])

    @property
    def default(self) -> Pair | None:
        """The run that `tune` makes without a plan."""
        return next((pair for pair in self.pairs if pair.planned.default), None)

    @property
    def best(self) -> float:
        return max(pair.accuracy for pair in self.pairs)

    @property
    def cost(self) -> float:
        """The plan's CPU time over that of the runs it replaces."""
        return self.seconds / self.real_seconds

    @property
    def real_seconds(self) -> float:
        return sum(pair.real["cpu_seconds"] for pair in self.pairs)

    @property
    def rank(self) -> float:
        from scipy.stats import spearmanr

        both = [pair.planned.score for pair in self.pairs], [pair.accuracy for pair in self.pairs]
        return float(spearmanr(*both).statistic) if len(self.pairs) > 2 else float("nan")

    @property
    def silent(self) -> int:
        """Figures that were off by more than 5 % or 2 points, without a warning."""
        return sum(off > 0.05 for off in self.sure_losses) + sum(off > 2 for off in self.sure_scores)

    @property
    def inside(self) -> int:
        return sum(pair.inside for pair in self.pairs)


@dataclass(frozen=True)
class Whole:
    """All methods on one task, as `attangent plan` is asked by default."""

    groups: list[Group]

    @property
    def _tried(self) -> tuple[list[PlannedRun], list[int]]:
        """The runs with the scores of those that the plan makes, and which those are."""
        runs = [run for group in self.groups for run in group.planned]
        made = to_make(runs, TRIALS)
        for place in made:
            pair = self._pair(runs[place])
            runs[place] = replace(runs[place], made=None if pair is None else pair.real["accuracy"])
        return runs, made

    def _pair(self, run: PlannedRun) -> Pair | None:
        own = replace(run, made=None)
        return next((pair for group in self.groups if (pair := group.pair_of(own)) is not None), None)

    @property
    def taken(self) -> Pair | None:
        runs, _ = self._tried
        return self._pair(runs[best_run(runs)])

    @property
    def without_trials(self) -> Pair | None:
        runs = [run for group in self.groups for run in group.planned]
        return self._pair(runs[best_run(runs)])

    @property
    def default(self) -> Pair | None:
        return self.groups[0].default

    @property
    def best(self) -> float:
        return max(group.best for group in self.groups)

    @property
    def cost(self) -> float:
        """The CPU time of plans and of the runs made while planning, over that of all runs."""
        runs, made = self._tried
        pairs = [pair for place in made if (pair := self._pair(runs[place])) is not None]
        took = sum(group.seconds for group in self.groups) + sum(pair.real["cpu_seconds"] for pair in pairs)
        return took / sum(group.real_seconds for group in self.groups)


def groups(settings: tuple[Setting, ...], folder: Path) -> list[Group]:
    found = [_group(setting, method, folder) for setting in settings for method in METHODS]
    return [group for group in found if group is not None and group.pairs]


def _group(setting: Setting, method: str, folder: Path) -> Group | None:
    plan = read_planned(folder, setting, method)
    if plan is None:
        return None
    runs = [run_of(content) for content in plan["runs"]]
    longest = max(run.epochs for run in runs)
    pairs: list[Pair] = []
    others: list[Pair] = []
    for run in runs:
        made = [
            read_run(folder, setting, method, run.learning_rate, run.epochs, seed) for seed in range(SEEDS)
        ]
        if made[0] is not None:
            pair = Pair(run, [one for one in made if one is not None])
            (pairs if run.epochs == longest else others).append(pair)
    return Group(setting.name, method, runs, pairs, others, plan["cpu_seconds"], plan["megabytes"])


def run_of(content: dict[str, Any]) -> PlannedRun:
    return PlannedRun(**{**content, "curve": tuple(content["curve"])})


def wholes(found: list[Group]) -> list[Whole]:
    """The tasks whose runs are all there."""
    names = list(dict.fromkeys(group.name for group in found))
    by_name = [[group for group in found if group.name == name] for name in names]
    whole = [own for own in by_name if len(own) == len(METHODS) and all(len(g.pairs) == 8 for g in own)]
    return [Whole(own) for own in whole]
