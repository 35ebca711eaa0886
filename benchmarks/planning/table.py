"""Planned beside real: a table for each task and method, and pictures."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._files import writing
from attangent.tuning.planning.plan import PlannedRun, best_run
from benchmarks.planning.predicted import read_planned
from benchmarks.planning.real import METHODS, read_run
from benchmarks.planning.tasks import Setting


@dataclass(frozen=True)
class Pair:
    """A run as planned and as it came."""

    planned: PlannedRun
    real: dict[str, Any]

    @property
    def loss_off(self) -> float:
        """Of the mean training loss, relative."""
        return self.planned.train_loss / statistics.fmean(self.real["losses"]) - 1

    @property
    def score_off(self) -> float:
        """Of the accuracy on held-out rows, in points."""
        return 100 * (self.planned.score - self.real["accuracy"])


@dataclass(frozen=True)
class Group:
    """All rates of one method on one task, at full length."""

    name: str
    method: str
    pairs: list[Pair]
    seconds: float
    megabytes: float

    @property
    def following(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.planned.follows]

    @property
    def chosen(self) -> Pair:
        return self.pairs[best_run([pair.planned for pair in self.pairs])]

    @property
    def lost(self) -> float:
        """Points that the chosen rate is below the best one."""
        return 100 * (max(pair.real["accuracy"] for pair in self.pairs) - self.chosen.real["accuracy"])

    @property
    def cost(self) -> float:
        """The plan's CPU time over that of the runs it replaces."""
        return self.seconds / sum(pair.real["cpu_seconds"] for pair in self.pairs)

    @property
    def rank(self) -> float:
        from scipy.stats import spearmanr

        both = [pair.planned.score for pair in self.pairs], [pair.real["accuracy"] for pair in self.pairs]
        return float(spearmanr(*both).statistic) if len(self.pairs) > 2 else float("nan")

    @property
    def silent(self) -> int:
        """Runs that were off by more than 5 % in loss or 2 points, without a warning."""
        return sum(abs(pair.loss_off) > 0.05 or abs(pair.score_off) > 2 for pair in self.following)

    @property
    def inside(self) -> int:
        return sum(pair.planned.low <= pair.real["accuracy"] <= pair.planned.high for pair in self.pairs)


def groups(settings: tuple[Setting, ...], folder: Path) -> list[Group]:
    found = []
    for setting in settings:
        for method in METHODS:
            plan = read_planned(folder, setting, method)
            if plan is None:
                continue
            runs = [_run(run) for run in plan["runs"]]
            longest = max(run.epochs for run in runs)
            pairs = []
            for run in runs:
                real = read_run(folder, setting, method, run.learning_rate)
                if real is not None and run.epochs == longest:
                    pairs.append(Pair(run, real))
            if pairs:
                found.append(Group(setting.name, method, pairs, plan["cpu_seconds"], plan["megabytes"]))
    return found


def _run(content: dict[str, Any]) -> PlannedRun:
    return PlannedRun(**{**content, "curve": tuple(content["curve"])})


def table(found: list[Group]) -> str:
    lines = [
        "| task | method | runs | follow | loss off | accuracy off | rank | points lost | in interval "
        "| unwarned | cost | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        follow = group.following
        loss = f"{100 * _mean([abs(pair.loss_off) for pair in follow]):.1f} %"
        score = f"{_mean([abs(pair.score_off) for pair in follow]):.1f}"
        whole = len(group.pairs) == 8
        lines.append(
            f"| {group.name} | {group.method} | {len(group.pairs)} | {len(follow)} | {loss} | {score} | "
            + (f"{group.rank:.2f} | {group.lost:.1f} | " if whole else "| | ")
            + f"{group.inside} | {group.silent} | "
            + (f"{group.cost:.2f} | " if whole else "| ")
            + f"{group.megabytes:.0f} |"
        )
    return "\n".join(lines)


def detail(found: list[Group]) -> str:
    """Every run: planned and real."""
    lines = [
        "| task | method | rate | departure | loss | real | accuracy | real |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        for pair in group.pairs:
            run, mark = pair.planned, "" if pair.planned.follows else " !"
            loss = statistics.fmean(pair.real["losses"])
            lines.append(
                f"| {group.name} | {group.method} | {run.learning_rate:g} | {run.departure:.2f}{mark} | "
                f"{run.train_loss:.4f} | {loss:.4f} | {run.score:.3f} | {pair.real['accuracy']:.3f} |"
            )
    return "\n".join(lines)


def _mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


def picture(found: list[Group], path: Path) -> None:
    """Accuracy over rates, planned and real, one panel for each task and trained method."""
    from matplotlib.figure import Figure

    shown = [group for group in found if len(group.pairs) == 8]
    names = list(dict.fromkeys(group.name for group in shown))
    methods = list(dict.fromkeys(group.method for group in shown))
    figure = Figure(figsize=(3.2 * len(names), 2.7 * len(methods)), layout="constrained")
    panels: Any = figure.subplots(len(methods), len(names), squeeze=False)
    for group in shown:
        panel = panels[methods.index(group.method)][names.index(group.name)]
        _panel(panel, group)
    panels[0][0].legend(frameon=False, fontsize=8)
    with writing(path) as temporary:
        figure.savefig(temporary, dpi=110)


def _panel(panel: Any, group: Group) -> None:
    rates = [pair.planned.learning_rate for pair in group.pairs]
    planned = [pair.planned for pair in group.pairs]
    panel.fill_between(
        rates, [run.low for run in planned], [run.high for run in planned], color="#1f5fa8", alpha=0.15, lw=0
    )
    panel.plot(rates, [run.score for run in planned], "o-", ms=4, color="#1f5fa8", label="planned")
    wild = [(run.learning_rate, run.score) for run in planned if not run.follows]
    if wild:
        panel.plot(*zip(*wild, strict=True), "o", ms=7, mfc="none", color="#1f5fa8", label="warned")
    panel.plot(
        rates, [pair.real["accuracy"] for pair in group.pairs], "s-", ms=4, color="#c8553d", label="real"
    )
    panel.axvline(group.chosen.planned.learning_rate, color="#999999", lw=0.8, ls=":")
    panel.set_xscale("log")
    panel.set_title(f"{group.name}, {group.method}", loc="left", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
