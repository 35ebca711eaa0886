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
    def sure_losses(self) -> list[float]:
        """How far the loss was off, where the plan did not warn of it."""
        return [abs(pair.loss_off) for pair in self.pairs if pair.planned.loss_sure]

    @property
    def sure_scores(self) -> list[float]:
        """How far the accuracy was off, where the plan did not warn of it."""
        return [abs(pair.score_off) for pair in self.pairs if pair.planned.score_sure]

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
        """Figures that were off by more than 5 % or 2 points, without a warning."""
        return sum(off > 0.05 for off in self.sure_losses) + sum(off > 2 for off in self.sure_scores)

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
    """A line for each task and method. Losses: those that the plan is sure of; accuracies: all."""
    lines = [
        "| task | method | runs | sure of loss | loss off | sure of accuracy | accuracy off | in interval "
        "| unwarned | rank | points lost | cost | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        losses, scores = group.sure_losses, [abs(pair.score_off) for pair in group.pairs]
        loss = f"{100 * statistics.fmean(losses):.1f} %" if losses else ""
        whole = len(group.pairs) == 8
        lines.append(
            f"| {group.name} | {group.method} | {len(group.pairs)} | {len(losses)} | {loss} | "
            f"{len(group.sure_scores)} | {statistics.fmean(scores):.1f} | {group.inside} | {group.silent} | "
            + (f"{group.rank:.2f} | {group.lost:.1f} | {group.cost:.2f} | " if whole else "| | | ")
            + f"{group.megabytes:.0f} |"
        )
    return "\n".join(lines)


def summary(found: list[Group]) -> str:
    """All runs together, in words."""
    losses = [off for group in found for off in group.sure_losses]
    sure = [off for group in found for off in group.sure_scores]
    scores = [abs(pair.score_off) for group in found for pair in group.pairs]
    inside = sum(group.inside for group in found)
    whole = [group for group in found if len(group.pairs) == 8]
    lines = [
        f"training loss: sure of {len(losses)} of {len(scores)} runs, {sum(off > 0.05 for off in losses)} of "
        f"them off by more than 5 %, {100 * statistics.fmean(losses or [0]):.1f} % on the mean",
        f"accuracy: sure of {len(sure)} runs, {sum(off > 2 for off in sure)} of them off by more than 2 "
        f"points; {statistics.fmean(scores):.1f} points on the mean over all; {inside} inside the interval",
        "points lost by the choice: "
        + ", ".join(f"{group.name} {group.method} {group.lost:.1f}" for group in whole),
        f"cost: {sum(g.seconds for g in whole):.0f} s of CPU in place of "
        f"{sum(pair.real['cpu_seconds'] for g in whole for pair in g.pairs):.0f} s",
    ]
    return "\n".join(lines)


def detail(found: list[Group]) -> str:
    """Every run: planned and real; ? where the plan is not sure of a figure."""
    lines = [
        "| task | method | rate | departure | loss | real | accuracy | real |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in found:
        for pair in group.pairs:
            run = pair.planned
            loss, score = ("" if sure else "?" for sure in (run.loss_sure, run.score_sure))
            lines.append(
                f"| {group.name} | {group.method} | {run.learning_rate:g} | {run.departure:.2f} | "
                f"{run.train_loss:.4f}{loss} | {statistics.fmean(pair.real['losses']):.4f} | "
                f"{run.score:.3f}{score} | {pair.real['accuracy']:.3f} |"
            )
    return "\n".join(lines)


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
    wild = [(run.learning_rate, run.score) for run in planned if not run.score_sure]
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
